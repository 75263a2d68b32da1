"""What a record of a listing says of an image: its path, labels, split and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dataprep.errors import SourceError
from dataprep.sources.containers.relative_paths import clean_path, folder_of
from dataprep.sources.folder.class_list import ClassList
from dataprep.sources.folder.listing_columns import find_columns
from dataprep.sources.folder.listing_file import open_listing
from dataprep.sources.folder.listing_formats import Values
from dataprep.sources.folder.options import FolderOptions, ListingOptions
from dataprep.sources.folder.split_names import split_name
from dataprep.wording import printable, some_of


class Entry(NamedTuple):  # made in half the time of a frozen dataclass
    """One record.

    Attributes:
        path: of the image, clean; its key.
        labels: classes' identifiers; exactly one unless a separator was given.
        split: the split it belongs to.
        group: as in `Row`.
        size: of the file in bytes; None if the listing does not tell.
    """

    path: str
    labels: tuple[str, ...]
    split: str
    group: str
    size: int | None


class Entries:
    """Reads entries from a listing.

    Args:
        listing: where it is and how it is read.
        options: what the user wants besides.
        known: the only classes there may be; None if any may.

    Attributes:
        file: the listing.
        columns: which of its columns say what.

    Raises:
        SourceError: the listing is unreadable or its columns are not what the options say.
    """

    def __init__(
        self, listing: ListingOptions, options: FolderOptions, known: ClassList | None
    ) -> None:
        self.file = open_listing(listing.path, listing.format)
        self.columns = find_columns(self.file, listing, options)
        self._options = options
        self._separator = listing.label_separator
        self._known = known
        self._places = self.columns.places()
        # Equal cells give the same object: a piece has many rows and few labels.
        self._labels: dict[object, tuple[str, ...]] = {}
        self._splits: dict[object, str] = {}

    def read(self, start: int, stop: int) -> Iterator[tuple[int, Entry]]:
        """The entries of a piece, each with its position.

        Raises:
            SourceError: an entry is wrong; names its line.
        """
        return self._entries(self.file.records(start, stop, self.columns.wanted()))

    def read_at(self, positions: Iterable[int]) -> Iterator[tuple[int, Entry]]:
        """The entries at positions, which ascend.

        Raises:
            SourceError: see `read`.
        """
        return self._entries(self.file.records_at(positions, self.columns.wanted()))

    def paths(self) -> Iterator[tuple[int, str]]:
        """The position and path of every entry.

        Raises:
            SourceError: a path is wrong; names its line.
        """
        for start, stop in self.file.pieces():
            for position, (value,) in self.file.records(start, stop, (self.columns.path,)):
                try:
                    path = _path(value)
                except ValueError as error:
                    raise self._wrong(position, error) from error
                yield position, path

    def repeated(self, path: str, positions: Sequence[int]) -> SourceError:
        """The error for a path that is listed at two positions or more."""
        first, second = (self.file.place(position) for position in positions[:2])
        return SourceError(
            f"{second}: {printable(path)} is already listed in {first}; expected each image once; "
            "remove one of them"
        )

    def _entries(self, records: Iterable[tuple[int, Values]]) -> Iterator[tuple[int, Entry]]:
        for position, values in records:
            try:
                entry = self._entry(values)
            except ValueError as error:
                raise self._wrong(position, error) from error
            yield position, entry

    def _wrong(self, position: int, error: ValueError) -> SourceError:
        return SourceError(f"{self.file.place(position)}: {error}; correct the listing")

    def _entry(self, values: Values) -> Entry:
        places = self._places
        path = _path(values[places.path])
        group = self._group(values, path)
        return Entry(
            path,
            self._labels_of(values[places.label]),
            self._split(values, group or path),
            group,
            None if places.size is None else _size(values[places.size]),
        )

    def _group(self, values: Values, path: str) -> str:
        place = self._places.group
        if place is None and self._options.group_by == "folder":
            return folder_of(path) or "."
        if place is None:
            # The list says who is in which split: it may say so twice of one image.
            return path if self._places.split is not None else ""
        group = _text(values[place])
        if not group:
            column = printable(self.columns.group or "")
            raise ValueError(f"empty {column}, expected the group of the image")
        return group

    def _split(self, values: Values, group: str) -> str:
        if self._options.cut is not None:
            return self._options.cut.split_of(group)
        if self._places.split is None:
            return self._options.split_name
        text = _text(values[self._places.split])
        if text not in self._splits:
            if not text:
                raise ValueError("empty split, expected the name of one, such as train")
            try:
                self._splits[text] = split_name(text)
            except ValueError as error:
                raise ValueError(f"split {printable(text)}: {error}") from error
        return self._splits[text]

    def _labels_of(self, cell: object) -> tuple[str, ...]:
        if isinstance(cell, str) and (met := self._labels.get(cell)) is not None:
            return met
        if isinstance(cell, list):
            if not self._separator:
                raise ValueError(
                    "found a list of labels, expected one label; with --label_separator, whatever "
                    "it is, there may be several"
                )
            return self._identifiers([_text(label) for label in cell])
        text = _text(cell)
        if text not in self._labels:
            several = text.split(self._separator) if self._separator and text else None
            labels = several or ([] if self._separator else [text])
            self._labels[text] = self._identifiers([label.strip() for label in labels])
        return self._labels[text]

    def _identifiers(self, labels: list[str]) -> tuple[str, ...]:
        if not all(labels):
            advice = "" if self._separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        if self._known is None:
            return tuple(labels)
        identifiers = [label.strip("/") for label in labels]  # as the list of classes has them
        unknown = [label for label in identifiers if label not in self._known.indices]
        if unknown:
            raise ValueError(
                f"unknown label {some_of(unknown)}, expected the classes of {self._known.place}"
            )
        return tuple(identifiers)


def _path(cell: object) -> str:
    if cell is None or cell == "":
        raise ValueError("empty path, expected that of an image")
    if not isinstance(cell, str):
        raise ValueError(f"found a path of type {type(cell).__name__}, expected text")  # noqa: TRY004
    return clean_path(cell)


def _text(cell: object) -> str:
    """A cell as text: whole numbers without a point, nothing as empty."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # what a table program makes of whole numbers
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    raise ValueError(
        f"found {printable(str(cell)[:40])} of type {type(cell).__name__}, expected text or a "
        "whole number"
    )


def _size(cell: object) -> int:
    text = _text(cell)
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValueError(f"size {printable(text) or 'missing'}, expected a number of bytes")
    return int(text)
