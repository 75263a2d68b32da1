r"""MXNet RecordIO: what ``im2rec`` writes and ``ImageRecordIter`` and DALI read.

A shard is three files: the records (``.rec``), MXNet's index (``.idx``: ``<number>\t<offset>``)
and the list (``.lst``: ``<number>\t<label>\t<key>``, labels as ``%f``, as ``im2rec.py --list``
writes it). A record is ``u32 flag | f32 label | u64 id | u64 id2``, little-endian, and the encoded
image; its id is its 0-based number in the shard, id2 is 0. With one label per image, flag is 0 and
label the 0-based class index. With several, flag is the number of classes n, label is 0, and n
float32 zeros or ones stand before the image (``mx.recordio.pack``; ``label_width=n``).

The format has no checksum. Noticed are damaged framing, a shortened file (where the ``.idx`` is at
hand, or the cut is not between two records), and ids, labels or offsets on which the three files
disagree. Not noticed are flipped bits in an image, and a length changed by at most 3 within its
padding: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from dataprep.errors import ImageError, SinkError, UsageError
from dataprep.images.sniff import sniff
from dataprep.sinks.base import (
    DatasetInfo,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
    shard_path,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import HashedFile
from dataprep.sinks.recordio_dali import dali_records
from dataprep.sinks.recordio_framing import OVERHEAD, frame, read_record
from dataprep.sinks.recordio_sidecars import ListFile, RecordIndex, list_line

_IR_HEADER = struct.Struct("<IfQQ")  # mxnet src/io/image_recordio.h
_EXACT = 1 << 24  # float32 holds every integer up to this one
_SIDECAR_BYTES = 80  # a line of the index and one of the list
_STREAM_BUFFER = 1 << 20


class RecordIOWriter(ShardWriter):
    """Writes the records, the index and the list side by side."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._info = info
        self._records = 0
        self._files: list[HashedFile] = []
        try:
            for path in paths:
                self._files.append(HashedFile(path))
        except OSError:
            self.abandon()
            raise

    def write(self, example: Example) -> None:
        """Append one record and its two lines; nothing at all if it cannot be held."""
        number = self._records
        try:
            label, vector = self._labels(example)
            line = list_line(number, vector or (label,), example.key)
            header = _IR_HEADER.pack(len(vector), label, number, 0)
            numbers = struct.pack(f"<{len(vector)}f", *vector)
            pieces = frame(b"".join((header, numbers, example.encoded)))
        except SinkError as error:
            raise SinkError(f"{example.key!r}: {error}") from error
        data, index, listing = self._files
        index.write(b"%d\t%d\n" % (number, data.size))
        listing.write(line)
        for piece in pieces:
            data.write(piece)
        self._records += 1

    def close(self) -> Sequence[WrittenFile]:
        """Finish the three files."""
        return [file.finish() for file in self._files]

    def abandon(self) -> None:
        """Give the three files up."""
        for file in self._files:
            file.abandon()

    def _labels(self, example: Example) -> tuple[float, Sequence[int]]:
        """The header's label, and the vector that follows the header."""
        if example.format == "RAW":
            raise SinkError("RecordIO holds encoded images, not pixels; choose another sink")
        limit = len(self._info.classes) or _EXACT
        if not all(0 <= label < limit for label in example.labels):
            raise SinkError(f"labels {example.labels} are not all in 0 to {limit - 1}")
        if self._info.multilabel:
            return 0.0, self._info.multi_hot(example.labels)
        if len(example.labels) != 1:
            raise SinkError(f"has {len(example.labels)} labels in a set with one label per image")
        if example.class_index > _EXACT:
            raise SinkError(f"label {example.class_index} is inexact as the float32 of RecordIO")
        return float(example.class_index), ()


class RecordIOReader(ShardReader):
    """Reads one shard; the sidecars may be missing.

    Without the ``.idx`` the records are found by walking through the file, and without the ``.lst``
    the keys are the ids in eight digits.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._path = paths[0]
        self._info = info
        self._list: ListFile | None = None
        # Two handles, so that a look at one record does not throw the big buffer away.
        self._file = self._path.open("rb")
        self._stream = self._path.open("rb", buffering=_STREAM_BUFFER)
        try:
            self._size = self._file.seek(0, 2)
            self._index = (
                RecordIndex.load(paths[1], self._size)
                if len(paths) > 1
                else RecordIndex.scan(self._file, self._path, self._size)
            )
            if len(paths) > 2:
                self._list = ListFile(paths[2], lines=len(self._index))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many records the index, or else the file, has."""
        return len(self._index)

    def __getitem__(self, number: int) -> Example:
        """Record ``number``, found through the index."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self._path} has {len(self)} records, not one numbered {number}")
        offset = self._index.offsets[number]
        try:
            record, _ = read_record(self._file, offset, self._size)
            return self._decode(number, record)
        except (SinkError, ImageError) as error:
            raise self._damaged(number, offset, error) from error

    def __iter__(self) -> Iterator[Example]:
        """Every record in the file's order; each must be where the index says."""
        offset = number = 0
        while offset < self._size:
            if number >= len(self) or self._index.offsets[number] != offset:
                raise SinkError(
                    f"{self._path}: record {number} is at byte {offset}, which its .idx does not "
                    "say; make the shard again"
                )
            try:
                record, end = read_record(self._stream, offset, self._size)
                example = self._decode(number, record)
            except (SinkError, ImageError) as error:
                raise self._damaged(number, offset, error) from error
            yield example
            number, offset = number + 1, end
        if number != len(self):
            raise SinkError(
                f"{self._path}: ends after {number} records, its .idx has {len(self)}; "
                "make the shard again"
            )

    def keys(self) -> Iterator[str]:
        """The list's keys, if there is a list."""
        if self._list is None:
            yield from super().keys()
        else:
            for number in range(len(self)):
                yield self._list[number].key

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._stream.close()
        if self._list is not None:
            self._list.close()

    def _decode(self, number: int, record: bytes) -> Example:
        if len(record) < _IR_HEADER.size:
            raise SinkError(f"{len(record)} bytes are too few for the header of an image")
        flag, label, identity, second = _IR_HEADER.unpack_from(record)
        start = _IR_HEADER.size + 4 * flag
        if len(record) < start:
            raise SinkError(f"{len(record)} bytes are too few for its {flag} labels")
        if second != 0 or self._index.number(number) not in (None, identity):
            raise SinkError(
                f"its ids are {identity} and {second}, expected "
                f"{self._index.number(number) or 0} and 0"
            )
        stored = struct.unpack_from(f"<{flag}f", record, _IR_HEADER.size) if flag else (label,)
        labels = self._indices(flag, stored)
        key = f"{identity:08d}"
        if self._list is not None:
            entry = self._list[number]
            if (entry.number, entry.labels) != (identity, stored):
                raise SinkError(f"line {number + 1} of its .lst has another number or label")
            key = entry.key
        encoded = record[start:]
        seen = sniff(encoded)
        return Example(
            key=key,
            encoded=encoded,
            format=seen.format,
            height=seen.height,
            width=seen.width,
            colorspace=self._info.colorspace,
            labels=labels,
            synset=self._info.identifiers(labels),
            class_name=self._info.names(labels),
        )

    def _indices(self, flag: int, stored: tuple[float, ...]) -> tuple[int, ...]:
        classes = len(self._info.classes)
        expected = classes if self._info.multilabel else 0
        if classes and flag != expected:
            raise SinkError(f"it has a vector of {flag} labels, expected {expected}")
        if flag:
            if not set(stored) <= {0.0, 1.0}:
                raise SinkError("its labels are not all 0 or 1")
            return tuple(index for index, value in enumerate(stored) if value)
        limit = classes or _EXACT + 1
        if not 0 <= stored[0] < limit or stored[0] != int(stored[0]):
            raise SinkError(f"its label is {stored[0]}, expected an integer from 0 to {limit - 1}")
        return (int(stored[0]),)

    def _damaged(self, number: int, offset: int, error: Exception) -> SinkError:
        return SinkError(
            f"{self._path}: record {number} at byte {offset}: {error}; make the shard again"
        )


class RecordIOSink(Sink):
    """``--sink recordio``."""

    name: ClassVar[str] = "recordio"
    summary: ClassVar[str] = "MXNet RecordIO with .idx and .lst, for ImageRecordIter and DALI"
    usual_shards: ClassVar[int | None] = 1  # ImageRecordIter takes exactly one index file
    reference: ClassVar[str] = "DALI readers.mxnet"

    def check(self, info: DatasetInfo) -> None:
        """A vector of labels needs to know how long it is.

        Raises:
            UsageError: several labels per image, but no classes to make a vector for.
        """
        super().check(info)
        if info.multilabel and not info.classes:
            raise UsageError("sink recordio: a multi-label data set needs its list of classes")

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The records, the index, the list."""
        return [shard_path(shard, layout, suffix) for suffix in (".rec", ".idx", ".lst")]

    def overhead(self) -> int:
        """Framing, image header, and a line in both sidecars; labels of multi-label sets apart."""
        return OVERHEAD + _IR_HEADER.size + _SIDECAR_BYTES

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> ShardWriter:
        """Start a shard.

        Raises:
            UsageError: several labels per image, but no classes to make a vector for.
        """
        self.check(info)
        return RecordIOWriter(paths, info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> ShardReader:
        """Open a shard with its sidecars, or the ``.rec`` alone."""
        return RecordIOReader(paths, info)

    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The shard through NVIDIA DALI's ``readers.mxnet``, on the CPU."""
        return dali_records(paths, info)
