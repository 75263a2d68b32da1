"""``--dask_slurm``: what it says, what becomes of it, and the jobs that come and go."""

from __future__ import annotations

import string
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import PipelineError, UsageError
from dataprep_pipelines.runners.dask import slurm_jobs
from dataprep_pipelines.runners.dask.slurm import SlurmWorkers, cluster_class
from dataprep_pipelines.runners.dask.slurm_jobs import SlurmJobs

dask = pytest.importorskip("dask", reason="dask is not installed")
# Not imported to find out: it would be in charge of Ctrl-C from then on.
if find_spec("dask_jobqueue") is None:
    pytest.skip("dask-jobqueue is not installed", allow_module_level=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nodes=4", SlurmWorkers(4)),
        (" nodes = 2 , cores = 8 ,", SlurmWorkers(2, 8)),
        ("nodes=1,partition=batch", SlurmWorkers(1, None, {"queue": "batch"})),
        ("nodes=1,walltime=1-02:00:00", SlurmWorkers(1, None, {"walltime": "1-02:00:00"})),
        ("nodes=1,memory=1.5GiB", SlurmWorkers(1, None, {"memory": "1.5GiB"})),
        (
            "nodes=1,directive=--exclusive,directive=--constraint=nvme,prologue=module load python",
            SlurmWorkers(
                1,
                None,
                {
                    "job_extra_directives": ["--exclusive", "--constraint=nvme"],
                    "job_script_prologue": ["module load python"],
                },
            ),
        ),
    ],
)
def test_it_is_understood(text: str, expected: SlurmWorkers) -> None:
    assert SlurmWorkers.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "say how many: nodes=4"),
        ("cores=4", "say how many: nodes=4"),
        ("nodes=0", "nodes must be a number from 1"),
        ("nodes=٣", "nodes must be a number from 1"),
        ("nodes=-1", "nodes must be a number from 1"),
        ("nodes=2,cores=many", "cores must be a number from 1"),
        ("nodes=2,nodes=3", "nodes is given twice"),
        ("nodes=2,queue=x", "'queue=x' is not one of nodes=, cores="),
        ("nodes=2,partition=", "'partition=' is not one of"),
        ("nodes=2,exclusive", "'exclusive' is not one of"),
        ("nodes=2,memory=much", "memory must be a size with its unit, such as 32GB"),
        ("nodes=2,memory=32", "memory must be a size with its unit, such as 32GB"),
        ("nodes=2,memory=-32GB", "memory must be a size with its unit, such as 32GB"),
    ],
)
def test_what_it_cannot_mean_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        SlurmWorkers.parse(text)
    assert str(caught.value).startswith(f"--dask_slurm {text}: ")
    assert said in str(caught.value)


_WORDS = st.text(string.ascii_letters + string.digits + "-_:/=. ", min_size=1).map(str.strip)


@given(st.integers(1, 10**6), st.integers(1, 1024), st.lists(_WORDS.filter(bool)))
def test_whatever_is_between_commas_arrives(nodes: int, cores: int, directives: list[str]) -> None:
    parts = [f"nodes={nodes}", f"cores={cores}", *(f"directive={word}" for word in directives)]
    workers = SlurmWorkers.parse(",".join(parts))
    assert (workers.nodes, workers.cores) == (nodes, cores)
    assert workers.options.get("job_extra_directives", []) == directives


@given(st.text())
def test_anything_else_is_a_usage_error_or_nothing(text: str) -> None:
    with suppress(UsageError):
        assert SlurmWorkers.parse(text).nodes >= 1


def script(text: str) -> str:
    """The script of the jobs, without starting a scheduler."""
    options = SlurmWorkers.parse(text).cluster_options()
    del options["scheduler_options"]
    written: str = cluster_class().job_cls("tcp://10.0.0.1:8786", name="0", **options).job_script()
    return written


@pytest.mark.parametrize(
    ("cores", "processes", "threads"), [(1, 1, 1), (4, 1, 4), (5, 2, 2), (16, 4, 4), (128, 32, 4)]
)
def test_a_process_has_up_to_four_threads(cores: int, processes: int, threads: int) -> None:
    words = script(f"nodes=1,cores={cores}").split()
    assert words[words.index("--nthreads") + 1] == str(threads)
    assert ("--nworkers" in words) == (processes > 1)
    if processes > 1:
        assert words[words.index("--nworkers") + 1] == str(processes)
    assert f"--cpus-per-task={cores}" in words


def test_memory_is_asked_of_slurm_and_not_counted_by_dask() -> None:
    with_memory = script("nodes=1,cores=4,memory=8GB")
    assert "#SBATCH --mem=8G\n" in with_memory
    assert with_memory.rindex("--memory-limit 0") > with_memory.rindex("--memory-limit 7.45GiB")
    assert "--mem=" not in script("nodes=1,cores=4")


def test_a_site_may_say_how_large_its_nodes_are() -> None:
    with pytest.raises(UsageError, match="how many cores"):
        SlurmWorkers.parse("nodes=1").cluster_options()
    with dask.config.set({"jobqueue.slurm.cores": 8, "jobqueue.slurm.memory": "16GB"}):
        assert "#SBATCH --mem=15G\n" in script("nodes=1")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that answer as Slurm's do, from files in a directory."""
    programs = {
        "sbatch": 'cat >/dev/null; n=$(($(cat number) + 1)); echo $n >number; '
        '[ $n -le "$(cat most)" ] && echo $n || { echo "sbatch: error: too many" >&2; exit 1; }',
        "squeue": "cat states",
        "scancel": 'echo "$@" >cancelled',
    }  # fmt: skip  # a program a line
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{text}\n")
        path.chmod(0o755)
    for name, text in {"number": "0", "most": "99", "states": ""}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(slurm_jobs, "_LOOK_SECONDS", 0.0)
    return tmp_path


def test_a_job_whose_time_is_over_is_replaced_if_it_had_worked(slurm: Path) -> None:
    said: list[str] = []
    workers = ["dataprep-1", "dataprep-2-0", "dataprep-2-1", "somebody else's"]
    jobs = SlurmJobs("a name", "", lambda: workers, slurm / "logs", said.append)
    jobs.submit(3)
    (slurm / "states").write_text("1 RUNNING\n2 RUNNING\n3 PENDING\n")
    assert jobs.attend()
    assert said == ["Slurm: 3 worker jobs submitted"]

    workers[:] = ["dataprep-1"]
    (slurm / "states").write_text("1 RUNNING\n2 TIMEOUT\n3 TIMEOUT\n")
    assert jobs.attend()
    assert said[1:] == [
        "Slurm: the worker job 2 has ended: TIMEOUT",
        "Slurm: the worker job 3 has ended: TIMEOUT",
        "Slurm: 1 worker job submitted",
    ]

    workers[:] = []
    (slurm / "states").write_text("1 FAILED\n4 PENDING\n")
    assert jobs.attend()
    assert said[4:] == ["Slurm: the worker job 1 has ended: FAILED"]

    (slurm / "states").write_text("4 CANCELLED\n")
    with pytest.raises(PipelineError, match="no worker job is left in Slurm"):
        jobs.attend()
    jobs.cancel()
    assert "--name=a name" in (slurm / "cancelled").read_text()


def test_a_job_that_slurm_has_forgotten_is_gone(slurm: Path) -> None:
    jobs = SlurmJobs("name", "", list, slurm / "logs", lambda _: None)
    jobs.submit(1)
    with pytest.raises(PipelineError, match="no worker job is left in Slurm"):
        jobs.attend()


def test_a_controller_that_does_not_answer_says_nothing_of_jobs(slurm: Path) -> None:
    jobs = SlurmJobs("name", "", list, slurm / "logs", lambda _: None)
    jobs.submit(1)
    (slurm / "states").unlink()
    assert not jobs.attend()
    (slurm / "states").write_text("1 COMPLETING\n")
    assert jobs.attend()


def test_some_jobs_that_are_refused_are_told_and_all_are_an_error(slurm: Path) -> None:
    said: list[str] = []
    (slurm / "most").write_text("2")
    SlurmJobs("name", "", list, slurm / "logs", said.append).submit(5)
    assert said == ["Slurm: 2 worker jobs submitted, 3 refused: too many"]
    with pytest.raises(PipelineError, match="Slurm refuses the worker jobs: too many"):
        SlurmJobs("name", "", list, slurm / "logs", said.append).submit(1)


def test_without_slurm_it_says_so(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (slurm / "bin" / "sbatch").unlink()
    monkeypatch.setenv("PATH", f"{slurm}/bin")
    with pytest.raises(PipelineError, match="not installed here"):
        SlurmJobs("name", "", list, slurm / "logs", lambda _: None).submit(2)


def test_dask_jobqueue_does_not_take_ctrl_c() -> None:
    script = """
import os, signal
from dataprep_pipelines.runners.dask.slurm import cluster_class
print(cluster_class().__name__)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("ours")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "SLURMCluster\nours\n", done.stderr
