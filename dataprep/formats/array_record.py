"""ArrayRecord, which Google's Grain reads at random: records of tf.train.Example.

``train/train-00000-of-01024.arrayrecord``; numbered even if it is the only one, as Grain's users
glob them. The records are those of `tfrecord`. Google's ``array_record`` lays them out: a Riegeli
file of one record a chunk (``group_size:1``, which Grain asks for), uncompressed. Chunks begin with
hashes of themselves; where each begins is in the file's end, so there is no index beside it.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.formats import ShardName, ShardReader, ShardWriter, WrittenFile, damage, tf_example
from dataprep.formats.base import Layout, PlainSink, Record
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.hashed_file import begin_writeback, hash_finished, library_writes
from dataprep.formats.reference_readers import import_reader
from dataprep.system.regular_files import require_regular
from dataprep_schemas.fields import EVERY, KindName

_BUFFER = 16 << 20  # the library's, which it writes when it is full
_WRITING = "group_size:1,uncompressed,max_parallelism:1"  # these words are in the file
_READING = "readahead_buffer_size:0,max_parallelism:0"  # no threads, which a fork would lose


def _library() -> Any:
    install = '"dataprep-shards[arrayrecord]"'
    library = import_reader("array_record", "python.array_record_module", install=install)
    return library.python.array_record_module


class ArrayRecordWriter(ShardWriter):
    """Writes one shard by Google's writer."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(info)
        (self._path,) = paths
        # Bytes: a path need not be UTF-8.
        self._writer = _library().ArrayRecordWriter(os.fsencode(self._path), _WRITING)
        self._file = self._path.open("rb", buffering=0)
        self._buffered = 0

    def append(self, example: Example) -> None:
        """Append one example as one record."""
        data = b"".join(tf_example.encode(example, self.info))
        with library_writes(self._path, "ArrayRecord", RuntimeError):
            self._writer.write(data)
        self._buffered += len(data)
        if self._buffered >= _BUFFER:
            self._buffered = 0
            begin_writeback(self._file.fileno())

    def close(self) -> Sequence[WrittenFile]:
        """Write where the records are, and hash the file."""
        with library_writes(self._path, "ArrayRecord", RuntimeError):
            self._writer.close()
        self.abandon()
        return [hash_finished(self._path)]

    def abandon(self) -> None:
        """Drop the writer, which closes the file and writes nothing more."""
        self._writer = None
        self._file.close()


class ArrayRecordReader(ShardReader):
    """Reads one shard by Google's reader, which checks the hashes of what it reads."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        require_regular(self.path)  # of a missing one the library says only that it has no records
        library = _library()
        with damage(self.path, "structure"):
            self._reader = library.ArrayRecordReader(os.fsencode(self.path), _READING)
            self._count: int = self._reader.num_records()
            if not self._reader.ok():
                self.close()
                raise SinkError("it is not ArrayRecord, or not whole")

    def __len__(self) -> int:
        return self._count

    def read(self, number: int) -> Example:
        """The Example of a record, found without reading those before it."""
        (data,) = self._reader.read([number])
        return tf_example.decode(data, self.info)

    @override
    def close(self) -> None:
        """Drop the reader, which closes the file; its own way to close fails if it is damaged."""
        self._reader = None
        super().close()


class ArrayRecordSink(PlainSink):
    """``--sink arrayrecord``."""

    name: ClassVar[str] = "arrayrecord"
    summary: ClassVar[str] = "tf.train.Example in ArrayRecord files, read at random: Grain (JAX)"
    keeps: ClassVar[Collection[KindName]] = EVERY
    libraries: ClassVar[tuple[str, ...]] = ("array-record",)
    reference: ClassVar[str] = "Grain"
    overhead: ClassVar[int] = 600  # measured: 72, and at most 510 as in tfrecord
    Writer = ArrayRecordWriter
    Reader = ArrayRecordReader

    @override
    def require(self) -> None:
        _library()

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        name = PurePosixPath(f"{shard}.arrayrecord")
        return [shard.split / name if layout == "split" else name]

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records as Grain's ``ArrayRecordDataSource`` gives them, parsed by protobuf."""
        grain = import_reader("grain", "sources", install="grain")
        path = paths[0]
        with damage(path, "Grain"), grain.sources.ArrayRecordDataSource([str(path)]) as source:
            for number in range(len(source)):
                example = tf_example.decode(source[number], info)
                yield example.encoded, example.labels
