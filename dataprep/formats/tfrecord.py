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
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Final

import google_crc32c
from typing_extensions import override

from dataprep.archives.listing import StoredImage
from dataprep.archives.packed import Copy
from dataprep.errors import SinkError
from dataprep.formats import Layout, PlainSink, Record, ShardName, tf_example
from dataprep.formats.example import DatasetInfo, Example
from dataprep.formats.reference_readers import import_reader
from dataprep.formats.samples import HEAD, LONGEST, Sample, Value, is_image, streamed, varint
from dataprep.formats.stream import StreamReader, StreamWriter
from dataprep.system.regular_files import read_regular
from dataprep_schemas import example_pb2
from dataprep_schemas.fields import EVERY, KindName

FRAMING: Final = 16  # bytes of the frame of a record
# What is before the data: its length, and the checksum of that.
HEADER: Final = struct.Struct("<QI")
_FOOTER = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_SMALL: Final = 4096  # bytes of a feature that is read whole, whatever it is
_TAG_AND_LENGTH: Final = 20  # bytes, at most
_LENGTH_DELIMITED: Final = 2  # of protocol buffers' wire types

Read = Callable[[int, int], bytes]  # reads so many bytes at an offset, or as many as there are


def masked_crc(*pieces: bytes) -> int:
    """CRC-32C (Castagnoli) of the pieces together, rotated and offset as TensorFlow masks it."""
    crc = 0
    for piece in pieces:
        crc = google_crc32c.extend(crc, piece)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def read_length(header: bytes) -> int:
    """The length of a record's data, of the first 12 bytes of the record.

    Raises:
        SinkError: the checksum does not match, or the file ends within.
    """
    if len(header) < HEADER.size:
        raise SinkError("the file ends within a record's header")
    length, length_crc = HEADER.unpack(header)
    if masked_crc(header[:8]) != length_crc:
        raise SinkError("the checksum of the length does not match")
    return int(length)


def frame(before: bytes, image: bytes, behind: bytes) -> tuple[bytes, bytes, bytes]:
    """One record of data in three pieces, and the second not copied: it may be large."""
    length = struct.pack("<Q", len(before) + len(image) + len(behind))
    header = length + _FOOTER.pack(masked_crc(length))
    return header + before, image, behind + _FOOTER.pack(masked_crc(before, image, behind))


def unframe(record: bytes) -> bytes:
    """The inverse of `frame`.

    Raises:
        SinkError: a checksum does not match, or the record has another length.
    """
    length = read_length(record[: HEADER.size])
    if length + FRAMING != len(record):
        raise SinkError(f"a record of {length} bytes, expected {len(record) - FRAMING}")
    data = record[HEADER.size : -_FOOTER.size]
    if masked_crc(data) != _FOOTER.unpack(record[-_FOOTER.size :])[0]:
        raise SinkError("the checksum of the data does not match")
    return data


def frames(read: Read, reach: Callable[[int], int]) -> Iterator[tuple[int, int]]:
    """Where the data of each record of a file starts and ends; the data is not read.

    Args:
        reach: tells how many of the first so many bytes there are.

    Raises:
        SinkError: something else is where a record should be.
    """
    at = 0
    while reach(at + 1) > at:
        length = read_length(read(at, HEADER.size))
        if reach(at + length + FRAMING) < at + length + FRAMING:
            raise SinkError(f"the file ends within a record of {length} bytes")
        yield at + HEADER.size, at + HEADER.size + length
        at += length + FRAMING


def tfrecord_samples(
    raw: Path,
    container: str,
    wanted: Collection[str] | None = None,
    copy: Copy | None = None,
) -> Iterator[Sample]:
    """The tf.train.Examples of a TFRecord file; their features are the fields.

    Args:
        wanted: those that are read, of features of more than 4 KiB; None: all.
        copy: what a file is unpacked to that is compressed as a whole.

    Raises:
        SourceError: the file cannot be read or is damaged, or has other records.
    """
    kind = "TFRecord file of tf.train.Examples"
    with streamed(raw, container, kind, copy) as (source, stream, packing):
        for data in frames(stream.read_at, stream.reach):
            sample = Sample("", {}, {}, [])
            for features in _fields(stream.read_at, *data):
                for entry in _fields(stream.read_at, *features[1:]) if features[0] == 1 else ():
                    name, found = _feature(stream.read_at, *entry[1:], wanted)
                    if isinstance(found, tuple):
                        place = (found[0], found[1] - found[0], 0, packing, source.mtime)
                        sample.images[name] = StoredImage("", container, *place)
                    elif entry[2] - entry[1] > LONGEST:
                        sample.unread.append(name)
                    else:
                        sample.fields[name] = found
            yield sample


def _feature(
    read: Read, start: int, end: int, wanted: Collection[str] | None
) -> tuple[str, Value | tuple[int, int]]:
    """The name of a feature, and its value; of an image where it lies."""
    if end - start <= _SMALL:
        entry = example_pb2.Features.FeatureEntry.FromString(read(start, end - start))
        texts = entry.value.bytes_list.value
        if len(texts) != 1 or not is_image(texts[0][:HEAD]):
            return entry.key, _value(entry.value)
    parts = {number: (first, last) for number, first, last in _fields(read, start, end)}
    name = read(parts[1][0], min(parts[1][1] - parts[1][0], _SMALL)).decode("utf-8")
    for number, first, last in _fields(read, *parts[2]):
        places = [*_fields(read, first, last)] if number == 1 else []  # 1: a list of bytes
        if len(places) == 1 and is_image(read(places[0][1], HEAD)):
            return name, (places[0][1], places[0][2])
        break
    if end - start > LONGEST or (wanted is not None and name not in wanted):
        return name, None
    entry = example_pb2.Features.FeatureEntry.FromString(read(start, end - start))
    return name, _value(entry.value)


def _value(feature: example_pb2.Feature) -> Value:
    """What a feature holds: a list of other than one value; an empty one, if it has a kind."""
    texts = feature.bytes_list.value
    values: list[Any] = [text.decode("utf-8", "surrogateescape") for text in texts]
    values += [*feature.int64_list.value, *feature.float_list.value]
    found: Value = values[0] if len(values) == 1 else values
    return found if feature.WhichOneof("kind") else None


def _fields(read: Read, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The fields of a message that lies there: number, start and end of what each holds."""
    while start < end:
        head = read(start, min(_TAG_AND_LENGTH, end - start))
        tag, at = varint(head, 0)
        size, at = varint(head, at)
        start += at
        if tag & 7 != _LENGTH_DELIMITED or start + size > end:
            raise ValueError(f"no tf.train.Example at byte {start}")
        yield tag >> 3, start, start + size
        start += size


_EXAMPLE_OVERHEAD = 520  # measured: an Example without its image is 450 to 510 bytes


class TFRecordWriter(StreamWriter):
    """Writes one shard and its DALI index."""

    @override
    def append(self, example: Example) -> None:
        data, index = self.files
        start = data.size
        data.write(*frame(*tf_example.encode(example, self.info)))
        index.write(b"%d %d\n" % (start, data.size - start))


class TFRecordReader(StreamReader):
    """Reads one shard, checking both checksums of every record, and the index if it is given."""

    def offsets(self, sidecars: Sequence[Path]) -> Sequence[int]:
        """By the index; without it, by a walk over the frames."""
        found = [0]
        if not sidecars:
            found = [at - HEADER.size for at, _ in self._frames()] + [self.size]
        else:
            for line in read_regular(sidecars[0]).splitlines():
                start, size = map(int, line.split())
                if start != found[-1]:
                    raise SinkError(f"{sidecars[0]} says byte {start}, not {found[-1]}")
                found.append(start + size)
        if found[-1] != self.size:
            raise SinkError(f"the last record ends at byte {found[-1]} of {self.size}")
        return found

    def _frames(self) -> Iterator[tuple[int, int]]:
        return frames(self.pread, lambda offset: min(offset, self.size))

    def decode(self, number: int, data: bytes) -> Example:  # noqa: ARG002 - others need it
        """The Example of a record."""
        return tf_example.decode(unframe(data), self.info)

    @override
    def image(self, number: int) -> bytes:
        """Both checksums are checked, and the other features passed over."""
        return tf_example.image_of(unframe(self.record(number)))


class TFRecordSink(PlainSink):
    """``--sink tfrecord``; no options: one way to write it, the way the readers expect."""

    name: ClassVar[str] = "tfrecord"
    summary: ClassVar[str] = (
        "tf.train.Example in TFRecord files, with DALI's index: TensorFlow, DALI"
    )
    keeps: ClassVar[Collection[KindName]] = EVERY
    reference: ClassVar[str] = "tf.data"
    overhead: ClassVar[int] = FRAMING + _EXAMPLE_OVERHEAD
    Writer = TFRecordWriter
    Reader = TFRecordReader

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The records, then the index; names as Google's TPU script gives them."""
        data = PurePosixPath(str(shard))
        if layout == "split":
            data = shard.split / data
        return data, PurePosixPath("index", shard.split, str(shard))

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records by ``tf.data.TFRecordDataset`` and ``tf.io.parse_single_example``."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # it talks of the processor
        os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
        tf = import_reader("tensorflow", install="tensorflow-cpu")
        return _tensorflow_records(tf, str(paths[0]), info)


def _tensorflow_records(tf: Any, path: str, info: DatasetInfo) -> Iterator[Record]:
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
            single = not info.multilabel
            labels = (label[0] - tf_example.LABEL_BASE,) if single else info.labels_of(label)
            yield found["image/encoded"], labels
    except tf.errors.OpError as error:
        raise SinkError(f"{path}: TensorFlow: {error.message}") from error
