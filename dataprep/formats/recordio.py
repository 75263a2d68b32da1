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

In the file, a record is one part or several, each ``u32 magic | u32 (cflag << 29 | length) | data |
zeros up to a multiple of 4``. Where the data holds the magic at a multiple of 4, it is cut: the
magic itself is left out, and put back by the reader between two parts. So a reader that starts
anywhere finds the next record by looking for the magic. cflag is 0 for a record in one part,
otherwise 1 for the first, 2 for each in between and 3 for the last. Source: dmlc-core
include/dmlc/recordio.h and src/recordio.cc.

A record of an image is ``u32 flag | f32 label | u64 id | u64 id2``, little-endian, then, if flag is
not 0, so many float32 labels, and the image. Source: MXNet src/io/image_recordio.h.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, ClassVar, Final

import numpy as np
from typing_extensions import override

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import FileRange
from dataprep.errors import SinkError
from dataprep.formats import PlainSink, Record
from dataprep.formats.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.formats.reference_readers import dali_records
from dataprep.formats.samples import HEAD, Sample, Value, is_image, opened
from dataprep.formats.stream import StreamReader, StreamWriter
from dataprep.system.regular_files import open_regular, read_regular

LENGTH_LIMIT: Final = 1 << 29  # a record must be shorter than this: its length has 29 bits
FRAMING: Final = 8 + 3  # bytes of the frame of a record in one part, at most
HEADER: Final = struct.Struct("<IfQQ")  # of a record of an image: flag, label, id, id2
PART_HEADER: Final = struct.Struct("<II")
_MAGIC_NUMBER = 0xCED7230A
MAGIC: Final = struct.pack("<I", _MAGIC_NUMBER)
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_CFLAG_SHIFT = 29
_IMAGE = "image"
_LABEL = "label"
LISTED: Final = "lst"  # the field with the label that the list beside the file has


def frame(head: bytes, data: bytes) -> list[bytes]:
    """The pieces of one record, in order; the data is not copied where it holds no magic.

    Args:
        head: what stands before the data: a multiple of 4 bytes, without the magic.

    Raises:
        SinkError: it has 2**29 bytes or more.
    """
    size = len(head) + len(data)
    if size >= LENGTH_LIMIT:
        raise SinkError(f"{size} bytes; RecordIO holds less than {LENGTH_LIMIT} in a record")
    words = np.frombuffer(data, "<u4", count=len(data) // 4)  # ten times as fast as bytes.find
    cuts: list[int] = (np.flatnonzero(words == _MAGIC_NUMBER) * 4).tolist()
    if not cuts:
        return [PART_HEADER.pack(_MAGIC_NUMBER, size) + head, data, bytes(-size % 4)]
    pieces = _part(_FIRST, head + data[: cuts[0]])
    for start, end in pairwise(cuts):
        pieces += _part(_MIDDLE, data[start + 4 : end])
    return pieces + _part(_LAST, data[cuts[-1] + 4 :])


def _part(cflag: int, data: bytes) -> list[bytes]:
    header = PART_HEADER.pack(_MAGIC_NUMBER, cflag << _CFLAG_SHIFT | len(data))
    return [header, data, bytes(-len(data) % 4)]


def _read_part(header: bytes, *, first: bool) -> tuple[int, bool]:
    """The length of the data of a part, the first of its record or not; and whether more follow."""
    if len(header) < PART_HEADER.size:
        raise SinkError("the file ends within a part of a record")
    magic, word = PART_HEADER.unpack(header)
    cflag, length = word >> _CFLAG_SHIFT, word & (LENGTH_LIMIT - 1)
    if magic != _MAGIC_NUMBER or cflag not in ((_WHOLE, _FIRST) if first else (_MIDDLE, _LAST)):
        raise SinkError(f"a part of a record begins with {header.hex()}, not 0a23d7ce and its flag")
    return length, cflag in (_FIRST, _MIDDLE)


def unframe(data: bytes) -> bytes:
    """The inverse of `frame`.

    Raises:
        SinkError: the framing is damaged.
    """
    pieces: list[bytes] = []
    at, more = 0, True
    while more:
        length, more = _read_part(data[at : at + PART_HEADER.size], first=not pieces)
        at += PART_HEADER.size
        pieces.append(data[at : at + length])
        at += length + -length % 4
    if at != len(data):
        raise SinkError(f"a record of {at} bytes, expected {len(data)}")
    return MAGIC.join(pieces)


def frames(read: Callable[[int, int], bytes], size: int) -> Iterator[tuple[int, int, int]]:
    """Each record of a file: where it starts, where it ends, and how many bytes its data has.

    Args:
        read: reads so many bytes at an offset, or as many as there are.
        size: of the file.

    Raises:
        SinkError: something else is where a record should be.
    """
    at = 0
    while at < size:
        start, total, more = at, -len(MAGIC), True
        while more:
            length, more = _read_part(read(at, PART_HEADER.size), first=at == start)
            total += len(MAGIC) + length
            at += PART_HEADER.size + length + -length % 4
        yield start, at, total


def recordio_samples(raw: Path, container: str) -> Iterator[Sample]:
    """The images of a ``.rec`` file; ``label`` is a number, or a list where it has several.

    The key is what the ``.lst`` beside it says, and empty if there is none; its label is ``lst``;
    behind the records come its lines of which there is none. An image whose record has several
    parts does not lie in one piece: it is read with its frame. A record of nothing but numbers, as
    InsightFace has them, has no fields.

    Raises:
        SourceError: the file cannot be read, or is damaged.
    """
    with opened(raw, container, "RecordIO file of images") as source:
        lines = _lines((raw / container).with_suffix(".lst"))
        seen = set[int]()
        stream = FileRange(source, 0, source.size)
        for start, end, total in frames(stream.read_at, source.size):
            if end > source.size:
                raise SinkError(f"it ends within the record at byte {start}")
            at = start + PART_HEADER.size
            flag, label, number, _ = HEADER.unpack(stream.read_at(at, HEADER.size))
            head = HEADER.size + 4 * flag
            if head > total:
                raise SinkError(f"the record at byte {start} has {flag} labels in {total} bytes")
            several = struct.unpack(f"<{flag}f", stream.read_at(at + HEADER.size, 4 * flag))
            fields: dict[str, Value] = {_LABEL: _labels(several or (label,))}
            whole = end - at == total + -total % 4
            begin, packing = (at + head, ()) if whole else (at, ("recordio", end - start))
            place = container, begin, total - head, 0
            key, listed = _listed(lines.get(number, ""))
            seen.add(number)
            if lines:
                fields[LISTED] = listed
            elif head == total:
                fields.clear()
            image = StoredImage(key, *place, packing, source.mtime)
            known = is_image(stream.read_at(at + head, HEAD)) or not whole
            yield Sample(key, {_IMAGE: image} if known else {}, fields, [])
        for number in lines.keys() - seen:
            yield Sample(_listed(lines[number])[0], {}, {LISTED: None}, [])


def _labels(values: Sequence[float]) -> Value:
    labels = [int(it) if it.is_integer() else it for it in values]
    return labels[0] if len(labels) == 1 else labels


def _lines(path: Path) -> dict[int, str]:
    """What a list has behind each number: labels and a path; empty without one."""
    if not path.exists():
        return {}
    lines = read_regular(path).decode("utf-8").splitlines()
    rows = (line.partition("\t") for line in lines if line)
    return {int(number): rest for number, _, rest in rows}


def _listed(line: str) -> tuple[str, Value]:
    """The path of a line, and the label as a record has it; None if it is no number."""
    label, _, path = line.rpartition("\t")
    try:
        return path, _labels(np.array(label.split("\t"), np.float32).tolist())
    except ValueError:
        return path, None


_EXACT = 1 << 24  # float32 holds every integer up to this one
_SIDECAR_BYTES = 80  # a line of the index and one of the list
_LINE_END = re.compile("[\t\r\n]")  # Python's readers take \r for the end of a line, too


class RecordIOWriter(StreamWriter):
    """Writes the records, the index and the list side by side."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        self._records = 0

    @override
    def append(self, example: Example) -> None:
        """Append one record and its two lines; nothing at all if it cannot be held."""
        number, labels = self._records, example.labels
        vector = self.info.multi_hot(labels) if self.info.multilabel else []
        label = 0 if self.info.multilabel else labels[0]
        if label > _EXACT:
            raise SinkError(f"label {label} is inexact as the float32 of RecordIO")
        line = _list_line(number, vector or [label], example.key)
        header = HEADER.pack(len(vector), label, number, 0)
        pieces = frame(header + struct.pack(f"<{len(vector)}f", *vector), example.encoded)
        data, index, listing = self.files
        index.write(b"%d\t%d\n" % (number, data.size))
        listing.write(line)
        data.write(*pieces)
        self._records += 1


class RecordIOReader(StreamReader):
    """Reads one shard; the sidecars may be missing.

    Without the ``.idx`` the records are found by walking through the file, and without the ``.lst``
    the keys are the ids in eight digits. The list's lines are read when they are needed.
    """

    _list: BinaryIO | None = None

    @override
    def offsets(self, sidecars: Sequence[Path]) -> Sequence[int]:
        """By the index; without it, by a walk over the parts."""
        found = array("Q")
        if sidecars:
            for line in read_regular(sidecars[0]).splitlines():
                number, offset = map(int, line.split(b"\t"))
                if number != len(found):
                    raise SinkError(f"{sidecars[0]}: line {len(found) + 1} is that of {number}")
                found.append(offset)
            if len(sidecars) > 1:
                self._open_list(sidecars[1], len(found))
            return [*found, self.size]
        return [*(start for start, *_ in frames(self.pread, self.size)), self.size]

    @override
    def decode(self, number: int, data: bytes) -> Example:
        """The image; and its key, if there is a list."""
        record = unframe(data)
        flag, label, start = _head(record, number)
        stored = struct.unpack_from(f"<{flag}f", record, HEADER.size) if flag else (label,)
        key = f"{number:08d}" if self._list is None else self._key(self._list, number, stored)
        if flag or self.info.multilabel:
            labels = self.info.labels_of(stored if flag else ())
        elif label != int(label):
            raise SinkError(f"its label is {label}, expected a class index")
        else:
            labels = (int(label),)
        if len(labels) != 1 and self.info.classes and not self.info.multilabel:
            raise SinkError(f"it has a vector of {flag} labels, expected one label")
        return self.info.example(key, record[start:], labels)

    @override
    def image(self, number: int) -> bytes:
        """The framing and the ids are checked; the list is not asked."""
        record = unframe(self.record(number))
        return record[_head(record, number)[2] :]

    def _open_list(self, path: Path, records: int) -> None:
        self._list = self.opened.enter_context(open_regular(path))
        self._lines = array("Q", [0])
        for line in self._list:
            self._lines.append(self._lines[-1] + len(line))
        if len(self._lines) - 1 != records:
            raise SinkError(f"{path} has {len(self._lines) - 1} lines for {records} records")

    def _key(self, file: BinaryIO, number: int, stored: tuple[float, ...]) -> str:
        """The key in a line of the list, whose other columns say what the record says."""
        file.seek(self._lines[number])
        told, *labels, key = file.readline().split(b"\t")
        if int(told) != number or tuple(map(float, labels)) != stored or not key.endswith(b"\n"):
            raise SinkError(f"line {number + 1} of its .lst has another number or label")
        return to_text(key[:-1])


def _head(record: bytes, number: int) -> tuple[int, float, int]:
    """Flag and label of a record with this id, and where its image begins."""
    flag, label, *ids = HEADER.unpack_from(record)
    if ids != [number, 0]:
        raise SinkError(f"its ids are {ids}, expected {number} and 0")
    return flag, label, HEADER.size + 4 * flag


def _list_line(number: int, labels: Sequence[int], key: str) -> bytes:
    """A line of the list, as ``write_list`` of MXNet's ``im2rec.py`` writes it."""
    if _LINE_END.search(key):
        raise SinkError(
            "a key with a tab or a line end in it cannot stand in an .lst; rename the image"
        )
    columns = "".join(f"{label:f}\t" for label in labels)
    return to_bytes(f"{number}\t{columns}{key}\n")


class RecordIOSink(PlainSink):
    """``--sink recordio``."""

    name: ClassVar[str] = "recordio"
    summary: ClassVar[str] = "MXNet RecordIO with .idx and .lst, for ImageRecordIter and DALI"
    suffixes: ClassVar[tuple[str, ...]] = (".rec", ".idx", ".lst")
    usual_shards: ClassVar[int | None] = 1  # ImageRecordIter takes exactly one index file
    reference: ClassVar[str] = "DALI readers.mxnet"
    overhead: ClassVar[int] = FRAMING + HEADER.size + _SIDECAR_BYTES
    Writer = RecordIOWriter
    Reader = RecordIOReader

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The shard through NVIDIA DALI's ``readers.mxnet``, on the CPU."""
        data, index, *_ = paths
        with self.reader([data], info) as reader:
            count = len(reader)
        for image, labels in dali_records(
            "mxnet", count, path=[str(data)], index_path=[str(index)]
        ):
            flags = labels.tolist()
            yield image, info.labels_of(flags) if info.multilabel else (int(flags[0]),)
