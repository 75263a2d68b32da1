r"""MXNet RecordIO: what ``im2rec`` writes and ``ImageRecordIter`` and DALI read.

A shard is three files: the records (``.rec``), MXNet's index (``.idx``: ``<number>\t<offset>``)
and the list (``.lst``: ``<number>\t<label>\t<key>``, labels as ``%f``, as ``im2rec.py --list``
writes it). A record is ``u32 flag | f32 label | u64 id | u64 id2``, little-endian, and the encoded
image; its id is its 0-based number in the shard, id2 is 0. With one label per image, flag is 0 and
label the 0-based class index. With several, flag is the number of classes n, label is 0, and n
float32 zeros or ones stand before the image (``mx.recordio.pack``; ``label_width=n``).

How records are framed in the file is in `dataprep.archives.recordio`.

The format has no checksum. Noticed are damaged framing, a shortened file (where the ``.idx`` is at
hand, or the cut is not between two records), and ids, labels or offsets on which the three files
disagree. Not noticed are flipped bits in an image, and a length changed by at most 3 within its
padding: for these there is the SHA-256 in the manifest.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, ClassVar

from typing_extensions import override

from dataprep.archives.recordio import FRAMING, HEADER, frame, frames, unframe
from dataprep.errors import SinkError
from dataprep.sinks import PlainSink, Record
from dataprep.sinks.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.sinks.reference_readers import dali_records
from dataprep.sinks.stream import StreamReader, StreamWriter
from dataprep.system.regular_files import open_regular, read_regular

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
