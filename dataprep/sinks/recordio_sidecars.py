r"""The two text files beside a RecordIO file: the index and the list.

``.idx``: ``<number>\t<offset>\n`` a record, by which MXNet and DALI find it. ``.lst``:
``<number>\t<label>...\t<key>\n``, the input of ``im2rec.py`` in the form of its ``write_list``:
labels as ``%f``. Memory: 16 bytes a record for the index, 8 for the list, whose lines are read when
they are needed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from dataprep.errors import SinkError
from dataprep.sinks.recordio_framing import skip_record

_INDEX_LINE = re.compile(rb"([0-9]{1,18})\t([0-9]{1,18})\n")
_LIST_LINE = re.compile(rb"([0-9]{1,18})\t((?:-?[0-9]{1,30}(?:\.[0-9]{1,30})?\t)+)([^\t\r\n]*)\n")
_LINE_END = re.compile("[\t\r\n]")  # Python's readers take \r for the end of a line, too


class RecordIndex:
    """Where the records are.

    Attributes:
        offsets: in bytes, of every record, ascending.
    """

    def __init__(self, offsets: array[int], numbers: array[int] | None) -> None:
        self.offsets = offsets
        self._numbers = numbers

    @classmethod
    def load(cls, path: Path, file_size: int) -> Self:
        """Read an ``.idx`` of a ``.rec`` that has ``file_size`` bytes.

        Raises:
            SinkError: it is damaged, or is not this file's.
        """
        offsets, numbers = array("Q"), array("Q")
        with path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                match = _INDEX_LINE.fullmatch(line)
                if not match:
                    raise SinkError(f"{path}: line {line_number} is not '<number> TAB <offset>'")
                number, offset = int(match[1]), int(match[2])
                if (offset <= offsets[-1]) if offsets else offset:
                    raise SinkError(
                        f"{path}: line {line_number}: offset {offset} is out of order, "
                        "expected 0 first and then ascending ones; make the shard again"
                    )
                offsets.append(offset)
                numbers.append(number)
        if offsets and offsets[-1] >= file_size:
            raise SinkError(
                f"{path}: points at byte {offsets[-1]} of a file of {file_size} bytes; "
                "make the shard again"
            )
        return cls(offsets, numbers)

    @classmethod
    def scan(cls, file: BinaryIO, path: Path, file_size: int) -> Self:
        """Walk from record to record through a ``.rec`` that has lost its index.

        Raises:
            SinkError: the framing is damaged.
        """
        offsets = array("Q")
        offset = 0
        while offset < file_size:
            offsets.append(offset)
            try:
                offset = skip_record(file, offset, file_size)
            except SinkError as error:
                raise SinkError(
                    f"{path}: record {len(offsets) - 1} at byte {offset}: {error}; "
                    "make the shard again, if this is a RecordIO file at all"
                ) from error
        return cls(offsets, None)

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.offsets)

    def number(self, position: int) -> int | None:
        """The number that the index gives record ``position``; None without an ``.idx``."""
        return None if self._numbers is None else self._numbers[position]


@dataclass(frozen=True, slots=True)
class ListEntry:
    """A line of the list: the record's number, its labels as stored, and its key."""

    number: int
    labels: tuple[float, ...]
    key: str


class ListFile:
    """An ``.lst``, read line by line in any order.

    Args:
        path: the file.
        lines: how many records it is the list of.

    Raises:
        SinkError: it has more lines, or fewer.
    """

    def __init__(self, path: Path, lines: int) -> None:
        self._path = path
        self._starts = array("Q")
        start = 0
        with path.open("rb") as file:
            for line in file:
                self._starts.append(start)
                start += len(line)
        if len(self._starts) != lines:
            raise SinkError(
                f"{path}: has {len(self._starts)} lines for {lines} records; make the shard again"
            )
        self._file = path.open("rb")

    def __getitem__(self, position: int) -> ListEntry:
        """Line ``position``, 0-based.

        Raises:
            SinkError: it is damaged.
        """
        self._file.seek(self._starts[position])
        match = _LIST_LINE.fullmatch(self._file.readline())
        if not match:
            raise SinkError(
                f"line {position + 1} of {self._path} is not '<number> TAB <labels> TAB <key>'"
            )
        labels = tuple(float(label) for label in match[2].split())
        return ListEntry(int(match[1]), labels, match[3].decode("utf-8", "surrogateescape"))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def list_line(number: int, labels: Sequence[float], key: str) -> bytes:
    """A line of the list, as ``write_list`` of MXNet's ``im2rec.py`` writes it.

    Raises:
        SinkError: the key has a tab or the end of a line in it, which would break the list.
    """
    if _LINE_END.search(key):
        raise SinkError("a key with a tab or a line end in it cannot stand in an .lst")
    columns = "".join(f"{label:f}\t" for label in labels)
    return f"{number}\t{columns}{key}\n".encode("utf-8", "surrogateescape")
