"""``dataprep diff``: whether two data sets hold the same, whatever their form."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.canonical import to_json
from dataprep.dataset import Records
from dataprep.diff import diff
from dataprep.example import Example
from dataprep.manifest import dataset_info, manifest_sink, read_manifest, seal_manifest
from dataprep.plugins import load_sink
from tests.conftest import FORMATS, Cli, Made, Shelf

Change = Callable[[list[Example]], list[Example]]


def rewrite(out: Path, change: Change, split: str = "train") -> None:
    """Write the first shard of a split anew with other examples, and seal it."""
    manifest = json.loads((out / "manifest.json").read_bytes())
    sink, info = manifest_sink(manifest), dataset_info(manifest)
    shard = manifest["splits"][split]["shards"][0]
    paths = [out / file["path"] for file in shard["files"]]
    examples = change(list(Records(out, split))[: shard["records"]])
    for path in paths:
        path.unlink()
    writer = sink.open(paths, info)
    for example in examples:
        writer.write(example)
    writer.close()
    shard["records"] = len(examples)
    for file, path in zip(shard["files"], paths, strict=True):
        content = path.read_bytes()
        file.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    del manifest["sha256"], manifest["format"]
    (out / "manifest.json").write_bytes(to_json(seal_manifest(manifest)))


def relabelled(examples: list[Example]) -> list[Example]:
    return [replace(examples[0], labels=(7,)), *examples[1:]]


def repainted(examples: list[Example]) -> list[Example]:
    return [replace(examples[0], encoded=examples[1].encoded), *examples[1:]]


def renamed(examples: list[Example]) -> list[Example]:
    return [replace(examples[0], key="new\nname.JPEG"), *examples[1:]]


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


def test_shards_do_not_matter(cli: Cli, tiny: Made, other: Path) -> None:
    assert "train: the same 24 examples" in cli("diff", tiny.out, other).out


def test_another_order_is_said_and_is_no_difference(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    assert cli(*tiny.command(tmp_path, "--seed", 4)).code == 0
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 0, result
    assert "train: the same 24 examples, in another order" in result.out
    assert "validation: the same 6 examples, in the same order" in result.out


@pytest.mark.parametrize(
    ("change", "what"), [(relabelled, "other labels or boxes"), (repainted, "another image")]
)
def test_a_changed_example_is_named(
    cli: Cli, tiny: Made, other: Path, change: Change, what: str
) -> None:
    key = Records(other, "train")[0].key
    rewrite(other, change)
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert result.out.splitlines()[:2] == [
        f"train: {what} of {key}",
        f"train: 0 only in {tiny.out}, 0 only in {other}, 1 with another image or other labels",
    ]
    assert "validation: the same 6 examples" in result.out
    assert f"{tiny.out} and {other} do not hold the same examples" in result.error


def test_a_missing_and_a_new_key_are_named(cli: Cli, tiny: Made, other: Path) -> None:
    key = Records(other, "train")[0].key
    rewrite(other, renamed)
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert f"train: only in {tiny.out}: {key}\n" in result.out
    assert f"train: only in {other}: new\\nname.JPEG\n" in result.out
    assert "train: 1 only in" in result.out


def test_fewer_and_more_examples_are_found_either_way(cli: Cli, tiny: Made, other: Path) -> None:
    rewrite(other, lambda examples: examples[3:])
    found = diff(tiny.out, other, threads=2)
    assert [(it.records, it.only_a, it.only_b, it.changed) for it in found.splits] == [
        ((24, 21), 3, 0, 0),
        ((6, 6), 0, 0, 0),
    ]
    back = diff(other, tiny.out, threads=1)
    assert (back.splits[0].only_a, back.splits[0].only_b) == (0, 3)
    assert not found.same
    assert not back.same
    assert cli("diff", other, tiny.out).code == 1


def test_many_differences_are_counted_and_a_few_named(tiny: Made, other: Path) -> None:
    rewrite(other, lambda examples: [replace(it, labels=(9,)) for it in examples])
    found = diff(tiny.out, other, threads=1).splits[0]
    assert found.changed == 12
    assert len(found.examples) == 5


def test_a_missing_split_is_a_difference(cli: Cli, tiny: Made, shelf: Shelf) -> None:
    alone = shelf("tfrecord", "--splits", "train").out
    for a, b in ((tiny.out, alone), (alone, tiny.out)):
        result = cli("diff", a, b)
        assert result.code == 1
        assert f"{alone} has no split validation" in result.out
        assert "train: the same 24 examples" in result.out


def test_what_is_read_is_told(tiny: Made, other: Path) -> None:
    read: list[int] = []
    diff(tiny.out, other, threads=1, progress=read.append)
    assert sum(read) == 60


def test_a_damaged_or_missing_set_is_one_line(
    cli: Cli, tiny: Made, other: Path, tmp_path: Path
) -> None:
    result = cli("diff", tiny.out, tmp_path)
    assert result.code == 1
    assert "no manifest.json here" in result.error
    shard = other / read_manifest(other)["splits"]["train"]["shards"][0]["files"][0]["path"]
    shard.write_bytes(shard.read_bytes()[:700])
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert str(shard) in result.error


def test_a_key_that_comes_twice_is_found_by_diff_and_verify(
    cli: Cli, tiny: Made, other: Path
) -> None:
    second = Records(other, "train")[1].key
    rewrite(other, lambda examples: [replace(examples[0], key=second), *examples[1:]])
    result = cli("diff", tiny.out, other)
    assert result.code == 1
    assert "keys that repeat another's: 0 and 1" in result.out
    result = cli("verify", other, "--level", "records")
    assert result.code == 1
    assert "train: 1 records have the key of another one" in result.out
