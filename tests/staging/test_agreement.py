"""What nodes conclude from each other's reports."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.agreement import (
    Agreed,
    NodeDone,
    NodeStart,
    agree_to_finish,
    agree_to_start,
)

GB = 10**9


def start(node: int, **values: Any) -> NodeStart:
    plain = NodeStart(
        host=f"n{node}",
        node=node,
        digest="d",
        target="/local_scratch/set",
        needed=42 * GB,
        free=100 * GB,
    )
    return replace(plain, **values)


def done(node: int, **values: Any) -> NodeDone:
    plain = NodeDone(
        host=f"n{node}",
        node=node,
        files=20,
        copied=42 * GB,
        reused=0,
        seconds=21.0,
        selection="s",
        content="c",
    )
    return replace(plain, **values)


def agree(reports: list[NodeStart]) -> None:
    """All nodes have met."""
    assert agree_to_start(reports, len(reports)) == Agreed()


def finish(*reports: NodeDone) -> Agreed:
    return agree_to_finish(reports)


@pytest.mark.parametrize(
    ("change", "what"),
    [({"digest": "e"}, "do not see the same"), ({"options": "x"}, "were started with different")],
)
def test_what_differs_names_two_nodes(change: dict[str, str], what: str) -> None:
    with pytest.raises(StagingError, match=rf"^node 0 \(n0\) and node 2 \(n2\) {what}") as caught:
        agree([start(0, free=0), start(1), start(2, **change), start(3)])
    assert not isinstance(caught.value, NoRoomError)  # it counts for more than the room


def test_too_little_room_names_the_node_and_the_bytes() -> None:
    with pytest.raises(NoRoomError) as caught:
        agree([start(0), start(1), start(2, free=31_500_000_000)])
    assert str(caught.value) == (
        "node 2 (n2): 42.0 GB needed in /local_scratch/set, 31.5 GB free, 10.5 GB too little; "
        "nothing was copied on any node; free some, choose other storage (--to), less of the data "
        "(--split), or a part of the shards for every node (--share node)"
    )


def test_too_little_room_is_no_reason_to_go_on_elsewhere_if_not_all_have_met() -> None:
    with pytest.raises(StagingError, match="nothing was copied on this node") as caught:
        agree_to_start([start(0), start(1, free=0)], 3)
    assert not isinstance(caught.value, NoRoomError)


def test_of_many_nodes_without_room_some_are_named() -> None:
    with pytest.raises(NoRoomError, match=r"n4.*; 9 nodes in all; nothing") as caught:
        agree([start(node, free=0) for node in range(9)])
    assert str(caught.value).count("42.0 GB needed") == 5


def test_the_same_files_with_other_bytes_name_two_nodes() -> None:
    reports = done(0, selection="t", content="x"), done(1), done(2, content=None), done(3)
    assert finish(*reports).trouble == ""
    agreed = finish(*reports, done(4, content="x"))
    assert agreed.total == ""
    assert agreed.trouble.startswith("node 1 (n1) and node 4 (n4) copied the same files but hold")


def test_the_total_is_told() -> None:
    assert finish(done(0, reused=1500)).total == (
        "42.0 GB in 20 files copied to 1 node in 21.0 s: 2.0 GB/s; 1.5 KB there already"
    )
    instant = done(0, seconds=0)
    assert "copied to 1 node in 0.0 s" in finish(instant).total
    old = done(2, copied=0, files=0, reused=42 * GB, seconds=0)
    assert finish(done(0), done(1, seconds=42), old).total == (
        "84.0 GB in 40 files copied to 2 nodes in 42.0 s: 2.0 GB/s; 42.0 GB there already"
    )
    assert finish(old).total == "nothing to copy: 42.0 GB there already"
    assert finish(old, old).total == "nothing to copy to 2 nodes: 84.0 GB there already"


def test_a_hostile_name_stays_on_its_line() -> None:
    with pytest.raises(NoRoomError) as caught:
        agree([start(0, free=0, host="n\n0", target="/a\x1b[2J")])
    assert str(caught.value).isprintable()
