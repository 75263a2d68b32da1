"""A listing of any format as records that can be read piece by piece or one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from dataprep.errors import SourceError
from dataprep.sources.folder.listing_formats import WITH_HEADER, Values, column_names, line_parser
from dataprep.sources.folder.listing_parquet import ParquetListing
from dataprep.sources.folder.text_files import require_lines
from dataprep.wording import printable, unreadable

PIECE: Final = 16 << 20
"""Bytes of a listing that are scanned at once: some 250,000 lines, some 150 MB as rows."""

_LONGEST_LINE: Final = 1 << 20
_BOM: Final = b"\xef\xbb\xbf"


class ListingFile(Protocol):
    """What a listing can do, whatever its format.

    A position identifies a record and ascends in the file: the offset of its line in bytes or, in
    Parquet, its number.
    """

    name: str
    """What messages call it."""

    columns: Sequence[str]
    """The names of its columns."""

    def pieces(self) -> list[tuple[int, int]]:
        """Ranges of positions, first and one past the last, which together are the whole."""

    def records(self, start: int, stop: int, wanted: Sequence[str]) -> Iterator[tuple[int, Values]]:
        """The records of a piece: each one's position and the cells of the wanted columns.

        Raises:
            SourceError: the listing is unreadable, or a record is not what its format demands.
        """

    def records_at(
        self, positions: Iterable[int], wanted: Sequence[str]
    ) -> Iterator[tuple[int, Values]]:
        """The records at positions, which ascend, in bounded memory.

        Raises:
            SourceError: see `records`.
        """

    def place(self, position: int) -> str:
        """A record as messages name it: ``list.csv, line 5``."""

    def end(self) -> int:
        """One past the last position."""


def open_listing(path: Path, form: str) -> ListingFile:
    """Read a listing's columns.

    Raises:
        SourceError: it is unreadable, empty or not of that format.
    """
    return ParquetListing(path) if form == "parquet" else LineListing(path, form)


class LineListing:
    """A listing of one line a record.

    Args:
        path: the file.
        form: ``csv``, ``tsv``, ``jsonl`` or ``txt``.
        piece: about how many bytes a piece has.

    Raises:
        SourceError: it is unreadable, empty, UTF-16 or without LF ends, or its first line is not of
            that format.
    """

    def __init__(self, path: Path, form: str, piece: int = PIECE) -> None:
        self.name = printable(path.name)
        self._path = path
        self._form = form
        self._piece = piece
        try:
            with path.open("rb") as file:
                first = file.readline(_LONGEST_LINE)
                self._size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise unreadable(str(path), error) from error
        require_lines(self.name, first)
        if not first.strip():
            raise SourceError(
                f"{self.name} is empty or starts with an empty line; {self._expected}"
            )
        try:
            self.columns: Sequence[str] = column_names(form, _text(first))
        except ValueError as error:
            raise SourceError(f"{self.name}, line 1: {error}") from error
        self._first = len(first) if form in WITH_HEADER else 0

    @property
    def _expected(self) -> str:
        header = "a header and then " if self._form in WITH_HEADER else ""
        return f"expected {header}one image a line"

    def end(self) -> int:
        """The size in bytes."""
        return self._size

    def pieces(self) -> list[tuple[int, int]]:
        """Byte ranges cut at line ends; the header is in none."""
        with self._open() as file:
            cuts = [self._first]
            for target in range(self._first + self._piece, self._size, self._piece):
                cuts.append(self._line_start(file, target))
        ends = [*cuts[1:], self._size]
        return [(start, end) for start, end in zip(cuts, ends, strict=True) if start < end]

    def records(self, start: int, stop: int, wanted: Sequence[str]) -> Iterator[tuple[int, Values]]:
        """See `ListingFile.records`; lines of nothing but spaces are passed over."""
        parse = line_parser(self._form, self.columns, wanted)
        with self._open() as file:
            file.seek(start)
            position = start
            while position < stop and (line := file.readline(_LONGEST_LINE)):
                text = self._checked(line, position)
                if text.strip():
                    try:
                        values = parse(text)
                    except ValueError as error:
                        raise SourceError(f"{self.place(position)}: {error}") from error
                    yield position, values
                position += len(line)

    def records_at(
        self, positions: Iterable[int], wanted: Sequence[str]
    ) -> Iterator[tuple[int, Values]]:
        """See `ListingFile.records_at`."""
        parse = line_parser(self._form, self.columns, wanted)
        with self._open() as file:
            for position in positions:
                file.seek(position)
                text = self._checked(file.readline(_LONGEST_LINE), position)
                try:
                    yield position, parse(text)
                except ValueError as error:
                    raise SourceError(f"{self.place(position)}: {error}") from error

    def place(self, position: int) -> str:
        """The number of the line at a byte offset, which takes reading all before it."""
        number = 1
        with self._open() as file:
            while position > 0 and (block := file.read(min(position, 1 << 20))):
                number += block.count(b"\n")
                position -= len(block)
        return f"{self.name}, line {number}"

    def _open(self) -> BinaryIO:
        try:
            return self._path.open("rb")
        except OSError as error:
            raise unreadable(str(self._path), error) from error

    def _checked(self, line: bytes, position: int) -> str:
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise SourceError(
                f"{self.place(position)}: longer than {_LONGEST_LINE} bytes; {self._expected}"
            )
        return _text(line)

    def _line_start(self, file: BinaryIO, target: int) -> int:
        """The start of the first line that starts at or after an offset."""
        file.seek(target - 1)
        line = file.readline(_LONGEST_LINE)
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise SourceError(
                f"{self.name} has a line longer than {_LONGEST_LINE} bytes at byte {target}; "
                f"{self._expected}"
            )
        return target - 1 + len(line)


def _text(line: bytes) -> str:
    # Bytes that are no UTF-8 stay what they are: a path may have them.
    text = line.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    return text.removesuffix("\n").removesuffix("\r")
