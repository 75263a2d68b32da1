"""What a node gets: splits, and its part of their shards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.staging.plan import Assigned, Share, assign_shards, select
from dataprep.staging.source import Inventory, SourceFile
from dataprep.system.state_files import encode, parse
from dataprep_schemas.manifest import (
    Examples,
    File,
    Input,
    Manifest,
    RecordsFile,
    Shard,
    SinkConfig,
    Split,
    Statuses,
    Totals,
    Unmatched,
)
from dataprep_schemas.state import Part

DIGEST = "d" * 64
_NO_STATUS: Any = dict.fromkeys(Statuses.__struct_fields__, 0)


def file(path: str, size: int) -> File:
    return File(path, size, hashlib.sha256(path.encode()).hexdigest())


def split(name: str, records: list[int], *more: str) -> Split:
    """A split whose shards have a sidecar each, and which has files of its own."""
    shards = tuple(
        Shard(count, (file(f"{name}/{at}", 100 * count), file(f"i/{name}{at}", 1)))
        for at, count in enumerate(records)
    )
    return Split(
        **_NO_STATUS,
        images_found=sum(records),
        records=sum(records),
        bytes=sum(shard.bytes for shard in shards),
        records_per_shard=(min(records), max(records)),
        class_spread=0,
        label_set_spread=0,
        class_records={},
        shards=shards,
        files=tuple(file(path, 5) for path in more),
        statistics=None,
    )


def inventory(digest: str = DIGEST, **splits: Split) -> Inventory:
    recipe: Any = None  # of no interest here, as most that follows
    manifest = Manifest(
        dataset="imagenet",
        dataset_config={},
        seed=0,
        shuffle=dict.fromkeys(splits, "none"),
        image=recipe,
        classes_sha256=DIGEST,
        unmatched=Unmatched(0, 0, {}),
        counts={},
        input=dict.fromkeys(splits, Input(1, 1, "0" * 32)),
        num_shards={name: len(each.shards) for name, each in splits.items()},
        sink=SinkConfig("tfrecord", {}),
        examples=Examples(False, "RGB", None),
        layout="split",
        versions={},
        classes=(),
        records_table=RecordsFile("records.parquet", 20, DIGEST, 0),
        totals=Totals(**_NO_STATUS, records=sum(each.records for each in splits.values())),
        splits=splits,
        sha256=digest,
    )
    named: list[File | RecordsFile] = [
        file("manifest.json", 10),
        manifest.records_table,
        *manifest.files(),
    ]
    files = sorted(
        (SourceFile(each.path, each.bytes, each.sha256) for each in named),
        key=lambda found: found.path,
    )
    return Inventory(Path("/set"), digest, tuple(files), manifest)


def plain(*sizes: int) -> Inventory:
    files = (SourceFile(f"f{at}", size, None, 1) for at, size in enumerate(sizes))
    return Inventory(Path("/plain"), "d", tuple(files), None)


def small() -> Inventory:
    return inventory(
        train=split("train", [4, 4, 4, 4, 4, 3], "train.h5", "train.txt"),
        validation=split("validation", [3, 3]),
    )


def paths(selection: Assigned) -> list[str]:
    return [found.path for found in selection.files]


def part_of(selection: Assigned) -> Part:
    """What ``part.json`` says, once it is written and read."""
    assert selection.part is not None
    written = encode(selection.part)
    return parse(written, Part, "part.json", "")


def part(**values: Any) -> bytes:
    return encode(Part(manifest_sha256=DIGEST, **values))


def test_a_share() -> None:
    found = select(small(), share=Share(1, 2))
    assert paths(found) == [
        *("i/train1", "i/train3", "i/train5", "i/validation1", "manifest.json"),
        *("records.parquet", "train/1", "train/3", "train/5", "validation/1"),
    ]
    numbers = {"train": (1, 3, 5), "validation": (1,)}
    assert encode(part_of(found)) == part(splits=numbers, node=1, nodes=2)
    assert found.notes == (
        "train: left out train.h5, train.txt, made once for all its shards; without --share they "
        "come along",
    )


def test_of_a_split_with_fewer_shards_than_nodes_every_node_gets_all() -> None:
    for node in range(3):
        found = select(small(), share=Share(node, 3))
        numbers = {"train": (node, node + 3), "validation": (0, 1)}
        assert encode(part_of(found)) == part(splits=numbers, node=node, nodes=3)
        assert {"validation/0", "i/validation0", "validation/1", "i/validation1"} < {*paths(found)}
        assert found.notes == (
            "train: left out train.h5, train.txt, made once for all its shards; without --share "
            "they come along",
            "validation: 2 shards, too few for 3 nodes, so all of it is staged on every node",
        )


def test_files_of_a_split_that_all_nodes_get_come_along() -> None:
    whole = inventory(train=split("train", [2] * 4), test=split("test", [2], "test.h5"))
    found = select(whole, share=Share(2, 3))
    assert "test.h5" in paths(found)
    assert part_of(found).split_files == ("test.h5",)
    assert found.notes == (
        "test: 1 shard, too few for 3 nodes, so all of it is staged on every node",
    )
    # Of a split that is left out nothing needs to be known.
    assert select(whole, splits=["train"], share=Share(2, 3)).notes == ()


def test_a_share_that_is_everything_is_no_part() -> None:
    assert select(small(), share=Share(0, 1)) == select(small())
    for node in range(9):
        found = select(small(), share=Share(node, 9))
        assert (found.files, found.part) == (small().files, None)
        assert found.digest == select(small()).digest
        assert len(found.notes) == 2


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.lists(st.integers(1, 50), min_size=1, max_size=30),
    st.data(),
)
def test_all_nodes_together_have_everything(
    train: list[int], validation: list[int], data: st.DataObject
) -> None:
    nodes = data.draw(st.integers(1, 2 * max(len(train), len(validation))))
    whole = inventory(train=split("train", train), validation=split("validation", validation))
    found = [select(whole, share=Share(node, nodes)) for node in range(nodes)]
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
        select(inventory("e" * 64, **_splits(small()))),
    ]
    assert len({found.digest for found in selections}) == len(selections)


def _splits(found: Inventory) -> dict[str, Split]:
    assert found.manifest is not None
    return found.manifest.splits


def test_a_plain_directory_is_shared_by_bytes() -> None:
    found = [select(plain(9, 1, 1, 1, 5), share=Share(node, 2)) for node in range(2)]
    assert [paths(each) for each in found] == [["f0"], ["f1", "f2", "f3", "f4"]]
    assert [(each.part, each.notes) for each in found] == [(None, ())] * 2


def refused(*arguments: Any, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        select(*arguments, **options)
    return str(caught.value)


def test_splits_that_are_none_are_refused() -> None:
    said = "/set has no split test; it has: train, validation"
    assert refused(small(), splits=["train", "testing"]) == said


def test_val_is_validation() -> None:
    assert select(small(), splits=["val"]) == select(small(), splits=["validation"])


def test_a_plain_directory_has_no_splits() -> None:
    said = "/plain has no manifest, so nothing is known of split train"
    assert refused(plain(1), splits=["train"]).startswith(said)


def hands(sizes: list[int], nodes: int) -> list[list[int]]:
    """The shards of every node."""
    assigned: list[list[int]] = [[] for _ in range(nodes)]
    for shard, node in enumerate(assign_shards(sizes, nodes)):
        assigned[node].append(shard)
    return assigned


# Some of nothing and some huge.
_SIZE = st.one_of(st.integers(0, 3), st.integers(0, 1300), st.integers(0, 1 << 45))


@given(st.lists(_SIZE, max_size=60), st.integers(1, 12))
def test_no_two_nodes_differ_by_more_than_the_largest_shard(sizes: list[int], nodes: int) -> None:
    found = [sum(sizes[shard] for shard in hand) for hand in hands(sizes, nodes)]
    assert sum(found) == sum(sizes)
    assert max(found) - min(found) <= max(sizes, default=0)


@given(st.integers(0, 60), st.integers(1, 12), st.integers(1, 2000))
def test_shards_of_one_size_go_round(shards: int, nodes: int, size: int) -> None:
    assert [*assign_shards([size] * shards, nodes)] == [shard % nodes for shard in range(shards)]
