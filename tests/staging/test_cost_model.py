"""The cost model against numbers worked out, and some measured, elsewhere."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging import advice
from dataprep.staging.advice import Estimates, Machine, read_speeds

GB = 10**9
IMAGENET_LMDB = 42 * GB  # SURF's README for Caffe on Stampede2: "around 42GB"
NODES = 1536  # of that work's largest run
SHARD = 27_000_000

# Nothing is slow but what a test makes slow.
INSTANT = Machine(pfs=1e9, ost=0, nic=1e9, local=1e9, hash=0)


def estimate(
    total: int, largest: int, nodes: int, machine: Machine, *, replicas: int = 1, obstacle: str = ""
) -> Estimates:
    """With shares that are even."""
    replicas = min(replicas, nodes)
    part = total * replicas / nodes
    return advice.estimate(total, largest, nodes, machine, replicas, part, obstacle)


def machine(**speeds: float) -> Machine:
    return read_speeds([f"{name}={value}" for name, value in speeds.items()], INSTANT)


@pytest.mark.parametrize(
    ("total", "pfs", "seconds"),
    [
        (42, 100, 645),
        (42, 250, 258),
        (42, 1000, 65),
        (150, 100, 2304),
        (150, 250, 922),
        (150, 1000, 230),
    ],
)
def test_everything_is_read_as_often_as_there_are_nodes(total: int, pfs: int, seconds: int) -> None:
    found = estimate(total * GB, SHARD, NODES, machine(pfs=pfs)).everything
    assert round(found.seconds) == seconds
    assert found.read_bytes == NODES * total * GB
    assert found.together == pytest.approx(pfs)
    assert found.limit == "parallel file system"


@pytest.mark.parametrize(("stripes", "hours"), [(1, 35.84), (64, 0.56)])  # "36 h", "34 min"
def test_one_file_on_few_targets_makes_all_nodes_wait_for_those(stripes: int, hours: float) -> None:
    lustre = machine(pfs=100, ost=0.5, stripes=stripes)
    found = estimate(IMAGENET_LMDB, IMAGENET_LMDB, NODES, lustre).everything
    assert found.seconds / 3600 == pytest.approx(hours)
    assert found.limit == "largest file's stripes"
    assert found.together == pytest.approx(stripes * 0.5)


@pytest.mark.parametrize(
    ("total", "local", "seconds"),
    [
        # Stampede2's SATA drives, Frontier's NVMe (2 GB/s, OLCF), Polaris' PM1725a.
        (42, 0.4, 105),
        (42, 2.0, 21),
        (42, 3.3, 13),
        (150, 0.4, 375),
        (150, 2.0, 75),
        (150, 3.3, 45),
    ],
)
def test_a_broadcast_takes_as_long_as_a_node_writes(total: int, local: float, seconds: int) -> None:
    found = estimate(total * GB, SHARD, NODES, machine(local=local)).broadcast
    assert round(found.seconds) == seconds
    assert found.read_bytes == found.node_bytes == total * GB
    assert found.limit == "storage"


def test_a_broadcast_passes_through_all_nodes() -> None:
    found = estimate(10 * GB, SHARD, 1001, machine(nic=4.194304)).broadcast
    assert found.seconds == pytest.approx(10 / 4.194304 + 1.0)
    assert found.limit == "network"


@pytest.mark.parametrize(("total", "part"), [(42, 27), (150, 98)])  # MB
def test_a_share_is_read_once_together(total: int, part: int) -> None:
    found = estimate(total * GB, SHARD, NODES, machine(pfs=100)).share
    assert round(found.node_bytes / 1e6) == part
    assert found.read_bytes == pytest.approx(total * GB)
    assert found.seconds == pytest.approx(total / 100)
    assert found.obstacle == ""


def test_replicas_multiply_what_is_read_up_to_everything() -> None:
    found = estimate(42 * GB, SHARD, 8, machine(pfs=1, ost=0.01), replicas=2).share
    assert (found.seconds, found.node_bytes) == (84, 10.5 * GB)
    most = estimate(42 * GB, SHARD, 8, machine(pfs=1, ost=0.01), replicas=100)
    assert most.share.read_bytes == most.everything.read_bytes
    assert most.share.seconds == most.everything.seconds


def test_hashing_one_file_takes_one_core() -> None:
    # Measured: 1.15 GB/s of SHA-256 on a core, so 36 s for 42 GB in one stream.
    hashing = machine(hash=1.15, streams=8)
    one = estimate(IMAGENET_LMDB, IMAGENET_LMDB, 4, hashing).everything
    many = estimate(IMAGENET_LMDB, SHARD, 4, hashing).everything
    assert (one.limit, one.seconds) == ("hashing", pytest.approx(36.5, abs=0.1))
    assert many.seconds == pytest.approx(one.seconds / 8)


def mode(found: Estimates) -> str | None:
    chosen = found.choose()
    return chosen and chosen.mode


@pytest.mark.parametrize(
    ("nodes", "speeds", "chosen"),
    [
        (4, {"pfs": 100, "local": 2}, "everything"),  # as quick as a broadcast, without MPI
        (60, {"pfs": 100, "local": 2}, "everything"),  # 25 s; a broadcast's 21 s are not worth MPI
        (70, {"pfs": 100, "local": 2}, "broadcast"),  # 21 s, not 29 s
        (NODES, {"pfs": 100, "local": 2}, "broadcast"),
        (NODES, {"pfs": 100, "local": 2, "scratch": 42}, "broadcast"),  # it just fits
        (NODES, {"pfs": 100, "local": 2, "scratch": 41.9}, "share"),
        (NODES, {"pfs": 100, "local": 2, "scratch": 0.02}, None),
        (1, {"pfs": 0.1}, "everything"),
        (1, {"scratch": 1}, None),
    ],
)
def test_the_quickest_is_chosen_that_gives_every_node_everything(
    nodes: int, speeds: dict[str, float], chosen: str | None
) -> None:
    assert mode(estimate(IMAGENET_LMDB, SHARD, nodes, machine(**speeds))) == chosen


def test_what_cannot_be_shared_is_said() -> None:
    found = estimate(IMAGENET_LMDB, IMAGENET_LMDB, 2, machine(scratch=32), obstacle="too few")
    assert found.table()[2].endswith("-  too few")
    assert found.choose() is None
    assert found.table()[-1] == "best: stage nothing: read the data where they are"


def test_the_table_is_aligned_and_ends_with_the_choice() -> None:
    lustre = machine(pfs=100, ost=0.5, local=2, nic=12.5, scratch=32)
    table = estimate(IMAGENET_LMDB, SHARD, NODES, lustre).table()
    assert table == [
        "            per node     read   time    together  limited by",
        "everything   42.0 GB  64.5 TB      -           -  impossible: a node has 32.0 GB",
        "share        27.3 MB  42.0 GB  0.4 s  100.0 GB/s  parallel file system",
        "broadcast    42.0 GB  42.0 GB      -           -  impossible: a node has 32.0 GB",
        "best: a share for every node (--share node), which then sees the same records every epoch",
    ]


def test_the_table_words_times_and_choices() -> None:
    slow = estimate(IMAGENET_LMDB, IMAGENET_LMDB, NODES, machine(pfs=100, ost=0.5, local=0.1))
    text = "\n".join(slow.table())
    assert "  35.8 h  500.0 MB/s  largest file's stripes" in text
    assert "  420 s  153.6 GB/s  storage" in text
    assert slow.table()[-1] == "best: everything, by broadcast (--broadcast mpi)"


@given(
    total=st.integers(0, 10**15),
    largest=st.integers(0, 10**13),
    nodes=st.integers(1, 10_000),
    replicas=st.integers(1, 10),
)
def test_any_data_set_gives_a_table(total: int, largest: int, nodes: int, replicas: int) -> None:
    found = estimate(total, min(total, largest), nodes, Machine(), replicas=replicas)
    assert len({line.rstrip().count("\n") for line in found.table()}) == 1
    for each in (found.everything, found.share, found.broadcast):
        assert math.isfinite(each.seconds)
        # No node takes in more than its storage and its network do.
        assert each.together <= nodes * min(Machine().local, Machine().nic) * (1 + 1e-9)
    assert found.share.read_bytes <= found.everything.read_bytes * (1 + 1e-9)


def test_speeds_of_a_command_line_replace_those_that_are_known() -> None:
    assert read_speeds([], Machine()) == Machine()
    assert read_speeds(["pfs=250", "stripes=64", "pfs=1e3", "ost=0"], Machine()) == Machine(
        pfs=1000, stripes=64, ost=0
    )


@pytest.mark.parametrize(
    "option", ["pfs", "pfs=", "pfs=fast", "pfs=0", "pfs=-1", "pfs=nan", "pfs=inf", "x=1", "=", ""]
)
def test_speeds_that_are_none_are_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"^--speed {option}: "):
        read_speeds([option], Machine())


ROOT = Path(__file__).parents[2]


def test_the_document_has_the_model_s_tables() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "benchmarks.staging_simulated"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.count("1536 nodes") == 3
    assert printed.rstrip("\n") in (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
