"""The examples of a finished data set, through its format's own reader."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from dataprep.build.manifest import dataset_info, manifest_sink, present, read_manifest
from dataprep.errors import UsageError
from dataprep.sinks import DatasetInfo, ShardReader, Sink
from dataprep.sinks.example import Example


class FinishedSplit:
    """The examples of one split, in the order they were written; opens nothing but to read.

    Of a node's part of a data set, those of the shards that are there, numbered from 0.

    Attributes:
        out: the directory that holds ``manifest.json``.
        split: which split.
        manifest: restricted to what is there.
        info: what is true of every example.
        sink: the format.
        ends: of each shard, the number behind its last example.

    Raises:
        DatasetError: there is no intact manifest, or it is not clear what is there of it.
        UsageError: no such split, or a format that is not installed.
    """

    def __init__(self, out: Path, split: str) -> None:
        manifest = present(out, read_manifest(out))
        if split not in manifest["splits"]:
            known = ", ".join(manifest["splits"])
            raise UsageError(f"{out} has no split {split!r}; it has: {known}")
        self.out = out.absolute()
        self.split = split
        self.manifest: dict[str, Any] = manifest
        self.info: DatasetInfo = dataset_info(manifest)
        self.sink: Sink = manifest_sink(manifest)
        shards = manifest["splits"][split]["shards"]
        self._files = [[file["path"] for file in shard["files"]] for shard in shards]
        self.ends: list[int] = list(accumulate(shard["records"] for shard in shards))

    def __len__(self) -> int:
        """How many examples there are."""
        return self.ends[-1] if self.ends else 0

    def start(self, shard: int) -> int:
        """The number of a shard's first example."""
        return self.ends[shard - 1] if shard else 0

    def reader(self, shard: int) -> ShardReader:
        """Of one shard, which is counted from 0; to be closed."""
        return self.sink.reader([self.out / path for path in self._files[shard]], self.info)

    def between(self, start: int, stop: int) -> Iterator[Example]:
        """Examples ``start`` to ``stop - 1`` in order; whole shards are read from end to end.

        Raises:
            SinkError: one is damaged, as far as the format lets one check that.
        """
        for shard, end in enumerate(self.ends):
            begin = self.start(shard)
            first, last = max(start, begin), min(stop, end)
            if first >= last:
                continue
            with self.reader(shard) as reader:
                if (first, last) == (begin, end):
                    yield from reader
                else:
                    yield from (reader[number - begin] for number in range(first, last))
