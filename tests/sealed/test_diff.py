"""``dataprep diff``: whether two data sets hold the same, whatever their form."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as with_changes
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import dataprep
from dataprep.plugins import load_sink
from dataprep.sealed.diff import diff
from dataprep.sealed.set import NAME, SealedSet
from dataprep.sinks.example import Example
from dataprep.system.state_files import write_state
from dataprep_schemas.manifest import File, Shard
from tests.conftest import FORMATS, Cli, Made, Shelf

Change = Callable[[list[Example]], list[Example]]


def rewrite(out: Path, change: Change, split: str = "train") -> None:
    """Write the first shard of a split anew with other examples, and seal it."""
    sealed = SealedSet.read(out)
    shards = sealed.manifest.splits[split].shards
    examples = change(list(dataprep.open(out, split))[: shards[0].records])
    first = write_shard(sealed, shards[0], examples)
    seal(sealed, {split: [first, *shards[1:]]})


def restate(out: Path, change: Change, **said: Any) -> None:
    """Write all examples anew, of a data set of which other things are true, and seal it."""
    before = SealedSet.read(out)
    found = {split: list(dataprep.open(out, split)) for split in before.splits}
    stated = replace(before.manifest, examples=replace(before.manifest.examples, **said))
    sealed = SealedSet.of(out, stated)
    shards: dict[str, list[Shard]] = {}
    for split, examples in found.items():
        for shard in sealed.manifest.splits[split].shards:
            own, examples[:] = examples[: shard.records], examples[shard.records :]
            shards.setdefault(split, []).append(write_shard(sealed, shard, change(own)))
    seal(sealed, shards)


def write_shard(sealed: SealedSet, shard: Shard, examples: list[Example]) -> Shard:
    paths = [sealed.out / file.path for file in shard.files]
    for path in paths:
        path.unlink()
    writer = sealed.sink.open(paths, sealed.info)
    for example in examples:
        writer.write(example)
    written = writer.close()
    files = zip(shard.files, written, strict=True)
    made = tuple(File(file.path, it.bytes, it.sha256) for file, it in files)
    return Shard(len(examples), made)


def seal(sealed: SealedSet, shards: Mapping[str, Sequence[Shard]]) -> None:
    manifest, splits = sealed.manifest, {}
    for name, split in manifest.splits.items():
        made = tuple(shards.get(name, split.shards))
        counts = [shard.records for shard in made]
        splits[name] = replace(
            split,
            shards=made,
            records=sum(counts),
            records_per_shard=(min(counts), max(counts)),
            images_found=sum(counts) + split.rejected,
            bytes=sum(shard.bytes for shard in made),
        )
    total = sum(split.records for split in splits.values())
    totals = replace(manifest.totals, records=total)
    write_state(sealed.out / NAME, replace(manifest, splits=splits, totals=totals))


def relabelled(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], labels=(7,)), *examples[1:]]


def repainted(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], encoded=examples[1].encoded), *examples[1:]]


def renamed(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], key="new\nname.JPEG"), *examples[1:]]


@pytest.fixture
def other(shelf: Shelf, tmp_path: Path) -> Path:
    """The tiny set as another format, in another number of shards."""
    return shelf("webdataset", "--num_shards", 2).copy(tmp_path / "other")


@pytest.mark.parametrize("name", [name for name in FORMATS if "--resize" not in FORMATS[name]])
def test_formats_do_not_matter(cli: Cli, shelf: Shelf, name: str) -> None:
    one, other = shelf("tfrecord").out, shelf(name).out
    for a, b in ((one, other), (other, one)):
        result = cli("diff", a, b, "--workers", 2)
        assert result.code == 0, result
        boxes = ", boxes" if load_sink(FORMATS[name][1]).keeps_boxes else ""
        assert result.out.splitlines() == [
            "train: the same 24 examples, in the same order",
            "validation: the same 6 examples, in the same order",
            f"same: keys, labels{boxes} and image bytes",
        ]


def test_arrays_are_compared_with_images_pixel_by_pixel(cli: Cli, shelf: Shelf) -> None:
    png = shelf("tfrecord", "--resize", "16x16", "--encoding", "png").out
    for name in ("lmdb-raw", "hdf5-arrays", "hdf5-caffe"):
        result = cli("diff", png, shelf(name).out, "--workers", 1)
        assert result.code == 0, result
        assert "same: keys, labels and pixels" in result.out


def test_another_order_is_said_and_is_no_difference(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    assert cli(*tiny.command(tmp_path, "--seed", 4)).code == 0
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 0, result
    assert "train: the same 24 examples, in another order" in result.out
    assert "validation: the same 6 examples, in the same order" in result.out


@pytest.mark.parametrize("change", [relabelled, repainted])
def test_a_changed_example_is_named(cli: Cli, tiny: Made, other: Path, change: Change) -> None:
    key = dataprep.open(other, "train")[0].key
    rewrite(other, change)
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert result.out.splitlines()[:2] == [
        f"train: another image, or something else is said of it: {key}",
        f"train: 0 only in {tiny.out}, 0 only in {other}, "
        "1 with another image, other labels, boxes or attributes",
    ]
    assert "validation: the same 6 examples" in result.out
    assert f"{tiny.out} and {other} do not hold the same examples" in result.error


def test_a_missing_and_a_new_key_are_named(cli: Cli, tiny: Made, other: Path) -> None:
    key = dataprep.open(other, "train")[0].key
    rewrite(other, renamed)
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert f"train: only in {tiny.out}: {key}\n" in result.out
    assert f"train: only in {other}: new\\nname.JPEG\n" in result.out
    assert "train: 1 only in" in result.out


def test_a_missing_split_is_a_difference(cli: Cli, tiny: Made, shelf: Shelf) -> None:
    alone = shelf("tfrecord", "--splits", "train").out
    for a, b in ((tiny.out, alone), (alone, tiny.out)):
        result = cli("diff", a, b)
        assert result.code == 1
        assert f"{alone} has no split validation" in result.out
        assert "train: the same 24 examples" in result.out


def test_a_damaged_or_missing_set_is_one_line(
    cli: Cli, tiny: Made, other: Path, tmp_path: Path
) -> None:
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 1
    assert "no manifest.json here" in result.error
    shard = other / SealedSet.read(other).manifest.splits["train"].shards[0].files[0].path
    shard.write_bytes(shard.read_bytes()[:700])
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert str(shard) in result.error


RADIOGRAPHS = {"multilabel": True, "boxes": True, "attributes": [["view", "text"]]}


def annotated(examples: list[Example]) -> list[Example]:
    """As radiographs are: two findings each, a box of each, and what is known of the patient."""
    boxes = ((0.0, 0.25, 0.5, 1.0),) * 2
    return [
        with_changes(
            it, labels=(2, 5), synset="", boxes=boxes, box_labels=(5, 2), attributes={"view": "PA"}
        )
        for it in examples
    ]


def other_box_labels(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], box_labels=(2, 5)), *examples[1:]]


def other_attributes(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], attributes={"view": "AP"}), *examples[1:]]


def lost_attributes(examples: list[Example]) -> list[Example]:
    return [with_changes(examples[0], attributes={}), *examples[1:]]


@pytest.fixture
def radiographs(tiny: Made, other: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The same radiographs in two formats."""
    one = tmp_path / "one"
    shutil.copytree(tiny.out, one)
    for out in (one, other):
        restate(out, annotated, **RADIOGRAPHS)
    return one, other


def test_attributes_and_box_labels_are_the_same_in_any_format(
    radiographs: tuple[Path, Path],
) -> None:
    found = diff(*radiographs, threads=1)
    assert found.same
    assert found.boxes
    assert found.attributes


@pytest.mark.parametrize("change", [other_box_labels, other_attributes, lost_attributes])
def test_another_attribute_or_box_label_is_named(
    radiographs: tuple[Path, Path], change: Change
) -> None:
    one, other = radiographs
    key = dataprep.open(other, "train")[0].key
    rewrite(other, change)
    found = diff(one, other, threads=1)
    assert not found.same
    assert found.splits[0].changed == 1
    assert found.splits[0].examples[0].endswith(key)


def test_what_a_format_has_no_place_for_is_no_difference(
    tiny: Made, shelf: Shelf, tmp_path: Path
) -> None:
    one = tmp_path / "one"
    shutil.copytree(tiny.out, one)
    restate(one, lost_attributes, boxes=True, attributes=[["view", "text"]])
    restate(one, lambda them: [with_changes(it, attributes={"view": "PA"}) for it in them])
    found = diff(one, shelf("recordio").out, threads=1)
    assert found.same
    assert not found.attributes
