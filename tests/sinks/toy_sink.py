"""Two small sinks that are right, to be broken."""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from dataprep.errors import SinkError
from dataprep.sinks import (
    DatasetInfo,
    FinishedShard,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import HashedFile


class ToyWriter(ShardWriter):
    """Pickles, each behind its length and hash; what is broken depends on the sink."""

    def __init__(self, paths: Sequence[Path], sink: ToySink, info: DatasetInfo) -> None:
        self.sink, self.info, self.paths = sink, info, paths
        self.data = HashedFile(paths[0])
        self.table = HashedFile(paths[1])

    def write(self, example: Example) -> None:
        if example.format == "RAW":
            raise SinkError(f"{example.key!r}: RAW is for others")
        record = pickle.dumps(self.sink.stored(example, self), protocol=4)
        head = struct.pack("<Q", len(record)) + hashlib.sha256(record).digest()
        self.table.write(b"%d\n" % self.data.size)
        self.data.write(head + record)

    def close(self) -> Sequence[WrittenFile]:
        return self.data.finish(), self.table.finish()

    def abandon(self) -> None:
        self.data.abandon()
        self.table.abandon()


class ToyReader(ShardReader):
    def __init__(self, paths: Sequence[Path], sink: ToySink, info: DatasetInfo) -> None:
        self.path, self.sink, self.info = paths[0], sink, info
        self.file = paths[0].open("rb")
        size, self.offsets = self.path.stat().st_size, [0]
        while self.offsets[-1] < size:
            self.file.seek(self.offsets[-1])
            head = self.file.read(40)
            if len(head) < 40:
                self.refuse()
            self.offsets.append(self.offsets[-1] + 40 + struct.unpack("<Q", head[:8])[0])
        if self.offsets[-1] != size:
            self.refuse()
        table = [b"%d" % offset for offset in self.offsets[:-1]]
        if len(paths) > 1 and paths[1].read_bytes().split() != table:
            self.refuse()

    def refuse(self) -> None:
        self.file.close()
        raise SinkError(f"{self.path}: damaged")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> Example:
        if number >= len(self):
            raise IndexError(number)
        self.file.seek(self.offsets[number])
        digest = self.file.read(40)[8:]
        record = self.file.read(self.offsets[number + 1] - self.offsets[number] - 40)
        if hashlib.sha256(record).digest() != digest:
            self.refuse()
        return self.sink.restored(pickle.loads(record), self.info)

    def close(self) -> None:
        self.file.close()


class ToySink(Sink):
    """A small sink that is right; each of those below breaks one thing."""

    name = "toy"
    summary = "Pickles."
    keeps_boxes = True
    keeps_attributes = True
    Writer: type[ToyWriter] = ToyWriter
    Reader: type[ToyReader] = ToyReader

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        name = f"{shard}.toy"
        data = PurePosixPath(name) if layout == "flat" else PurePosixPath(shard.split, name)
        return data, data.with_suffix(".table")

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        return self.Writer(paths, self, info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        return self.Reader(paths, self, info)

    def stored(self, example: Example, writer: ToyWriter) -> Any:
        return tuple(getattr(example, name) for name in Example.__slots__)

    def restored(self, stored: Any, info: DatasetInfo) -> Example:
        return Example(*stored)


class Listing(ToySink):
    """Right: lists the shards of a split."""

    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        return (PurePosixPath(f"{split}.txt"),)

    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
        statistics: object,
    ) -> Sequence[WrittenFile]:
        file = HashedFile(paths[0])
        for shard in shards:
            file.write(self.line(shard).encode() + b"\n")
        return [file.finish()]

    def line(self, shard: FinishedShard) -> str:
        return str(shard.names[0])
