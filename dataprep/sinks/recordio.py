r"""MXNet RecordIO: what ``im2rec`` writes and ``ImageRecordIter`` and DALI read.

A shard is three files: the records (``.rec``), MXNet's index (``.idx``: ``<number>\t<offset>``)
and the list (``.lst``: ``<number>\t<label>\t<key>``, labels as ``%f``, as ``im2rec.py --list``
writes it). A record is ``u32 flag | f32 label | u64 id | u64 id2``, little-endian, and the encoded
image; its id is its 0-based number in the shard, id2 is 0. With one label per image, flag is 0 and
label the 0-based class index. With several, flag is the number of classes n, label is 0, and n
float32 zeros or ones stand before the image (``mx.recordio.pack``; ``label_width=n``).

In the file, a record is one part or several, each ``u32 magic | u32 (cflag << 29 | length) | data |
zeros up to a multiple of 4``. Where the data holds the magic at a multiple of 4, it is cut: the
magic itself is left out, and put back by the reader between two parts. So a reader that starts
anywhere finds the next record by looking for the magic. cflag is 0 for a record in one part,
otherwise 1 for the first, 2 for each in between and 3 for the last. Source: dmlc-core
include/dmlc/recordio.h and src/recordio.cc.

The format has no checksum. Noticed are damaged framing, a shortened file (where the ``.idx`` is at
hand, or the cut is not between two records), and ids, labels or offsets on which the three files
disagree. Not noticed are flipped bits in an image, and a length changed by at most 3 within its
padding: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import re
import struct
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar

import numpy as np

from dataprep.errors import SinkError, UsageError
from dataprep.sinks.annotations import (
    flags_found,
    from_image,
    import_reader,
    label_found,
    labels_to_store,
    located,
    naming,
)
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

OVERHEAD = 8 + 3  # of a record in one part, at most
LENGTH_LIMIT = 1 << 29  # a record must be shorter than this: its length has 29 bits
_PART_HEADER = struct.Struct("<II")
_MAGIC_NUMBER = 0xCED7230A
_MAGIC = struct.pack("<I", _MAGIC_NUMBER)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_CFLAG_SHIFT = 29

_IR_HEADER = struct.Struct("<IfQQ")  # mxnet src/io/image_recordio.h
_EXACT = 1 << 24  # float32 holds every integer up to this one
_SIDECAR_BYTES = 80  # a line of the index and one of the list
_STREAM_BUFFER = 1 << 20
_INDEX_LINE = re.compile(rb"([0-9]{1,18})\t([0-9]{1,18})\n")
_LIST_LINE = re.compile(rb"([0-9]{1,18})\t((?:-?[0-9]{1,30}(?:\.[0-9]{1,30})?\t)+)([^\t\r\n]*)\n")
_LINE_END = re.compile("[\t\r\n]")  # Python's readers take \r for the end of a line, too


def frame(record: bytes) -> list[bytes]:
    """The pieces of one record, in order.

    Raises:
        SinkError: it has 2**29 bytes or more.
    """
    if len(record) >= LENGTH_LIMIT:
        raise SinkError(f"{len(record)} bytes; RecordIO holds less than {LENGTH_LIMIT} in a record")
    cuts = _aligned_magics(record)
    if not cuts:
        return _part(_WHOLE, record)
    pieces = _part(_FIRST, record[: cuts[0]])
    for start, end in pairwise(cuts):
        pieces += _part(_MIDDLE, record[start + 4 : end])
    return pieces + _part(_LAST, record[cuts[-1] + 4 :])


def read_record(file: BinaryIO, offset: int, file_size: int) -> tuple[bytes, int]:
    """The record at ``offset``, and the offset behind it.

    Raises:
        SinkError: it is damaged; the message says how, not where.
    """
    pieces: list[bytes] = []
    size = 0
    end = offset
    for length, end in _parts(file, offset, file_size):
        data = file.read(end - file.tell())
        piece = data[:length] if len(data) > length else data
        if any(data[length:]):
            raise SinkError("the padding behind its data is not zero")
        if _aligned_magics(piece):
            raise SinkError("its data holds the magic number where no reader may find it")
        pieces.append(piece)
        size += length + 4
        if size - 4 >= LENGTH_LIMIT:
            raise SinkError(f"its parts hold {LENGTH_LIMIT} bytes or more")
    return _MAGIC.join(pieces), end


def _part(cflag: int, data: bytes) -> list[bytes]:
    header = _PART_HEADER.pack(_MAGIC_NUMBER, cflag << _CFLAG_SHIFT | len(data))
    padding = -len(data) % 4
    return [header, data, bytes(padding)] if padding else [header, data]


def _aligned_magics(data: bytes) -> list[int]:
    """Where the magic is at a multiple of 4; ten times as fast as ``bytes.find``."""
    words = np.frombuffer(data, "<u4", count=len(data) // 4)
    found: list[int] = (np.flatnonzero(words == _MAGIC_NUMBER) * 4).tolist()
    return found


def _parts(file: BinaryIO, offset: int, file_size: int) -> Iterator[tuple[int, int]]:
    """(length of the data, offset behind the padding) of each part; the file is at the data."""
    expected = (_WHOLE, _FIRST)
    while True:
        file.seek(offset)
        header = file.read(_PART_HEADER.size)
        if len(header) < _PART_HEADER.size:
            raise SinkError(f"the file ends at byte {file_size}, within the record")
        magic, word = _PART_HEADER.unpack(header)
        cflag, length = word >> _CFLAG_SHIFT, word & (LENGTH_LIMIT - 1)
        if magic != _MAGIC_NUMBER:
            raise SinkError(f"the magic number at byte {offset} is 0x{magic:08x}, not 0xced7230a")
        if cflag not in expected:
            raise SinkError(f"the part at byte {offset} has continuation flag {cflag}")
        if cflag in (_FIRST, _MIDDLE) and length % 4:
            raise SinkError(f"the part at byte {offset} ends at no multiple of 4 bytes")
        offset += _PART_HEADER.size + length + -length % 4
        if offset > file_size:
            raise SinkError(f"the file ends at byte {file_size}, within {length} bytes of data")
        yield length, offset
        if cflag in (_WHOLE, _LAST):
            return
        expected = (_MIDDLE, _LAST)


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
        with naming(example):
            label, vector = self._labels(example)
            line = _list_line(number, vector or (label,), example.key)
            header = _IR_HEADER.pack(len(vector), label, number, 0)
            numbers = struct.pack(f"<{len(vector)}f", *vector)
            pieces = frame(b"".join((header, numbers, example.encoded)))
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
        labels = labels_to_store(example, self._info)
        if self._info.multilabel:
            return 0.0, self._info.multi_hot(labels)
        if labels[0] > _EXACT:
            raise SinkError(f"label {labels[0]} is inexact as the float32 of RecordIO")
        return float(labels[0]), ()


class RecordIOReader(ShardReader):
    """Reads one shard; the sidecars may be missing.

    Without the ``.idx`` the records are found by walking through the file, and without the ``.lst``
    the keys are the ids in eight digits. Memory: 16 bytes a record for the index, 8 for the list,
    whose lines are read when they are needed.
    """

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._path = paths[0]
        self._info = info
        self._list: BinaryIO | None = None
        # Two handles, so that a look at one record does not throw the big buffer away.
        self._file = self._path.open("rb")
        self._stream = self._path.open("rb", buffering=_STREAM_BUFFER)
        try:
            self._size = self._file.seek(0, 2)
            self._numbers: array[int] | None = None
            if len(paths) > 1:
                self._numbers, self._offsets = load_index(paths[1], self._size)
            else:
                self._offsets = scan(self._file, self._path, self._size)
            if len(paths) > 2:
                self._list = paths[2].open("rb")
                self._line_starts = _line_starts(self._list, len(self))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many records the index, or else the file, has."""
        return len(self._offsets)

    def __getitem__(self, number: int) -> Example:
        """Record ``number``, found through the index."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self._path} has {len(self)} records, not one numbered {number}")
        with self._locating(number):
            record, _ = read_record(self._file, self._offsets[number], self._size)
            return self._decode(number, record)

    def __iter__(self) -> Iterator[Example]:
        """Every record in the file's order; each must be where the index says."""
        offset = number = 0
        while offset < self._size:
            if number >= len(self) or self._offsets[number] != offset:
                raise SinkError(
                    f"{self._path}: record {number} is at byte {offset}, which its .idx does not "
                    "say; make the shard again"
                )
            with self._locating(number):
                record, offset = read_record(self._stream, offset, self._size)
                example = self._decode(number, record)
            yield example
            number += 1
        if number != len(self):
            raise SinkError(
                f"{self._path}: ends after {number} records, its .idx has {len(self)}; "
                "make the shard again"
            )

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
        expected = identity if self._numbers is None else self._numbers[number]
        if (identity, second) != (expected, 0):
            raise SinkError(f"its ids are {identity} and {second}, expected {expected} and 0")
        stored = struct.unpack_from(f"<{flag}f", record, _IR_HEADER.size) if flag else (label,)
        key = f"{identity:08d}"
        if self._list is not None:
            *told, key = self._line(self._list, number)
            if told != [identity, stored]:
                raise SinkError(f"line {number + 1} of its .lst has another number or label")
        return from_image(key, record[start:], self._labels(flag, stored), self._info)

    def _labels(self, flag: int, stored: tuple[float, ...]) -> tuple[int, ...]:
        if flag or self._info.multilabel:
            if self._info.classes and not self._info.multilabel:
                raise SinkError(f"it has a vector of {flag} labels, expected one label")
            return flags_found(stored if flag else (), self._info)
        if not 0 <= stored[0] <= _EXACT or stored[0] != int(stored[0]):
            raise SinkError(f"its label is {stored[0]}, expected a class index")
        return label_found(int(stored[0]), self._info)

    def _line(self, file: BinaryIO, number: int) -> tuple[int, tuple[float, ...], str]:
        """Number, labels as stored, and key of a line of the list."""
        file.seek(self._line_starts[number])
        match = _LIST_LINE.fullmatch(file.readline())
        if not match:
            raise SinkError(f"line {number + 1} of its .lst is not '<number> <labels> <key>'")
        labels = tuple(float(label) for label in match[2].split())
        return int(match[1]), labels, match[3].decode("utf-8", "surrogateescape")

    def _locating(self, number: int) -> AbstractContextManager[None]:
        return located(f"{self._path}: record {number} at byte {self._offsets[number]}")


def load_index(path: Path, file_size: int) -> tuple[array[int], array[int]]:
    """Number and offset of every record by the ``.idx`` of a ``.rec`` of ``file_size`` bytes.

    Raises:
        SinkError: it is damaged, or is not this file's.
    """
    numbers, offsets = array("Q"), array("Q")
    with path.open("rb") as file:
        for line_number, line in enumerate(file, start=1):
            match = _INDEX_LINE.fullmatch(line)
            if not match:
                raise SinkError(f"{path}: line {line_number} is not '<number> TAB <offset>'")
            offset = int(match[2])
            if (offset <= offsets[-1]) if offsets else offset:
                raise SinkError(
                    f"{path}: line {line_number}: offset {offset} is out of order, "
                    "expected 0 first and then ascending ones; make the shard again"
                )
            numbers.append(int(match[1]))
            offsets.append(offset)
    if offsets and offsets[-1] >= file_size:
        raise SinkError(
            f"{path}: points at byte {offsets[-1]} of a file of {file_size} bytes; "
            "make the shard again"
        )
    return numbers, offsets


def scan(file: BinaryIO, path: Path, file_size: int) -> array[int]:
    """The offset of every record of a ``.rec`` that has lost its index.

    Raises:
        SinkError: the framing is damaged.
    """
    offsets = array("Q")
    offset = 0
    while offset < file_size:
        with located(f"{path}: record {len(offsets)} at byte {offset}"):
            *_, (_, end) = _parts(file, offset, file_size)
        offsets.append(offset)
        offset = end
    return offsets


def _line_starts(file: BinaryIO, lines: int) -> array[int]:
    starts = array("Q", [0])
    for line in file:
        starts.append(starts[-1] + len(line))
    if len(starts) - 1 != lines:
        raise SinkError(
            f"{file.name}: has {len(starts) - 1} lines for {lines} records; make the shard again"
        )
    return starts


def _list_line(number: int, labels: Sequence[float], key: str) -> bytes:
    """A line of the list, as ``write_list`` of MXNet's ``im2rec.py`` writes it.

    Raises:
        SinkError: the key has a tab or the end of a line in it, which would break the list.
    """
    if _LINE_END.search(key):
        raise SinkError("a key with a tab or a line end in it cannot stand in an .lst")
    columns = "".join(f"{label:f}\t" for label in labels)
    return f"{number}\t{columns}{key}\n".encode("utf-8", "surrogateescape")


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
        dali = import_reader("nvidia.dali", "fn", "pipeline", install="nvidia-dali-cuda120")
        return _dali_records(dali, paths, info)


def _dali_records(
    dali: Any, paths: Sequence[Path], info: DatasetInfo
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    data = paths[0]
    size = data.stat().st_size
    with tempfile.TemporaryDirectory() as directory:
        if len(paths) > 1:
            index_path = paths[1]
            _, offsets = load_index(index_path, size)
        else:
            index_path = Path(directory, "index.idx")
            with data.open("rb") as file:
                offsets = scan(file, data, size)
            with index_path.open("w", encoding="ascii") as index:
                index.writelines(f"{number}\t{offset}\n" for number, offset in enumerate(offsets))
        if not offsets:  # DALI refuses empty files
            return
        try:
            pipeline = _pipeline(dali, data, index_path)
            for _ in offsets:
                image, labels = (output.as_array()[0] for output in pipeline.run())
                yield image.tobytes(), _indices(labels.tolist(), multilabel=info.multilabel)
        except RuntimeError as error:
            said = str(error).strip().splitlines()
            raise SinkError(
                f"{data}: DALI cannot read it: {said[0] if said else error!r}"
            ) from error


def _indices(values: list[float], *, multilabel: bool) -> tuple[int, ...]:
    if multilabel or len(values) != 1:
        return tuple(index for index, value in enumerate(values) if value)
    return (int(values[0]),)


def _pipeline(dali: Any, data: Path, index: Path) -> Any:
    pipeline = dali.pipeline.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*dali.fn.readers.mxnet(path=[str(data)], index_path=[str(index)]))
    pipeline.build()
    return pipeline
