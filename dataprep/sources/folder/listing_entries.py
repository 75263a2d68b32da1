"""What a record of a listing says of an image: its path, labels, split and group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from dataprep.errors import SourceError
from dataprep.sources.containers.relative_paths import clean_path, folder_of
from dataprep.sources.folder.class_list import ClassList
from dataprep.sources.folder.listing_columns import find_columns
from dataprep.sources.folder.listing_file import open_listing
from dataprep.sources.folder.listing_formats import Values
from dataprep.sources.folder.options import FolderOptions, ListingOptions
from dataprep.sources.folder.text_files import is_utf8
from dataprep.sources.split_names import split_name
from dataprep.wording import printable, some_of

_BLANKS: Final = " \t"  # round a path they mean nothing, as in CSV written by hand
_SHOWN: Final = 80  # characters of a cell that a message shows


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
        self._size_is_guessed = listing.size_column is None
        self._known = known
        self._places = self.columns.places()
        # Equal cells give the same object: a piece has many rows and few labels.
        self._labels: dict[object, tuple[str, ...]] = {}
        self._splits: dict[object, str] = {}
        self._one_hot: set[tuple[str, ...]] = set()
        self._has_names = False

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

    def not_utf8(self, position: int, path: str) -> SourceError:
        """The error for a path that is not UTF-8 and leads nowhere, so that it is no odd name."""
        return SourceError(
            f"{self.file.place(position)}: {printable(path)} is not UTF-8, and there is no such "
            "file; save the listing as UTF-8"
        )

    def _entries(self, records: Iterable[tuple[int, Values]]) -> Iterator[tuple[int, Entry]]:
        for position, values in records:
            try:
                entry = self._entry(values)
            except ValueError as error:
                raise self._wrong(position, error) from error
            yield position, entry
        # Of zeros and ones for two classes no cell alone tells that they are no names.
        if len(self._one_hot) > 1 and not self._has_names:
            raise SourceError(
                f"{self.file.name}: every cell of {printable(self.columns.label)} is a 0 and a 1, "
                "in either order; expected names of classes, not zeros and ones; write the names, "
                "or give --classes FILE if the classes are called 0 and 1"
            )

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
            None if places.size is None else self._size(values[places.size]),
        )

    def _size(self, cell: object) -> int:
        text = _text(cell)
        if not (text.isascii() and text.isdecimal() and len(text) < 19):
            advice = "; give --size_column '' if that is not a size in bytes"
            raise ValueError(
                f"size {printable(text) or 'missing'}, expected a number of bytes"
                f"{advice if self._size_is_guessed else ''}"
            )
        return int(text)

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
            self._look_for_zeros_and_ones(labels)
            _require_once(labels, labels)
            return tuple(labels)
        identifiers = [label.strip("/") for label in labels]  # as the list of classes has them
        unknown = [label for label in identifiers if label not in self._known.indices]
        if unknown:
            raise ValueError(
                f"unknown label {some_of(unknown)}, expected the classes of {self._known.place}"
                f"{self._known.advice(unknown)}"
            )
        _require_once(identifiers, [self._known.indices[label] for label in identifiers])
        return tuple(identifiers)

    def _look_for_zeros_and_ones(self, labels: list[str]) -> None:
        if sorted(labels) == ["0", "1"]:
            self._one_hot.add(tuple(labels))
        else:
            self._has_names = True


def _require_once(labels: Sequence[str], classes: Sequence[object]) -> None:
    """Refuse one class twice, as in a cell that has a zero or a one for each class there is."""
    if len(set(classes)) == len(classes):
        return
    repeated = [label for label, one in zip(labels, classes, strict=True) if classes.count(one) > 1]
    twice, expected = repeated[0], "each class once"
    if set(labels) <= {"0", "1"}:
        twice, expected = max(repeated), "names of classes, not zeros and ones"
    raise ValueError(f"label {printable(twice)} twice in one cell; expected {expected}")


def _path(cell: object) -> str:
    if cell is None or cell == "":
        raise ValueError("empty path, expected that of an image")
    if not isinstance(cell, str):
        raise ValueError(f"found a path of type {type(cell).__name__}, expected text")  # noqa: TRY004
    _require_encodable(cell)
    return clean_path(cell.strip(_BLANKS))


def _text(cell: object) -> str:
    """A cell as text: whole numbers without a point, nothing as empty."""
    if cell is None:
        return ""
    if isinstance(cell, str):
        _require_encodable(cell)
        if not is_utf8(cell):
            raise ValueError(f"{printable(cell[:_SHOWN])} is not UTF-8; save the listing as UTF-8")
        return cell.strip()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # what a table program makes of whole numbers
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    raise ValueError(
        f"found {printable(str(cell)[:40])} of type {type(cell).__name__}, expected text or a "
        "whole number"
    )


def _require_encodable(cell: str) -> None:
    """Refuse text that no bytes stand for, such as a lone surrogate in JSON.

    Bytes that are no UTF-8 are fine: a file's name may have them. They are decoded as Python
    decodes such names (PEP 383), and must come back the same.
    """
    if cell.isascii():
        return
    try:
        same = cell.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape") == cell
    except UnicodeEncodeError:
        same = False
    if not same:
        raise ValueError(
            f"found {printable(cell[:_SHOWN])}, which has half of a surrogate pair in it, expected "
            "text that can be written as UTF-8"
        )
