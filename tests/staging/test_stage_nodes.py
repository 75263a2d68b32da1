"""``dataprep stage`` on several nodes, here processes that meet on loopback, and local ranks."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from dataprep.staging.directory import PRIVATE
from tests.conftest import Result
from tests.staging.conftest import (
    ONE_STREAM,
    TOLD_AT_ONCE,
    Call,
    Forks,
    Midway,
    eventually,
    free_port,
)
from tests.staging.staged_sets import arrived, flip, is_sealed, named, partials, shards

pytestmark = pytest.mark.usefixtures("outside", "unflushed")

NODES = 3

_CROWDED = (
    "import dataprep.staging.copier as copier; from dataprep.system.filesystems import Space;"
    "copier.space_of = lambda place: Space(1000, 4096)"
)
# Reading waits as if the file system hung, so that others can fail meanwhile.
_HANGING = """
import time
from dataprep.system.throttle import Bandwidth
def take(self, count, check=lambda: None):
    while True:
        check()
        time.sleep(0.005)
Bandwidth.take = take
"""


class Nodes:
    """Processes that stage together."""

    def __init__(self, forks: Forks, place: Path, **options: object) -> None:
        self._forks = forks
        self.targets = [place / f"node{node}" for node in range(NODES)]
        self._meeting = (
            *("--rendezvous", f"127.0.0.1:{free_port()}"),
            *(word for name, value in options.items() for word in (f"--{name}", value)),
        )

    def start(self, node: int, source: Path, *more: object, patch: str = "") -> Call:
        words = ("--to", self.targets[node], *self._meeting, *more)
        rank = {"RANK": str(node), "WORLD_SIZE": str(NODES)}
        return self._forks.start("stage", source, *words, patch=patch, environment=rank)

    def nothing_came(self) -> None:
        """Nowhere has anything been copied."""
        assert [arrived(to) for to in self.targets if to.exists()] == [{} for _ in self.targets]

    def nothing_is_half_done(self, source: Path) -> None:
        """No sentinel, and under final names only what is right."""
        for to in self.targets:
            assert not is_sealed(to)
            found = {
                name: digest for name, digest in arrived(to).items() if name not in partials(to)
            }
            assert found.items() <= named(source).items()


def failed(results: Sequence[Result], *words: object, code: int = 1) -> None:
    """All of them, each with one line that names all that."""
    for result in results:
        assert result.code == code, results
        for word in words:
            assert str(word) in result.error, results
        assert "unexpected" not in result.error


# --- nodes ---


def test_all_nodes_get_everything_and_the_first_one_tells_the_total(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    nodes = Nodes(forks, tmp_path)
    calls = [nodes.start(node, source) for node in range(NODES)]
    results = [call.done() for call in calls]
    assert [result.code for result in results] == [0] * NODES, results
    for to in nodes.targets:
        assert arrived(to) == named(source)
        assert is_sealed(to)
    assert [result.out for result in results[1:]] == [""] * (NODES - 1)
    *_, total = results[0].out.splitlines()
    copied = (len(named(source)) - 1) * NODES  # the manifest is written
    assert f"in {copied} files copied to {NODES} nodes in " in total
    again = [nodes.start(node, source) for node in reversed(range(NODES))]
    assert [call.done().code for call in again] == [0] * NODES
    assert f"nothing to copy to {NODES} nodes: " in again[-1].done().out


def test_too_little_room_on_one_node_keeps_all_from_copying(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    nodes = Nodes(forks, tmp_path)
    patches = ["", _CROWDED, ""]
    calls = [nodes.start(node, source, patch=patches[node]) for node in range(NODES)]
    told = ("node 1 (", nodes.targets[1], "1.0 KB free", "nothing was copied on any node")
    failed([call.done() for call in calls], *told, code=4)
    nodes.nothing_came()


@pytest.mark.parametrize("victim", [0, 1], ids=["node 0", "another"])
def test_a_node_that_is_killed_ends_the_others_soon(
    forks: Forks, source: Path, tmp_path: Path, victim: int
) -> None:
    nodes = Nodes(forks, tmp_path)
    calls = [nodes.start(node, source, patch=_HANGING) for node in range(NODES)]
    eventually(lambda: all(to.exists() and partials(to) for to in nodes.targets))
    calls[victim].send(signal.SIGKILL)
    others = [node for node in range(NODES) if node != victim]
    failed([calls[node].done() for node in others], f"node {victim} (", "is lost")
    nodes.nothing_is_half_done(source)
    assert [partials(nodes.targets[node]) for node in others] == [[], []]


def test_a_node_that_fails_while_copying_tells_the_others_why(
    forks: Forks, source: Path, mine: Path, tmp_path: Path
) -> None:
    nodes = Nodes(forks, tmp_path)
    damaged = shards(mine)[0]
    flip(damaged)
    patches = [_HANGING, "", _HANGING]
    calls = [nodes.start(node, mine, patch=ONE_STREAM + patches[node]) for node in range(NODES)]
    results = [call.done() for call in calls]
    failed(results, damaged, "SHA-256")
    failed([results[0], results[2]], "node 1 (", "failed: ")
    nodes.nothing_is_half_done(source)


def test_a_node_that_cannot_even_begin_tells_the_others(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    nodes = Nodes(forks, tmp_path)
    nodes.targets[1].mkdir()
    (nodes.targets[1] / PRIVATE).touch()
    calls = [nodes.start(node, source) for node in range(NODES)]
    failed([call.done() for call in calls], nodes.targets[1], "Not a directory")
    for node in (0, 2):
        assert arrived(nodes.targets[node]) == {}


# --- several processes a node ---


def slurm(local_rank: int, step: int = 0) -> dict[str, str]:
    """What Slurm tells one of four tasks on one node."""
    return {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_ID": str(step),
        "SLURM_PROCID": str(local_rank),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": "0",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_NNODES": "1",
        "SLURM_STEP_NODELIST": "n0",
        "SLURM_JOB_NODELIST": "n0",
        "SLURMD_NODENAME": "n0",
    }


def ranks(forks: Forks, source: Path, to: Path, numbers: Sequence[int]) -> list[Call]:
    words = ("stage", source, "--to", to)
    return [forks.start(*words, environment=slurm(at), patch=TOLD_AT_ONCE) for at in numbers]


def waits(call: Call) -> bool:
    return "waiting for process" in call.said()


def test_one_of_four_local_ranks_copies_and_all_succeed(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    results = [call.done() for call in ranks(forks, source, to, range(4))]
    assert [result.code for result in results] == [0] * 4, results
    assert arrived(to) == named(source)
    assert sum("copied to 1 node" in result.out for result in results) == 1
    # The others neither copied nor looked again.
    assert sum("nothing to copy" in result.out for result in results) == 0


def test_when_the_copier_of_a_node_is_killed_another_rank_takes_over(
    forks: Forks, source: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    midway = Midway(forks, "stage", source, to=to, environment=slurm(0))
    others = ranks(forks, source, to, (1, 2, 3))
    eventually(lambda: all(map(waits, others)))
    midway.call.send(signal.SIGKILL)
    results = [call.done() for call in others]
    assert [result.code for result in results] == [0] * 3, results
    (told,) = [result.out for result in results if "copied to 1 node" in result.out]
    assert "there already" in told
    assert arrived(to) == named(source)


def test_when_the_copier_fails_all_ranks_of_the_node_fail_alike_and_a_retry_tries_again(
    forks: Forks, mine: Path, tmp_path: Path
) -> None:
    to, damaged = tmp_path / "to", shards(mine)[-1]
    whole = damaged.read_bytes()
    flip(damaged)
    midway = Midway(forks, "stage", mine, to=to, files=3, environment=slurm(0))
    others = ranks(forks, mine, to, (1, 2, 3))
    eventually(lambda: all(map(waits, others)))
    results = [midway.go_on(), *(call.done() for call in others)]
    failed(results, damaged, "SHA-256")
    assert len({result.error for result in results}) == 1
    assert not is_sealed(to)
    damaged.write_bytes(whole)
    # The same step again, as in a loop in its script, begins after the failure of the first try.
    later = "import dataprep.staging.stage as it; it._STAGGER = 0.0"
    words = ("stage", mine, "--to", to)
    calls = [forks.start(*words, environment=slurm(at), patch=later) for at in range(4)]
    assert [call.done().code for call in calls] == [0] * 4
    assert arrived(to) == named(mine)
