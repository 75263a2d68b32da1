"""MDS shards: dataprep's suite, and MosaicML's own readers and writer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dataprep
import pytest
from dataprep.cli import main
from dataprep.errors import SinkError
from dataprep.formats import DatasetInfo, ShardName
from dataprep.formats.example import Example
from dataprep.formats.testing import SinkTests
from dataprep.plugins import load_sink
from dataprep.sealed.set import SealedSet
from streaming import LocalDataset, MDSWriter, StreamingDataset

from dataprep_mds import MdsSink


class TestConformance(SinkTests):
    sink = load_sink("mds")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set made by the commands that users give."""
    root = tmp_path_factory.mktemp("made")
    raw, out = root / "raw", root / "out"
    run("synthesize", "imagenet", raw, "--classes", 4, "--images_per_class", 6)
    run("imagenet", "--raw_data_dir", raw, "--local_scratch_dir", out, "--sink", "mds",
        "--num_shards", "train=3,validation=1")  # fmt: skip
    return out


def run(*words: object) -> None:
    assert main([str(word) for word in words]) == 0


@pytest.mark.parametrize(("split", "shards"), [("train", 3), ("validation", 1)])
def test_streaming_dataset_reads_a_split_in_order(made: Path, split: str, shards: int) -> None:
    dataset = StreamingDataset(local=str(made / split), shuffle=False, batch_size=1)
    assert [shard.samples for shard in dataset.shards] == shard_sizes(made, split)
    assert len(dataset.shards) == shards
    assert_same(list(dataset), dataprep.open(made, split))


def test_local_dataset_reads_a_split_in_any_order(made: Path) -> None:
    dataset = LocalDataset(str(made / "train"))
    backwards = range(len(dataset) - 1, -1, -1)
    assert_same([dataset[number] for number in backwards], list(dataprep.open(made, "train"))[::-1])


def test_verify_agrees_with_mosaicml(made: Path) -> None:
    run("verify", made, "--level", "reader")


def test_bytes_are_those_of_mosaicmls_writer(made: Path, tmp_path: Path) -> None:
    columns = {
        "boxes": "json", "format": "str", "height": "int", "image": "bytes",
        "key": "json", "label": "int", "width": "int",
    }  # fmt: skip
    with MDSWriter(columns=columns, out=str(tmp_path / "theirs"), size_limit=None) as writer:
        for example in dataprep.open(made, "validation"):
            writer.write(sample_of(example))
    ours = made / "validation" / "validation-00000-of-00001.mds"
    assert ours.read_bytes() == (tmp_path / "theirs" / "shard.00000.mds").read_bytes()


def test_a_shard_that_would_run_code_is_refused(made: Path, tmp_path: Path) -> None:
    shard = tmp_path / "evil.mds"
    whole = (made / "validation" / "validation-00000-of-00001.mds").read_bytes()
    shard.write_bytes(whole.replace(b'"json", "str"', b'"pkl",  "str"', 1))
    with pytest.raises(SinkError, match=r"evil\.mds"):
        MdsSink().reader([shard], DatasetInfo())


def test_a_shard_that_offsets_cannot_span_is_refused(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = dataprep.open(made, "validation")
    first, second = records[0], records[1]
    whole = write([first], tmp_path / "one", records.info)
    monkeypatch.setattr("dataprep_mds.shard._MOST_BYTES", whole)
    assert write([first], tmp_path / "again", records.info) == whole
    with pytest.raises(SinkError, match="4 GiB at most; give more --num_shards"):
        write([first, second], tmp_path / "two", records.info)


def test_every_layout_has_a_directory_for_each_index() -> None:
    for layout in ("split", "flat"):
        (shard,) = MdsSink().paths(ShardName("train", 0, 1), layout)
        (index,) = MdsSink().split_paths("train", 1, layout)
        assert shard.parent == index.parent


def write(examples: Sequence[Example], path: Path, info: DatasetInfo) -> int:
    """Write a shard; returns its size in bytes."""
    writer = MdsSink().open([path], info)
    try:
        for example in examples:
            writer.write(example)
        return writer.close()[0].bytes
    finally:
        writer.abandon()


def shard_sizes(out: Path, split: str) -> list[int]:
    return [shard.records for shard in SealedSet.read(out).splits[split].shards]


def assert_same(samples: Sequence[dict[str, Any]], examples: Any) -> None:
    assert samples == [sample_of(example) for example in examples]
    assert samples


def sample_of(example: Example) -> dict[str, Any]:
    return {
        "boxes": [list(box) for box in example.fields.get("boxes", ())],
        "format": example.format,
        "height": example.height,
        "image": example.encoded,
        "key": example.key,
        "label": example.class_index,
        "width": example.width,
    }
