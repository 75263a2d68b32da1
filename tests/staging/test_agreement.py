"""What nodes conclude from each other's reports."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.agreement import (
    NodeDone,
    NodeStart,
    agree_to_finish,
    agree_to_start,
    summary,
)

GB = 10**9


def start(node: int, **values: object) -> NodeStart:
    plain = NodeStart(
        host=f"n{node}",
        node=node,
        digest="d",
        selection=f"s{node}",  # with --share, every node's is another
        target="/local_scratch/set",
        needed=42 * GB,
        free=100 * GB,
    )
    return replace(plain, **values)  # type: ignore[arg-type]


def done(node: int, **values: object) -> NodeDone:
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
    return replace(plain, **values)  # type: ignore[arg-type]


def agree(reports: list[NodeStart]) -> None:
    """All nodes have met."""
    agree_to_start(reports, len(reports))


@given(
    st.builds(
        NodeStart,
        host=st.text(),
        node=st.integers(0),
        digest=st.text(),
        selection=st.text(),
        target=st.text(),
        needed=st.integers(0),
        free=st.integers(0),
        options=st.text(),
    )
)
def test_what_is_told_at_the_start_arrives(report: NodeStart) -> None:
    assert NodeStart.from_json(json.loads(json.dumps(report.to_json()))) == report


@pytest.mark.parametrize("content", [None, "c"])
@pytest.mark.parametrize("seconds", [0, 1.5])
def test_what_is_told_at_the_end_arrives(content: str | None, seconds: float) -> None:
    report = done(3, content=content, seconds=seconds)
    assert NodeDone.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_nodes_that_have_the_room_and_see_the_same_agree() -> None:
    agree([start(node, needed=100 * GB) for node in range(4)])
    agree([start(3)])


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


@pytest.mark.parametrize(("nodes", "more"), [(5, ""), (6, "1 more node has"), (9, "4 more nodes ")])
def test_of_many_nodes_without_room_some_are_named(nodes: int, more: str) -> None:
    with pytest.raises(NoRoomError) as caught:
        agree([start(node, free=0) for node in range(nodes)])
    message = str(caught.value)
    assert message.count("42.0 GB needed") == 5
    assert more in message
    assert ("more node" in message) == bool(more)


def test_the_same_files_with_other_bytes_name_two_nodes() -> None:
    reports = [done(0, selection="t", content="x"), done(1), done(2, content=None), done(3)]
    agree_to_finish(reports)
    with pytest.raises(StagingError, match=r"^node 1 \(n1\) and node 4 \(n4\) copied the same"):
        agree_to_finish([*reports, done(4, content="x")])


def test_one_node_is_summed_up_in_one_line() -> None:
    assert summary([done(0, reused=1500)]) == [
        "42.0 GB in 20 files copied to 1 node in 21.0 s: 2.0 GB/s; 1.5 KB there already"
    ]


def test_few_nodes_are_told_one_by_one() -> None:
    reports = [done(0), done(1, seconds=42), done(2, copied=0, files=0, reused=42 * GB, seconds=0)]
    assert agree_to_finish(reports) == [
        "per node: node 0 (n0) 2.0 GB/s, node 1 (n1) 1.0 GB/s",
        "84.0 GB in 40 files copied to 2 nodes in 42.0 s: 2.0 GB/s together; "
        "42.0 GB there already (1 node)",
    ]


def test_of_many_nodes_the_slowest_and_the_fastest_are_told() -> None:
    reports = [done(node, seconds=20 + node) for node in range(1, 1001)]
    reports[500] = done(501, seconds=4200)
    assert summary(reports) == [
        "per node: 80.8 MB/s in the median; slowest node 501 (n501) 10.0 MB/s, fastest node 1 (n1) "
        "2.0 GB/s",
        "42.0 TB in 20,000 files copied to 1,000 nodes in 4200.0 s: 10.0 GB/s together",
    ]


def test_nothing_to_copy_is_said() -> None:
    reports = [done(node, files=0, copied=0, reused=42 * GB, seconds=0) for node in range(2)]
    assert summary(reports) == ["nothing to copy to 2 nodes: 84.0 GB there already"]
    assert summary(reports[:1]) == ["nothing to copy: 42.0 GB there already"]


def test_an_instant_copy_has_a_speed() -> None:
    assert "copied to 1 node in 0.0 s" in summary([done(0, seconds=0)])[0]


def test_a_hostile_name_stays_on_its_line() -> None:
    with pytest.raises(NoRoomError) as caught:
        agree([start(0, free=0, host="n\n0", target="/a\x1b[2J")])
    assert str(caught.value).isprintable()
