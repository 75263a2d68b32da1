"""TFRecord shards of tf.train.Example, with NVIDIA DALI's index beside them.

``train/train-00000-of-01024`` (or flat), and ``index/train/train-00000-of-01024`` holding one
line ``<offset> <bytes>`` a record, framing included, as DALI's ``tfrecord2idx`` writes it. The
index has a directory of its own because readers glob ``train-*``.

A record is ``u64 LE length | u32 LE masked CRC-32C of the length | data | u32 LE masked CRC-32C of
the data``: 16 bytes more than the data. There is no file header, footer or padding. Source:
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import os
import struct
import sys
import warnings
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar

import google_crc32c

from dataprep.errors import SinkError, UsageError
from dataprep.sinks import tf_example
from dataprep.sinks.base import (
    DatasetInfo,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import HashedFile

OVERHEAD = 16
HEADER_SIZE = 12
_HEADER = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_EXAMPLE_OVERHEAD = 520  # measured: an Example without its image is 450 to 510 bytes


def masked_crc(*pieces: bytes) -> int:
    """CRC-32C (Castagnoli) of the pieces together, rotated and offset as TensorFlow masks it."""
    crc = 0
    for piece in pieces:
        crc = google_crc32c.extend(crc, piece)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame(*pieces: bytes) -> tuple[bytes, ...]:
    """The pieces of one record: header, its data as they came (not copied), footer."""
    length = struct.pack("<Q", sum(map(len, pieces)))
    return length + _FOOTER.pack(masked_crc(length)), *pieces, _FOOTER.pack(masked_crc(*pieces))


def walk_records(file: BinaryIO, *, name: str) -> Iterator[tuple[int, int]]:
    """Every record of an open file as (offset of its length field, length of its data).

    The data are skipped; only the checksums of the lengths are checked. The file may be used for
    something else between two records.

    Args:
        file: a binary file that can seek.
        name: what to call the file in an error.

    Raises:
        SinkError: a length's checksum does not match, or the file ends within a record.
    """
    end = file.seek(0, os.SEEK_END)
    offset = 0
    while offset < end:
        length = _read_length(file, offset, name=name)
        # Compared with the file's size before anything is read: a length can be any number.
        if offset + OVERHEAD + length > end:
            raise _damaged(name, offset, f"the file ends within a record of {length} bytes")
        yield offset, length
        offset += OVERHEAD + length


def read_records(file: BinaryIO, *, name: str) -> Iterator[tuple[int, bytes]]:
    """Every record as (offset of its length field, data); as `walk_records`, and the data checked.

    Raises:
        SinkError: a checksum does not match, or the file ends within a record.
    """
    for offset, length in walk_records(file, name=name):
        yield offset, read_data(file, offset, length, name=name)


def read_data(file: BinaryIO, offset: int, length: int, *, name: str) -> bytes:
    """The data, ``length`` bytes, of the record whose length field is at ``offset``.

    Raises:
        SinkError: the checksum does not match, or the file ends within the record.
    """
    file.seek(offset + HEADER_SIZE)
    data = file.read(length)
    footer = file.read(_FOOTER.size)
    if len(data) < length or len(footer) < _FOOTER.size:
        raise _damaged(name, offset, f"the file ends within a record of {length} bytes")
    if masked_crc(data) != _FOOTER.unpack(footer)[0]:
        raise _damaged(name, offset, "the checksum of the data does not match")
    return data


def read_record(file: BinaryIO, offset: int, length: int, *, name: str) -> bytes:
    """The record at ``offset``, which an index says to have ``length`` bytes of data.

    Raises:
        SinkError: a checksum does not match, or the record has another length.
    """
    found = _read_length(file, offset, name=name)
    if found != length:
        raise _damaged(name, offset, f"it has {found} bytes, but {length} by the index")
    return read_data(file, offset, length, name=name)


def _read_length(file: BinaryIO, offset: int, *, name: str) -> int:
    file.seek(offset)
    header = file.read(HEADER_SIZE)
    if len(header) < HEADER_SIZE:
        raise _damaged(name, offset, "the file ends within a record's header")
    length, length_crc = _HEADER.unpack(header)
    if masked_crc(header[:8]) != length_crc:
        raise _damaged(name, offset, "the checksum of the length does not match")
    return int(length)


def _damaged(name: str, offset: int, what: str) -> SinkError:
    doubt = ", if this is a TFRecord file at all" if offset == 0 else ""
    return SinkError(
        f"{name}: damaged record at byte {offset}: {what}; make the shard again{doubt}"
    )


class TFRecordWriter(ShardWriter):
    """Writes one shard and its DALI index."""

    def __init__(self, data: Path, index: Path, info: DatasetInfo) -> None:
        self._info = info
        self._data = HashedFile(data)
        try:
            self._index = HashedFile(index)
        except BaseException:
            self._data.abandon()
            raise

    def write(self, example: Example) -> None:
        """Append one example as one record."""
        start = self._data.size
        self._data.write(*frame(*tf_example.encode(example, self._info)))
        self._index.write(b"%d %d\n" % (start, self._data.size - start))

    def close(self) -> Sequence[WrittenFile]:
        """Finish both files."""
        return self._data.finish(), self._index.finish()

    def abandon(self) -> None:
        """Give both files up."""
        self._data.abandon()
        self._index.abandon()


class TFRecordReader(ShardReader):
    """Reads one shard, checking both checksums of every record, and the index if it is given."""

    def __init__(self, data: Path, index: Path | None, info: DatasetInfo) -> None:
        self._path = data
        self._index = index
        self._info = info
        self._file = data.open("rb")

    def __len__(self) -> int:
        """How many records the index or, without it, a walk over the frames finds."""
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> Example:
        """One record; its offset comes from the index or from a walk over the frames."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self._path}: no record {number}, there are {len(self)}")
        offset = self._offsets[number]
        length = self._offsets[number + 1] - offset - OVERHEAD
        record = read_record(self._file, offset, length, name=str(self._path))
        return self._decode(number, offset, record)

    def __iter__(self) -> Iterator[Example]:
        """Every record in order."""
        index = _index_lines(self._index) if self._index else None
        records = read_records(self._file, name=str(self._path))
        for number, (offset, record) in enumerate(records):
            if index is not None and next(index, None) != (offset, len(record) + OVERHEAD):
                raise SinkError(
                    f"{self._index}: line {number + 1} does not point at record {number} "
                    f"(byte {offset}); make the shard again"
                )
            yield self._decode(number, offset, record)
        if index is not None and next(index, None) is not None:
            raise SinkError(f"{self._index}: has more lines than {self._path} has records")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @cached_property
    def _offsets(self) -> array[int]:
        """Where every record starts, and where the last one ends."""
        found = array("Q", [0])
        if self._index is None:
            for offset, length in walk_records(self._file, name=str(self._path)):
                found.append(offset + length + OVERHEAD)
            return found
        end = self._file.seek(0, os.SEEK_END)
        for line, (offset, size) in enumerate(_index_lines(self._index), start=1):
            if offset != found[-1] or size < OVERHEAD or offset + size > end:
                raise SinkError(
                    f"{self._index}: line {line} says {size} bytes from byte {offset}, but a "
                    f"record starts at byte {found[-1]} of {end}; make the shard again"
                )
            found.append(offset + size)
        if found[-1] != end:
            raise SinkError(
                f"{self._index}: ends at byte {found[-1]}, but {self._path} has {end} bytes; "
                f"make the shard again"
            )
        return found

    def _decode(self, number: int, offset: int, record: bytes) -> Example:
        try:
            return tf_example.decode(record, self._info)
        except SinkError as error:
            raise SinkError(f"{self._path}: record {number} at byte {offset}: {error}") from error


class TFRecordSink(Sink):
    """``--sink tfrecord``; no options: one way to write it, the way the readers expect."""

    name: ClassVar[str] = "tfrecord"
    summary: ClassVar[str] = (
        "tf.train.Example in TFRecord files, with DALI's index: TensorFlow, DALI"
    )
    keeps_boxes: ClassVar[bool] = True
    keeps_attributes: ClassVar[bool] = True
    reference: ClassVar[str] = "tf.data"

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The records, then the index; names as Google's TPU script gives them."""
        data = PurePosixPath(str(shard))
        if layout == "split":
            data = shard.split / data
        return data, PurePosixPath("index", shard.split, str(shard))

    def overhead(self) -> int:
        """Framing, keys and the line of the index."""
        return OVERHEAD + _EXAMPLE_OVERHEAD

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> TFRecordWriter:
        """Start a shard."""
        data, index = paths
        return TFRecordWriter(data, index, info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> TFRecordReader:
        """Open a shard, with or without its index."""
        return TFRecordReader(paths[0], paths[1] if len(paths) > 1 else None, info)

    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The records as ``tf.data.TFRecordDataset`` and ``tf.io.parse_single_example`` read them.

        Raises:
            UsageError: TensorFlow is not installed.
            SinkError: TensorFlow finds the file damaged, or the features missing.
        """
        tf = _tensorflow()
        return _tensorflow_records(tf, str(paths[0]), info)


def _index_lines(path: Path) -> Iterator[tuple[int, int]]:
    # Read at once, so that an iteration that is never finished holds no file.
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            offset, size = line.split()
            yield int(offset), int(size)
        except ValueError as error:
            raise SinkError(f"{path}: line {number} is not '<offset> <bytes>'") from error


def _tensorflow() -> Any:
    """TensorFlow, imported without a word about the machine's processor."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    try:
        with warnings.catch_warnings(), _mute():
            warnings.simplefilter("ignore")
            return import_module("tensorflow")
    except ImportError as error:
        raise UsageError(
            f"TensorFlow cannot be imported ({error}); pip install tensorflow-cpu"
        ) from error


@contextmanager
def _mute() -> Iterator[None]:
    """Nothing on the terminal: C++ writes to standard error before it has read its log level."""
    try:
        kept = os.dup(2)
    except OSError:  # there is none
        yield
        return
    try:
        with suppress(ValueError):
            sys.stderr.flush()
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _tensorflow_records(
    tf: Any,
    path: str,
    info: DatasetInfo,
) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    shape = [len(info.classes)] if info.multilabel else [1]
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string),
        "image/class/label": tf.io.FixedLenFeature(shape, tf.int64),
    }
    parse = tf.io.parse_single_example
    dataset = tf.data.TFRecordDataset(path).map(lambda record: parse(record, features))
    try:
        for found in dataset.as_numpy_iterator():
            label = found["image/class/label"].tolist()
            if info.multilabel:
                labels = tuple(number for number, flag in enumerate(label) if flag)
            else:
                labels = (label[0] - tf_example.LABEL_BASE,)
            yield found["image/encoded"], labels
    except tf.errors.OpError as error:
        raise SinkError(f"{path}: TensorFlow: {error.message}") from error
