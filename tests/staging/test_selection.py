"""What a node gets: splits, and its part of their shards."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging.inventory import Inventory, SourceFile
from dataprep.staging.selection import Selection, Share, deal_shards, select


def file(path: str, size: int) -> dict[str, Any]:
    return {"path": path, "bytes": size, "sha256": hashlib.sha256(path.encode()).hexdigest()}


def split(name: str, records: list[int], *more: str) -> dict[str, Any]:
    """A split whose shards have a sidecar each, and which has files of its own."""
    shards = [
        {"records": count, "files": [file(f"{name}/{at}", 100 * count), file(f"i/{name}{at}", 1)]}
        for at, count in enumerate(records)
    ]
    return {"shards": shards, "files": [file(path, 5) for path in more], "records": sum(records)}


def inventory(digest: str = "d", **splits: dict[str, Any]) -> Inventory:
    named = [file("manifest.json", 10), file("records.parquet", 20)]
    for each in splits.values():
        named += [entry for shard in each["shards"] for entry in shard["files"]] + each["files"]
    files = sorted((SourceFile(**entry) for entry in named), key=lambda found: found.path)
    return Inventory(Path("/set"), digest, tuple(files), {"sha256": digest, "splits": splits})


def plain(*sizes: int) -> Inventory:
    files = (SourceFile(f"f{at}", size, None, 1) for at, size in enumerate(sizes))
    return Inventory(Path("/plain"), "d", tuple(files), None)


def small() -> Inventory:
    return inventory(
        train=split("train", [4, 4, 4, 4, 4, 3], "train.h5", "train.txt"),
        validation=split("validation", [3, 3]),
    )


def paths(selection: Selection) -> list[str]:
    return [found.path for found in selection.files]


def part_of(selection: Selection) -> dict[str, Any]:
    assert selection.part is not None
    found: dict[str, Any] = json.loads(selection.part)
    return found


def test_everything() -> None:
    found = select(small())
    assert found.files == small().files
    assert (found.part, found.notes) == (None, ())
    assert found.bytes == sum(entry.bytes for entry in small().files)


def test_one_split() -> None:
    found = select(small(), splits=["validation"])
    assert paths(found) == [
        *("i/validation0", "i/validation1", "manifest.json", "records.parquet"),
        *("validation/0", "validation/1"),
    ]
    assert found.notes == ()
    assert part_of(found) == {
        "format": "dataprep-part-1",
        "manifest_sha256": "d",
        "splits": {"validation": [0, 1]},
        "split_files": [],
        "node": 0,
        "nodes": 1,
        "replicas": 1,
    }


def test_the_files_of_a_whole_split_come_with_it() -> None:
    found = select(small(), splits=["train"])
    assert {"train.h5", "train.txt"} <= {*paths(found)}
    assert part_of(found)["split_files"] == ["train.h5", "train.txt"]


def test_a_share() -> None:
    found = select(small(), share=Share(1, 2))
    assert paths(found) == [
        *("i/train1", "i/train3", "i/train5", "i/validation1", "manifest.json"),
        *("records.parquet", "train/1", "train/3", "train/5", "validation/1"),
    ]
    assert part_of(found) == {
        "format": "dataprep-part-1",
        "manifest_sha256": "d",
        "splits": {"train": [1, 3, 5], "validation": [1]},
        "split_files": [],
        "node": 1,
        "nodes": 2,
        "replicas": 1,
    }
    assert found.notes == (
        "train: left out train.h5, train.txt, made once for all its shards; --whole train stages "
        "all of it on every node",
    )


@pytest.mark.parametrize(
    "share",
    [Share(0, 1), Share(2, 3, replicas=3), Share(1, 9, whole=frozenset({"train", "validation"}))],
    ids=["one node", "a replica on every node", "every split whole"],
)
def test_a_share_that_is_everything_is_no_part(share: Share) -> None:
    assert select(small(), share=share) == select(small())


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.data(),
)
def test_all_nodes_together_have_everything(
    train: list[int], validation: list[int], data: st.DataObject
) -> None:
    nodes = data.draw(st.integers(1, 2 * min(len(train), len(validation))))
    replicas = data.draw(st.integers(min(2, nodes), nodes))
    whole = inventory(train=split("train", train), validation=split("validation", validation))
    found = [select(whole, share=Share(node, nodes, replicas)) for node in range(nodes)]
    assert {entry for each in found for entry in each.files} == {*whole.files}
    for each in found:
        assert paths(each) == sorted(paths(each))
    same = {each.digest: each.files for each in found}
    assert all(same[each.digest] == each.files for each in found)


def test_the_digest_is_that_of_what_is_selected_from_where() -> None:
    selections = [
        select(small()),
        select(small(), splits=["train"]),
        *(select(small(), share=Share(node, 2)) for node in range(2)),
        select(plain(1, 2)),
        select(inventory("e", **(small().manifest or {})["splits"])),
    ]
    assert len({found.digest for found in selections}) == len(selections)


def test_a_plain_directory() -> None:
    found = select(plain(1, 2, 3))
    assert found.files == plain(1, 2, 3).files
    assert (found.part, found.notes) == (None, ())


def test_a_plain_directory_is_dealt_by_bytes() -> None:
    found = [select(plain(9, 1, 1, 1, 5), share=Share(node, 2)) for node in range(2)]
    assert [paths(each) for each in found] == [["f0"], ["f1", "f2", "f3", "f4"]]
    assert [each.part for each in found] == [None] * 2


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        select(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("shards", "share", "remedy"),
    [
        (
            1,
            Share(0, 4),
            "train has 1 shard, too few for 4 nodes to get one each; use --replicas 4",
        ),
        (
            2,
            Share(0, 5),
            "train has 2 shards, too few for 5 nodes to get one each; use --replicas 3",
        ),
        (2, Share(4, 5, 2), "to get one each; use --replicas 3, or stage it whole"),
    ],
    ids=["one shard", "two shards", "two replicas"],
)
def test_a_node_without_a_shard_is_refused_and_the_way_out_works(
    shards: int, share: Share, remedy: str
) -> None:
    whole = inventory(train=split("train", [5] * shards), test=split("test", [2] * 20))
    message = refused(whole, share=share)
    assert remedy in message
    assert message.endswith("(--whole train)")
    enough = int(message.partition("; use --replicas ")[2].partition(",")[0])
    for node in range(share.nodes):
        assert select(whole, share=Share(node, share.nodes, enough)).files
        assert select(whole, share=Share(node, share.nodes, whole=frozenset({"train"}))).files
    # Of the split that is left out nothing needs to be known.
    assert select(whole, splits=["test"], share=Share(0, share.nodes)).files


def test_splits_that_are_none_are_refused() -> None:
    said = "/set has no split test; it has: train, validation"
    assert refused(small(), splits=["train", "testing"]) == said
    assert refused(small(), share=Share(0, 2, whole=frozenset({"test"}))) == said


def test_val_is_validation() -> None:
    assert select(small(), splits=["val"]) == select(small(), splits=["validation"])
    whole = [Share(0, 2, whole=frozenset({name})) for name in ("val", "validation")]
    assert select(small(), share=whole[0]) == select(small(), share=whole[1])


def test_a_plain_directory_has_no_splits() -> None:
    said = "/plain has no manifest, so nothing is known of split train"
    assert refused(plain(1), splits=["train"]).startswith(said)


@pytest.mark.parametrize("replicas", [0, 3])
def test_replicas_that_cannot_be_are_refused(replicas: int) -> None:
    for source in (small(), plain(1, 2)):
        assert f"--replicas {replicas}: " in refused(source, share=Share(0, 2, replicas))


def hands(sizes: list[int], nodes: int, replicas: int = 1) -> list[list[int]]:
    """The shards of every node."""
    dealt: list[list[int]] = [[] for _ in range(nodes)]
    for shard, holders in enumerate(deal_shards(sizes, nodes, replicas)):
        for node in holders:
            dealt[node].append(shard)
    return dealt


def totals(sizes: list[int], nodes: int, replicas: int) -> list[int]:
    return [sum(sizes[shard] for shard in hand) for hand in hands(sizes, nodes, replicas)]


@st.composite
def deals(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Sizes of shards, some of nothing and some huge; nodes, and replicas that fit them."""
    size = st.one_of(st.integers(0, 3), st.integers(0, 1300), st.integers(0, 1 << 45))
    nodes = draw(st.integers(1, 12))
    return draw(st.lists(size, max_size=60)), nodes, draw(st.integers(1, nodes))


@given(deals())
def test_no_two_nodes_differ_by_more_than_the_largest_shard(
    deal: tuple[list[int], int, int],
) -> None:
    sizes, nodes, replicas = deal
    found = totals(sizes, nodes, replicas)
    assert sum(found) == replicas * sum(sizes)
    assert max(found) - min(found) <= max(sizes, default=0)


@given(st.integers(0, 60), st.integers(1, 12), st.data())
def test_shards_of_one_size_go_round(shards: int, nodes: int, data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, nodes))
    size = data.draw(st.integers(1, 2000))
    for shard, holders in enumerate(deal_shards([size] * shards, nodes, replicas)):
        assert {*holders} == {(shard * replicas + each) % nodes for each in range(replicas)}


def test_a_deal_never_changes() -> None:
    assert hands([5, 3, 3, 8, 1, 1, 2, 4], 3) == [[0, 6], [1, 3], [2, 4, 5, 7]]
    assert hands([5, 3, 3, 8, 1], 3, 2) == [[0, 1, 3], [0, 2, 4], [1, 2, 3, 4]]
