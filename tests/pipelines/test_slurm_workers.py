"""``--dask_slurm``: what it says, what becomes of it, and how jobs are submitted and cancelled."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from dataprep.errors import PipelineError, UsageError
from dataprep_pipelines.runners import dask_slurm
from dataprep_pipelines.runners.dask_slurm import (
    cluster_class,
    cluster_options,
    parse_slurm,
    slurm_cluster,
)

dask = pytest.importorskip("dask", reason="dask is not installed")
# Not imported to find out: it would be in charge of Ctrl-C from then on.
if find_spec("dask_jobqueue") is None:
    pytest.skip("dask-jobqueue is not installed", allow_module_level=True)


def test_it_is_understood() -> None:
    text = " nodes = 2 , cores=8,directive=--exclusive,directive=--constraint=nvme,prologue=ml Py ,"
    assert parse_slurm(text) == {
        "nodes": 2,
        "cores": 8,
        "job_extra_directives": ["--exclusive", "--constraint=nvme"],
        "job_script_prologue": ["ml Py"],
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "say how many: nodes=4"),
        ("nodes=0", "say how many: nodes=4"),
        ("nodes=many,cores=2", "say how many: nodes=4"),
        ("nodes=2,queue=batch", "'queue=batch' is not one of nodes=, cores="),
        ("nodes=2,exclusive", "'exclusive' is not one of"),
        ("nodes=2,partition=", "'partition=' is not one of"),
    ],
)
def test_anything_else_says_what_it_expected(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"--dask_slurm .*{said}"):
        parse_slurm(text)


def script(text: str) -> str:
    """The script of the jobs, without starting a scheduler."""
    options = cluster_options(text, Path("logs"))
    del options["scheduler_options"]
    written: str = cluster_class().job_cls("tcp://10.0.0.1:8786", name="0", **options).job_script()
    return written


@pytest.mark.parametrize(("cores", "processes", "threads"), [(1, 1, 1), (5, 2, 2), (128, 32, 4)])
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
        cluster_options("nodes=1", Path("logs"))
    with dask.config.set({"jobqueue.slurm.cores": 8, "jobqueue.slurm.memory": "16GB"}):
        assert "#SBATCH --mem=15G\n" in script("nodes=1")


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that answer as Slurm's do, from files in a directory."""
    programs = {
        "sbatch": '[ -e refuse ] && { echo "sbatch: error: too many" >&2; exit 1; }; '
        'echo $$ >>jobs; echo "Submitted batch job $$"',
        "squeue": "cat waiting",
        "scancel": 'echo "$@" >>cancelled',
    }  # fmt: skip  # a program a line
    for name, text in programs.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ncd '{tmp_path}'\n{text}\n")
        path.chmod(0o755)
    (tmp_path / "waiting").write_text("PENDING\n")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setattr(dask_slurm, "_LOOK_SECONDS", 0.0)
    return tmp_path


def test_jobs_are_submitted_waited_for_and_cancelled(slurm: Path) -> None:
    said: list[str] = []
    with slurm_cluster("nodes=3,cores=1", slurm / "logs", said.append) as (_, jobs_are_left):
        assert said == ["Slurm: 3 worker jobs submitted"]
        assert jobs_are_left()
        (slurm / "waiting").unlink()  # a controller that does not answer says nothing of jobs
        assert jobs_are_left()
        (slurm / "waiting").write_text("")
        with pytest.raises(PipelineError, match="no worker job is left in Slurm"):
            jobs_are_left()
    assert sorted((slurm / "cancelled").read_text().split()) == sorted(
        (slurm / "jobs").read_text().split()
    )


def test_what_slurm_refuses_is_told_in_its_words(slurm: Path) -> None:
    (slurm / "refuse").touch()
    with pytest.raises(PipelineError, match="Slurm refuses the worker jobs: too many"):  # noqa: SIM117
        with slurm_cluster("nodes=1,cores=1", slurm / "logs", lambda _: None):
            pass


def test_dask_jobqueue_does_not_take_ctrl_c() -> None:
    script = """
import os, signal
from dataprep_pipelines.runners.dask_slurm import cluster_class
print(cluster_class().__name__)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("ours")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "SLURMCluster\nours\n", done.stderr
