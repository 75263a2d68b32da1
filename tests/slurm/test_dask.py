"""Workers on the nodes of a real Slurm, and all that may happen to them, their jobs and us."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from PIL import Image

from tests.conftest import Made, Raw, hashes, leftovers, make
from tests.faults.conftest import commits
from tests.slurm.cluster import OPEN_MPI, Cluster, Ended, Started

# Not imported to find out: dask-jobqueue would be in charge of Ctrl-C from then on.
pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="dask-jobqueue is not installed"),
]

JOBS = Path(__file__).parents[2] / "docker" / "jobs"
_ONE_WAITS = "nodes=5,cores=1,directive=--exclusive"  # of a cluster of four


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """304 links to one photograph, in 6 + 1 shards of a second of work."""
    path = tmp_path_factory.mktemp("photographs")
    photo, raw = path / "photo.jpg", path / "raw"
    Image.effect_noise((500, 375), 60).convert("RGB").save(photo, quality=92)
    names = [f"validation/ILSVRC2012_val_{number:08d}" for number in range(1, 5)]
    for synset in ("n01440764", "n02097658", "n03720891"):
        names += [f"train/{synset}/{synset}_{number}" for number in range(100)]
    for name in names:
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / f"{name}.JPEG").symlink_to(photo)
    options = ("--num_shards", "train=6,validation=1", "--resize", "700")
    return make(Raw(raw, options), path / "out")


@pytest.fixture(autouse=True)
def no_job_is_left(cluster: Cluster) -> Iterator[None]:
    yield
    assert queued(cluster) == []


def queued(cluster: Cluster) -> list[str]:
    """The jobs of the cluster, but for those that are as good as gone."""
    states = "PENDING,RUNNING,CONFIGURING"
    return cluster.run("squeue", "--noheader", f"--states={states}", "--format=%A").out.split()


def writing(out: Path) -> list[psutil.Process]:
    """The workers that are at a shard: those with an unfinished file of it open."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        try:
            if "--multiprocessing-fork" in (process.info["cmdline"] or ()):
                names = [file.path for file in process.open_files()]
                if any(name.startswith(f"{out}/") and ".partial" in name for name in names):
                    found.append(process)
        except psutil.Error:
            continue  # it has ended meanwhile
    return found


def a_writer(cluster: Cluster, out: Path) -> psutil.Process:
    found: list[psutil.Process] = []

    def is_there() -> bool:
        found.extend(writing(out))
        return bool(found)

    cluster.until(is_there, seconds=60)
    return found[0]


@contextmanager
def lost(cluster: Cluster, node: str) -> Iterator[None]:
    """All that runs on a node is killed but for its slurmd, which answers nobody any more."""
    machine = cluster.on(node, "readlink /proc/self/ns/uts").out.strip()
    daemon = None
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if str(Path(f"/proc/{process.pid}/ns/uts").readlink()) == machine:
                if process.name() == "slurmd":
                    daemon = process
                else:
                    process.kill()
    assert daemon is not None
    daemon.suspend()
    try:
        # The controller would find out by itself, after SlurmdTimeout.
        cluster.run("scontrol", "update", f"nodename={node}", "state=down", "reason=lost")
        yield
    finally:
        daemon.resume()
        # It may have come back by itself.
        cluster.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        cluster.until(lambda: state_of(cluster, node) == "idle")


def state_of(cluster: Cluster, node: str) -> str:
    return cluster.run("sinfo", "--noheader", "--format=%t", f"--nodes={node}").out.strip()


def batch(cluster: Cluster, made: Made, out: Path, *options: str) -> int:
    """Submit the job script that we ship."""
    return cluster.submit(
        (JOBS / "dask.sbatch").read_text(),
        *("--nodes=3", "--cpus-per-task=1", "--time=10", *options),
        arguments=made.raw.options,
        RAW=str(made.raw.path),
        OUT=str(out),
        SHARED=str(cluster.root),
        LOCAL=str(cluster.scratch),
    )


def launch(
    cluster: Cluster, made: Made, out: Path, slurm: str = "nodes=2,cores=1,memory=500MB"
) -> AbstractContextManager[Started]:
    """Let dataprep submit the workers."""
    words = made.command(out, "--runner", "dask", "--dask_slurm", slurm)
    # A worker whose launcher is gone before it begins waits so long.
    return cluster.start("dataprep", *words, DASK_JOBQUEUE__SLURM__DEATH_TIMEOUT="5")


def is_as_on_one_machine(made: Made, out: Path, ended: Ended) -> None:
    assert ended.code == 0, ended.out
    assert hashes(out) == made.files, ended.out
    assert leftovers(out) == []


def test_a_batch_job_outlives_its_workers(
    cluster: Cluster, photographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = batch(cluster, photographs, out)
    worker = a_writer(cluster, out)
    worker.kill()
    other = a_writer(cluster, out)
    nanny = other.parent()
    assert nanny is not None
    nanny.kill()  # with nobody to start a worker again, the node is lost
    other.kill()
    ended = cluster.wait(job, seconds=120)
    assert "rror: " in ended.out  # srun has seen that node fail
    is_as_on_one_machine(photographs, out, ended)
    assert "Traceback" not in ended.out
    assert re.search("Dask: [1-3] workers?, [1-3] threads?, at tls://", ended.out)
    # What Dask has to say of it is kept.
    assert "distributed" in (cluster.root / f"dask-{job}.log").read_text()


def test_a_batch_job_outlives_a_node(cluster: Cluster, photographs: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    job = batch(cluster, photographs, out, "--nodelist=n0,n1,n2")
    cluster.until(lambda: len(writing(out)) == len(("n0", "n1", "n2")), seconds=60)
    with lost(cluster, "n2"):
        assert state_of(cluster, "n2").startswith("down")
        ended = cluster.wait(job, seconds=120)
    assert "resuming: " not in ended.out, ended.out  # nor begun again, by --requeue
    is_as_on_one_machine(photographs, out, ended)


def test_a_batch_job_stops_in_order_and_another_one_goes_on(
    cluster: Cluster, photographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = batch(cluster, photographs, out)
    cluster.until(lambda: bool(commits(out)), seconds=60)
    # As --signal of the script has it done.
    cluster.run("scancel", "--batch", "--signal=TERM", job)
    assert cluster.wait(job, seconds=60).code == 143
    assert leftovers(out) == []
    ended = cluster.wait(batch(cluster, photographs, out), seconds=120)
    assert "resuming: " in ended.out, ended.out
    assert "Traceback" not in ended.out
    is_as_on_one_machine(photographs, out, ended)


def test_workers_are_submitted_and_one_that_is_cancelled_is_not_missed(
    cluster: Cluster, photographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with launch(cluster, photographs, out, "nodes=2,cores=2") as launched:
        worker = a_writer(cluster, out)
        environment = worker.environ()
        asked = [" ".join(each.cmdline()) for each in worker.parents()]
        (key,) = (out / ".dataprep").glob(".slurm.*")
        assert any(f"--tls-key {key} --protocol tls://" in words for words in asked), asked
        assert environment["OMP_NUM_THREADS"] == "1"
        cluster.run("scancel", environment["SLURM_JOB_ID"])
        is_as_on_one_machine(photographs, out, launched.end(seconds=120))
    assert not key.exists()


def test_ctrl_c_cancels_the_worker_jobs(
    cluster: Cluster, photographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with launch(cluster, photographs, out, _ONE_WAITS) as launched:
        a_writer(cluster, out)
        ended = launched.end(signal.SIGINT)
    assert ended.code == 130, ended.out
    assert queued(cluster) == []
    assert leftovers(out) == []


def test_worker_jobs_of_a_killed_launcher_end_by_themselves(
    cluster: Cluster, photographs: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with launch(cluster, photographs, out, _ONE_WAITS) as launched:
        cluster.until(lambda: bool(commits(out)), seconds=60)
        launched.end(signal.SIGKILL)
    cluster.until(lambda: not queued(cluster), seconds=60)
    ended = cluster.run("dataprep", *photographs.command(out), seconds=120)
    assert "resuming: " in ended.out
    is_as_on_one_machine(photographs, out, ended)


@pytest.mark.skipif(
    not (find_spec("dask_mpi") and find_spec("mpi4py") and shutil.which("mpirun.openmpi")),
    reason="dask-mpi, mpi4py and Debian's openmpi-bin are not all installed",
)
def test_workers_may_be_ranks_of_mpi(cluster: Cluster, tiny: Made, tmp_path: Path) -> None:
    out, file = tmp_path / "out", tmp_path / "scheduler.json"
    words = tiny.command(out, "--runner", "dask", "--dask_scheduler_file", file)
    script = f"""#!/bin/bash
#SBATCH --nodes=3 --ntasks-per-node=1
mpirun.openmpi --map-by ppr:1:node dask-mpi --scheduler-file {file} --nthreads 1 \\
  --memory-limit 0 --no-dashboard --dashboard-address 127.0.0.1:0 &
dataprep {" ".join(words)}
code=$?
kill %1
wait
exit $code
"""
    ended = cluster.wait(cluster.submit(script, **OPEN_MPI), seconds=120)
    is_as_on_one_machine(tiny, out, ended)
    assert re.search("Dask: [12] workers?, [12] threads?", ended.out)  # the others may come later
