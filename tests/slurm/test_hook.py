"""What `dataprep hook slurm` prints, submitted: from the first byte to the last copy's removal."""

from __future__ import annotations

import os
import random
import shlex
import shutil
from pathlib import Path

import pytest

from tests.conftest import Cli, Made
from tests.slurm.cluster import NODES, Cluster

pytestmark = pytest.mark.slurm

TRAINING = """srun bash -c 'ls "$DATA_DIR"'"""
WAITING = "bash -c 'echo training; sleep 60'"


@pytest.fixture
def source(tiny: Made, tmp_path: Path) -> Path:
    """The tiny set, at a place with blanks and quotes in its name."""
    path = tmp_path / 'it\'s the "tiny" $set'
    shutil.copytree(tiny.out, path)
    return path


def hook(cli: Cli, *words: object) -> str:
    result = cli("hook", "slurm", *words)
    assert result.code == 0, result
    assert "--epilog" in words or result.out.endswith(f"  {TRAINING}\n")
    return result.out


def left(cluster: Cluster) -> dict[str, list[str]]:
    """What is still staged, by node."""
    return {node: cluster.listing(node) for node in NODES if cluster.listing(node)}


def test_it_runs_as_it_is_printed(cluster: Cluster, cli: Cli, source: Path) -> None:
    ended = cluster.wait(cluster.submit(hook(cli, source)))
    assert ended.code == 0, ended.out
    assert ended.out.splitlines().count("manifest.json") == len(NODES), ended.out
    assert "copied to 4 nodes" in ended.out
    assert "rror" not in ended.out
    assert left(cluster) == {}


def test_a_node_that_is_too_full_is_exit_code_4_for_all_and_no_training(
    cluster: Cluster, cli: Cli, source: Path
) -> None:
    cluster.fill("n3", but=200_000)
    ended = cluster.wait(cluster.submit(hook(cli, source)))
    assert ended.code == 4, ended.out
    assert "nothing was copied" in ended.out
    assert ended.out.count("needed in") == len(NODES)
    assert "manifest.json\n" not in ended.out
    assert left(cluster).keys() <= {"n3"}


def test_a_job_that_is_cancelled_cleans_every_node(
    cluster: Cluster, cli: Cli, source: Path
) -> None:
    job = cluster.submit(hook(cli, source).replace(TRAINING, WAITING))
    cluster.until_said(job, "training\n")
    assert left(cluster).keys() == set(NODES)
    cluster.run("scancel", job)
    ended = cluster.wait(job)
    assert ended.code != 0
    assert left(cluster) == {}, ended.out


# Imported by Python at its start: a signal is answered late, as where a disk holds up the copier.
_SLOW_TO_STOP = """
import signal, time
install = signal.signal
def install_slow(number, handler):
    def answer(*given):
        time.sleep(3)
        handler(*given)
    return install(number, answer if callable(handler) else handler)
signal.signal = install_slow
"""


def test_a_job_that_is_cancelled_while_it_stages_cleans_every_node(
    cluster: Cluster, cli: Cli, tmp_path: Path
) -> None:
    source, slow = tmp_path / "source", tmp_path / "slow"
    for path in (source, slow):
        path.mkdir()
    (source / "data").write_bytes(random.Random(0).randbytes(8_000_000))
    (slow / "sitecustomize.py").write_text(_SLOW_TO_STOP)
    script = hook(cli, source).replace(" -- ", " --bandwidth 500000 -- ")
    job = cluster.submit(script, PYTHONPATH=f"{slow}:{os.environ.get('PYTHONPATH', '')}")
    for node in NODES:

        def copying(node: str = node) -> bool:
            return any(".partial" in name for name in cluster.listing(node))

        cluster.until(copying)
    cluster.run("scancel", job)
    ended = cluster.wait(job)
    assert ended.code != 0
    assert left(cluster) == {}, ended.out  # not even what staging keeps for itself


def test_a_requeued_job_finds_the_copies_it_kept(cluster: Cluster, cli: Cli, source: Path) -> None:
    choice = f'if [ "${{SLURM_RESTART_COUNT:-}}" ]; then {TRAINING}; else {WAITING}; fi'
    script = hook(cli, source, "--keep").replace(TRAINING, f"bash -c {shlex.quote(choice)}")
    job = cluster.submit(script)
    cluster.until_said(job, "training\n")
    cluster.run("scontrol", "requeue", job)
    ended = cluster.wait(job)
    assert ended.code == 0, ended.out
    assert "nothing to copy to 4 nodes" in ended.out, ended.out
    assert ended.out.splitlines().count("manifest.json") == len(NODES), ended.out
    assert left(cluster) == {}


def test_the_warning_before_the_end_of_the_time_reaches_the_training(
    cluster: Cluster, cli: Cli, source: Path
) -> None:
    training = """srun bash -c 'trap "echo saved; exit 0" USR1; echo training; while :; do
      sleep 0.1; done'"""
    job = cluster.submit(hook(cli, source).replace(TRAINING, training))
    cluster.until(lambda: cluster.output(job).count("training\n") == len(NODES))
    cluster.run("scancel", "--batch", "--signal=USR1", job)  # as --signal=B:USR1@300 does
    ended = cluster.wait(job)
    assert ended.code == 0, ended.out
    assert ended.out.count("saved\n") == len(NODES)
    assert left(cluster) == {}


def test_a_job_whose_time_is_over_cleans_every_node(
    cluster: Cluster, cli: Cli, source: Path
) -> None:
    script = hook(cli, source).replace(TRAINING, WAITING)
    job = cluster.submit(script)
    cluster.until_said(job, "training\n")
    # What Slurm does at the end of the time: TERM to all of the job, no new steps.
    cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=0")
    ended = cluster.wait(job, seconds=100)
    assert ended.code != 0
    assert left(cluster) == {}, ended.out


def test_the_epilog_removes_what_a_killed_job_left_behind(
    cluster: Cluster, cli: Cli, source: Path
) -> None:
    other = source.with_name("other")
    source.rename(other).joinpath("notes").touch()
    shutil.copytree(other, source)
    both = f"dataprep stage {shlex.quote(str(source))} && dataprep stage {other} --shared"
    job = cluster.submit(f"#!/bin/bash\n#SBATCH --nodes=4\nsrun bash -c {shlex.quote(both)}\n")
    ended = cluster.wait(job)
    assert ended.code == 0, ended.out
    assert left(cluster).keys() == set(NODES)
    epilog = cluster.root / "epilog"
    epilog.write_text(
        hook(cli, "--epilog")
        .replace("/usr/local/bin/dataprep", str(cluster.root / "bin" / "dataprep"))
        .replace("/local/scratch", str(cluster.scratch))
    )
    for node in NODES:
        # All that Slurm tells an Epilog of the job that matters here; and no PATH.
        words = f"env -i SLURM_JOB_ID={job} SLURM_JOB_USER=root SLURM_JOB_UID=0 bash '{epilog}'"
        ended = cluster.on(node, words)
        assert ended.out.count("removed") == 2, ended.out
    assert left(cluster) == {}
