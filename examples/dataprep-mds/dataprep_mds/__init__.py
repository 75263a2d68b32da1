"""The sink ``mds`` of dataprep: MosaicML Streaming's shards, encoded by MosaicML's own library.

A split is a directory that ``StreamingDataset(local="OUT/train")`` reads as it is::

    OUT/train/train-00000-of-00004.mds    a shard of dataprep is a shard of MosaicML's
    OUT/train/index.json                  the list of them, made when all are there

Every sample has ``key``, ``image`` (the file's bytes), ``format`` (``JPEG`` or ``PNG``), ``height``
and ``width`` (pixels), ``boxes`` (lists of xmin, ymin, xmax, ymax as fractions), and ``label``
(0-based); or, in a data set with any number of labels an image, ``labels``: zeros and ones, and
``box_labels``: what each box shows. Where the data set has attributes, ``attributes`` is a map of
those that the example has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import ClassVar

from dataprep.errors import UsageError
from dataprep.formats import (
    DatasetInfo,
    FinishedShard,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
)
from dataprep.formats.hashed_file import write_file
from dataprep_schemas.fields import PLAIN
from typing_extensions import override

# `dataprep_mds.shard` imports torch, for seconds; `dataprep sinks` does not need it. So: late.


class MdsSink(Sink):
    """``--sink mds``."""

    name: ClassVar[str] = "mds"
    summary: ClassVar[str] = "MosaicML Streaming's MDS with index.json, for StreamingDataset"
    keeps = (*PLAIN, "boxes", "box_labels")
    seeks: ClassVar[bool] = True  # samples are written twice: see `MdsShardWriter`
    reference: ClassVar[str] = "streaming.LocalDataset"
    overhead: ClassVar[int] = 90  # numbers, key, format and offset: measured with ImageNet's keys

    @override
    def versions(self) -> Mapping[str, str]:
        """MosaicML's library makes the bytes."""
        return {"mosaicml-streaming": version("mosaicml-streaming")}

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """One file, in the split's directory in any layout: ``index.json`` has only one name."""
        return [PurePosixPath(shard.split, f"{shard}.mds")]

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """The index."""
        return [PurePosixPath(split, "index.json")]

    @override
    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        """Start a shard.

        Raises:
            UsageError: several labels per image, but no classes to make a vector for.
        """
        if info.multilabel and not info.classes:
            raise UsageError("sink mds: a multi-label data set needs its list of classes")
        from dataprep_mds.shard import MdsShardWriter

        return MdsShardWriter(paths[0], info)

    @override
    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        """Open a finished shard; it needs no index."""
        from dataprep_mds.shard import MdsShardReader

        return MdsShardReader(paths[0], info)

    @override
    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
    ) -> Sequence[WrittenFile]:
        """Write the index; it leaves empty shards out, as MosaicML's writer makes none."""
        from dataprep_mds.shard import index_entry

        entries = [index_entry(shard.paths[0]) for shard in shards if shard.records]
        index = json.dumps({"version": 2, "shards": entries}, sort_keys=True)
        return [write_file(paths[0], index.encode())]

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The shard through MosaicML's ``LocalDataset``."""
        from dataprep_mds.shard import local_records

        return local_records(paths[0])
