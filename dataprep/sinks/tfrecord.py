"""TFRecord shards of tf.train.Example, with NVIDIA DALI's index beside them.

``train/train-00000-of-01024`` (or flat), and ``index/train/train-00000-of-01024`` holding one
line ``<offset> <bytes>`` a record, framing included, as DALI's ``tfrecord2idx`` writes it. The
index has a directory of its own because readers glob ``train-*``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from dataprep.errors import SinkError
from dataprep.example import Example
from dataprep.sinks import tf_example
from dataprep.sinks.base import Layout, ShardName, WrittenFile
from dataprep.sinks.hashed_file import HashedFile
from dataprep.sinks.tfrecord_framing import OVERHEAD, frame, read_records

_EXAMPLE_OVERHEAD = 450  # measured: an Example without its image is 400 to 450 bytes


class TFRecordWriter:
    """Writes one shard and its DALI index."""

    def __init__(self, data: Path, index: Path) -> None:
        self._data = HashedFile(data)
        self._index = HashedFile(index)

    def write(self, example: Example) -> None:
        """Append one example as one record."""
        start = self._data.size
        for piece in frame(tf_example.encode(example)):
            self._data.write(piece)
        self._index.write(b"%d %d\n" % (start, self._data.size - start))

    def close(self) -> Sequence[WrittenFile]:
        """Finish both files."""
        return self._data.finish(), self._index.finish()

    def abandon(self) -> None:
        """Give both files up."""
        self._data.abandon()
        self._index.abandon()


class TFRecordSink:
    """``--sink tfrecord``."""

    name: ClassVar[str] = "tfrecord"

    def config(self) -> Mapping[str, object]:
        """No options: one way to write it, the way the readers expect."""
        return {}

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The records, then the index."""
        data = (
            PurePosixPath(shard.split, str(shard))
            if layout == "split"
            else PurePosixPath(str(shard))
        )
        return data, PurePosixPath("index", shard.split, str(shard))

    def overhead(self) -> int:
        """Framing, keys and the line of the index."""
        return OVERHEAD + _EXAMPLE_OVERHEAD

    def open(self, paths: Sequence[Path]) -> TFRecordWriter:
        """Start a shard."""
        data, index = paths
        return TFRecordWriter(data, index)

    def read(self, paths: Sequence[Path]) -> Iterator[Example]:
        """Check both checksums of every record, and the index where its path is given too."""
        data = paths[0]
        index = _index_lines(paths[1]) if len(paths) > 1 else None
        with data.open("rb") as file:
            for number, (offset, record) in enumerate(read_records(file, name=str(data))):
                if index is not None and next(index, None) != (offset, len(record) + OVERHEAD):
                    raise SinkError(
                        f"{paths[1]}: line {number + 1} does not point at record {number} "
                        f"(byte {offset}); make the shard again"
                    )
                try:
                    yield tf_example.decode(record)
                except SinkError as error:
                    raise SinkError(f"{data}: record {number} at byte {offset}: {error}") from error
        if index is not None and next(index, None) is not None:
            raise SinkError(f"{paths[1]}: has more lines than {data} has records")


def _index_lines(path: Path) -> Iterator[tuple[int, int]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                offset, size = line.split()
                yield int(offset), int(size)
            except ValueError as error:
                raise SinkError(f"{path}: line {number} is not '<offset> <bytes>'") from error
