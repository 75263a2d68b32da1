"""Conformance: files made once a split, and whole data sets that are moved."""

# ruff: noqa: S101, D102 - these are tests: asserts, and names that say what they are

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from dataprep.images.statistics import Measured, Statistics, histogram_of
from dataprep.sinks.base import DatasetInfo, FinishedShard, Layout, ShardName, Sink, WrittenFile
from dataprep.sinks.conformance.material import Case
from dataprep.sinks.conformance.shards import (
    Shard,
    expected,
    files_below,
    held_open,
    sha256,
    temporary_paths,
    write_shard,
)
from dataprep.sinks.example import Example

_PER_SHARD = 5


class SplitFileTests:
    """`Sink.finish_split`."""

    @pytest.mark.parametrize("layout", ["split", "flat"])
    @pytest.mark.parametrize("count", [1, 3])
    def test_a_split_is_finished_alike_anywhere_and_can_be_moved(
        self, variant: Sink, case: Case, tmp_path: Path, layout: Layout, count: int
    ) -> None:
        roots = [tmp_path / "telltale-one", tmp_path / "telltale" / "two"]
        contents = []
        for root, tag in zip(roots, ("telltale", "11111111"), strict=True):
            shards, described = _finished_split(variant, case, root, layout, count, tag)
            names = variant.split_paths("train", count, layout)
            assert [it.bytes for it in described] == [(root / it).stat().st_size for it in names]
            assert [it.sha256 for it in described] == [sha256(root / it) for it in names]
            declared = {path for shard in shards for path in shard.paths}
            assert set(files_below(root)) == declared | {root / name for name in names}
            contents.append(
                {path.relative_to(root): path.read_bytes() for path in files_below(root)}
            )
        assert held_open(tmp_path) == []
        assert contents[0] == contents[1]
        assert [name for name, content in contents[0].items() if b"telltale" in content] == []

        moved = tmp_path / "moved"
        shutil.move(roots[0], moved)
        shutil.rmtree(roots[1])
        info, examples = case.info_for(variant), _examples(variant, case, count)
        for number in range(count):
            names = variant.paths(ShardName("train", number, count), layout)
            with variant.reader([moved / name for name in names], info) as reader:
                assert list(reader) == expected(variant, examples[number])


def _finished_split(
    sink: Sink, case: Case, root: Path, layout: Layout, count: int, tag: str
) -> tuple[list[Shard], list[WrittenFile]]:
    info, batches = case.info_for(sink), _examples(sink, case, count)
    shards = [
        write_shard(
            sink, info, batch, root, ShardName("train", number, count), layout=layout, tag=tag
        )
        for number, batch in enumerate(batches)
    ]
    finished = [FinishedShard(shard.paths, shard.names, _PER_SHARD) for shard in shards]
    names = sink.split_paths("train", count, layout)
    paths = temporary_paths(root, names, tag)
    described = list(sink.finish_split(paths, info, finished, _statistics(info, batches)))
    for temporary, name in zip(paths, names, strict=True):
        temporary.rename(root / name)
    return shards, described


def _examples(sink: Sink, case: Case, count: int) -> list[list[Example]]:
    """For every shard; the images are all of one size and have a mean."""
    all_ = case.same_size(sink, count * _PER_SHARD)
    return [all_[first : first + _PER_SHARD] for first in range(0, len(all_), _PER_SHARD)]


def _statistics(info: DatasetInfo, batches: list[list[Example]]) -> Statistics:
    statistics = Statistics()
    for number, example in enumerate(example for batch in batches for example in batch):
        shape = (example.height, example.width, info.channels)
        pixels = np.full(shape, number, np.uint8)
        grey = pixels[:, :, 0] if info.channels == 1 else pixels
        statistics.add(
            Measured(
                bytes=len(example.encoded),
                format=example.format,
                height=example.height,
                width=example.width,
                histogram=histogram_of(grey, info.channels),
                pixels=pixels,
            )
        )
    return statistics
