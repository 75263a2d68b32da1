"""A broadcast reads every byte once, and ends on all nodes alike, whatever happens on one."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.staging.broadcast import Chunk, chunks
from dataprep.staging.mpi import unavailable
from dataprep.staging.source import SourceFile

_PROGRAM = Path(__file__).parent / "mpi_programs" / "nodes.py"
_CHUNK = 1 << 16
_RANKS = 4
_SIZES = {
    "a/large": 48 * _CHUNK + 12345,  # more than is ever under way, and more than one reads
    "a/small": 1,
    "b/c/whole": 8 * _CHUNK,
    "b/empty": 0,
    "odd": 3 * _CHUNK - 1,
    "z": 200 * _CHUNK + 1,
}


def _mpirun() -> str | None:
    beside = Path(sys.executable).parent / "mpirun"
    return str(beside) if beside.exists() else shutil.which("mpirun")


def _reason() -> str | None:
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (dependency group mpi)"
    if _mpirun() is None:
        return "there is no mpirun (dependency group mpi)"
    return None


needs_mpi = pytest.mark.skipif(_reason() is not None, reason=str(_reason()))


@dataclass
class Cluster:
    """Ranks that stand for nodes, each with a target of its own; and what they are to do."""

    path: Path
    files: dict[str, bytes]
    ranks: dict[int, dict[str, Any]] = field(default_factory=dict)
    absent: dict[str, bytes] = field(default_factory=dict)  # listed, but not in the source
    options: dict[str, Any] = field(default_factory=dict)

    def target(self, rank: int) -> Path:
        return self.path / f"target {rank}"

    def scenario(self) -> dict[str, Any]:
        """For the program; the source is made."""
        for name, data in self.files.items():
            place = self.path / "source" / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        (self.path / "results").mkdir()
        return {
            "source": str(self.path / "source"),
            "target": str(self.path / "target {rank}"),
            "files": [
                (name, len(data), hashlib.sha256(data).hexdigest())
                for name, data in sorted({**self.files, **self.absent}.items())
            ],
            "results": str(self.path / "results"),
            "chunk": _CHUNK,
            "ranks": self.ranks,
            **self.options,
        }

    @property
    def results(self) -> list[Any]:
        """What each rank has left behind; None if nothing."""
        paths = [self.path / "results" / f"{rank}.json" for rank in range(_RANKS)]
        return [json.loads(path.read_text()) if path.exists() else None for path in paths]

    def errors(self) -> list[Any]:
        return [result.get("error") for result in self.results]

    def holds(self, rank: int) -> dict[str, bytes]:
        """What is in a rank's target, whatever its name."""
        target = self.target(rank)
        return {
            path.relative_to(target).as_posix(): path.read_bytes()
            for path in target.rglob("*")
            if path.is_file()
        }

    def check_whole_or_absent(self) -> None:
        """No temporary file is left, and what has a final name is right."""
        for rank in range(_RANKS):
            for name, data in self.holds(rank).items():
                assert self.files[name] == data, (rank, name)


def _mpirun_with(path: Path, scenarios: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    config = path / "scenarios.json"
    config.write_text(json.dumps(scenarios))
    return _launched(_RANKS, sys.executable, _PROGRAM, config)


def _launched(ranks: int, *words: str | Path) -> subprocess.CompletedProcess[str]:
    mpirun = _mpirun()
    assert mpirun is not None
    return subprocess.run(
        (mpirun, "--oversubscribe", "-n", str(ranks), *words),
        capture_output=True,
        text=True,
        timeout=250,  # of a busy machine; it takes seconds
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
    )


def _clusters(path: Path) -> dict[str, Cluster]:
    """All scenarios in which no process is killed."""
    source = random.Random(0)
    files = {name: source.randbytes(size) for name, size in _SIZES.items()}
    flipped = bytearray(files["a/large"])
    flipped[len(flipped) // 2] ^= 1
    clusters = {
        "everything": Cluster(path, files),
        "reuse": Cluster(
            path,
            files,
            {
                0: {"lacking": []},
                1: {"lacking": ["odd", "z"]},
                2: {"lacking": ["a/small"]},
                3: {"lacking": [], "verify": "reread"},
            },
            {"nobody lacks it": b"and it is not in the source"},
        ),
        "full": Cluster(path, files, {2: {"limit": 10 * _CHUNK}}),
        "flipped": Cluster(path, files, absent={"a/large": bytes(flipped)}),
        "signal": Cluster(
            path, files, {3: {"signal at": 5 * _CHUNK, "signal": int(signal.SIGTERM)}}
        ),
        # Rank 2 does not know where to copy to, and raises inside.
        "lost": Cluster(path, files, {2: {"target": None}}),
        "lost between": Cluster(path, files, {2: {"fails between": True}}),
        "late": Cluster(path, files, {1: {"late": 0.5}, 0: {"first seconds": 0.1}}),
        # After all failures: the processes are as good as new.
        "again": Cluster(path, files),
    }
    return {
        name: replace(cluster, path=path / name, files=dict(cluster.files))
        for name, cluster in clusters.items()
    }


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Cluster]:
    """All of them, one after the other in the same four processes, for mpirun takes its time."""
    if (reason := _reason()) is not None:
        pytest.skip(reason)
    path = tmp_path_factory.mktemp("clusters")
    clusters = _clusters(path)
    process = _mpirun_with(path, [cluster.scenario() for cluster in clusters.values()])
    assert process.returncode == 0, process
    (path / "said").write_text(process.stderr)
    return clusters


@pytest.mark.parametrize("name", ["everything", "again"])
def test_every_node_gets_everything_and_every_byte_is_read_once(
    played: dict[str, Cluster], name: str
) -> None:
    cluster, total = played[name], sum(_SIZES.values())
    assert cluster.errors() == [None] * _RANKS
    for rank, result in enumerate(cluster.results):
        assert result["unavailable"] is None
        assert (result["index"], result["count"]) == (rank, _RANKS)
        assert sorted(result["copied"]) == sorted(_SIZES)
        assert cluster.holds(rank) == cluster.files
    assert sum(result["read"] for result in cluster.results) == total
    # All links to the file system are used.
    assert min(result["read"] for result in cluster.results) > total // 8
    # The kernel's own count, of everything that any of the processes has read meanwhile.
    assert total <= sum(result["rchar"] for result in cluster.results) < 2 * total


def test_what_a_node_has_is_dropped_there_and_what_all_have_is_not_read(
    played: dict[str, Cluster],
) -> None:
    cluster = played["reuse"]
    assert cluster.errors() == [None] * _RANKS
    copied = [sorted(result["copied"]) for result in cluster.results]
    assert copied == [[], ["odd", "z"], ["a/small"], []]
    assert cluster.holds(1) == {name: cluster.files[name] for name in ("odd", "z")}
    assert cluster.holds(3) == {}
    lacking = sum(_SIZES[name] for name in ("odd", "z", "a/small"))
    assert sum(result["read"] for result in cluster.results) == lacking


def test_a_node_that_is_full_ends_all_with_its_reason(played: dict[str, Cluster]) -> None:
    cluster = played["full"]
    errors = cluster.errors()
    assert "File too large" in errors[2]
    for rank in (0, 1, 3):
        assert errors[rank].startswith("node 2 (")
        assert errors[2] in errors[rank]
    cluster.check_whole_or_absent()
    assert "z" not in cluster.holds(2)


def test_a_flipped_byte_in_the_source_ends_all(played: dict[str, Cluster]) -> None:
    cluster = played["flipped"]
    for rank, error in enumerate(cluster.errors()):
        assert "a/large has SHA-256" in error
        assert "a/large" not in cluster.holds(rank)
    cluster.check_whole_or_absent()


def test_a_signal_to_one_node_stops_all(played: dict[str, Cluster]) -> None:
    cluster = played["signal"]
    assert cluster.results[3]["kind"] == "StoppedError"
    for error in cluster.errors()[:3]:
        assert error.startswith("node 3 (")
        assert "stopped by SIGTERM" in error
    assert sum(result["rchar"] for result in cluster.results) < sum(_SIZES.values()) * 3 / 4
    cluster.check_whole_or_absent()


def test_a_node_that_is_late_is_named_by_node_0(played: dict[str, Cluster]) -> None:
    said = (played["late"].path.parent / "said").read_text()
    assert "dataprep: waiting for node 1 to report, of 4 nodes since " in said


@pytest.mark.parametrize("name", ["lost", "lost between"])
def test_who_has_no_target_can_still_tell_all_others(played: dict[str, Cluster], name: str) -> None:
    cluster = played[name]
    assert cluster.errors()[2] == "too little here"
    for rank in (0, 1, 3):
        assert cluster.errors()[rank].endswith(") failed: too little here")
    # Those with the same exit code.
    kinds = [result["kind"] for result in cluster.results]
    assert kinds == ["NoRoomError"] * _RANKS


@needs_mpi
def test_a_node_that_is_killed_ends_all_and_leaves_nothing_wrong(tmp_path: Path) -> None:
    files = {"z": random.Random(0).randbytes(_SIZES["z"]), "small": b"small"}
    at = {"signal at": 5 * _CHUNK, "signal": int(signal.SIGKILL)}
    cluster = Cluster(tmp_path, files, {1: at})
    process = _mpirun_with(tmp_path, [cluster.scenario()])
    assert process.returncode != 0
    assert cluster.results[1] is None
    for rank in range(_RANKS):
        held = cluster.holds(rank)
        assert "z" not in held, rank
        assert held.get("small", b"small") == b"small"


# One node cannot even begin; or all find that one has too little space.
_FULL_AT_ONCE = """
import os
from dataprep.errors import NoRoomError
from dataprep.staging.directory import StageDirectory
def make(path):
    raise NoRoomError(f"{path} is full")
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    StageDirectory.make = make
"""
_FULL_FOUND = """
import os
import dataprep.staging.copier as copier
from dataprep.system.filesystems import Space
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    copier.space_of = lambda place: Space(1000, 4096)
"""
_SAME_TARGET = """
import sys
sys.argv[-1] = sys.argv[-1][:-1]
"""
_COMMAND = "\nimport sys\nfrom dataprep.cli import entry_point\nsys.exit(entry_point())"


@needs_mpi
@pytest.mark.parametrize(
    ("patch", "ranks", "code"),
    [
        ("", 3, 0),
        (_FULL_AT_ONCE, 3, 4),
        (_FULL_FOUND, 3, 4),
        (_FULL_FOUND, 1, 4),
        (_SAME_TARGET, 3, 1),
    ],
    ids=["whole", "full at once", "found to be full", "MPI knows one process", "one target"],
)
def test_a_batch_script_gets_the_same_exit_code_on_all_nodes(
    tmp_path: Path, patch: str, ranks: int, code: int
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_bytes(b"x" * 100_000)
    # The launch fails if it thinks that a process has crashed.
    script = '"$@" --to "$0$OMPI_COMM_WORLD_RANK"; echo "code $?"'
    words = "stage", tmp_path / "source", "--broadcast", "mpi"
    process = _launched(
        ranks, "bash", "-c", script, tmp_path / "to", sys.executable, "-c", patch + _COMMAND, *words
    )
    assert process.returncode == 0, process
    assert process.stdout.count(f"code {code}\n") == ranks, process
    there = [tmp_path / f"to{rank}" / "file" for rank in range(ranks)]
    assert [path.exists() for path in there] == [code == 0] * ranks
    assert code != 1 or process.stderr.count("start one process a node") == ranks


def test_without_a_launcher_mpi_is_not_even_started() -> None:
    reason = unavailable({"SLURM_STEP_NUM_TASKS": "4"})
    assert reason is not None
    if importlib.util.find_spec("mpi4py") is None:
        assert "install the extra: mpi" in reason
    else:
        assert "use mpirun, or srun" in reason


@given(
    sizes=st.lists(st.integers(0, 100), max_size=12),
    nodes=st.integers(1, 5),
    lanes=st.integers(1, 4),
    length=st.integers(1, 12),
)
def test_every_byte_travels_once_in_order_and_all_nodes_read_as_much(
    sizes: list[int], nodes: int, lanes: int, length: int
) -> None:
    files = [SourceFile(str(number), size) for number, size in enumerate(sizes)]
    order = list(chunks(files, nodes=nodes, lanes=lanes, length=length))
    for file in files:
        own = [chunk for chunk in order if chunk.file == file]
        assert own[0].offset == 0
        assert [chunk.is_last for chunk in own] == [False] * (len(own) - 1) + [True]
        for one, next_one in pairwise(own):
            assert next_one.offset == one.offset + one.length == one.offset + length
        assert own[-1].offset + own[-1].length == file.bytes
        assert len({chunk.lane for chunk in own}) == 1
    for lane in range(lanes):
        in_lane = [chunk.file.path for chunk in order if chunk.lane == lane]
        assert in_lane == sorted(in_lane, key=in_lane.index)  # one file after another
    loads = [read_by(order, node) for node in range(nodes)]
    assert max(loads) - min(loads) <= length + len(files)


def read_by(order: list[Chunk], node: int) -> int:
    return sum(chunk.length for chunk in order if chunk.reader == node)
