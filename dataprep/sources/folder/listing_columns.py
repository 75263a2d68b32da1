"""Which columns of a listing say what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dataprep.errors import SourceError
from dataprep.sources.folder.listing_file import ListingFile
from dataprep.sources.folder.options import FolderOptions, ListingOptions
from dataprep.wording import printable

_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of a listing's columns; None: it has none."""

    path: str
    label: str
    split: str | None
    size: str | None
    group: str | None

    def wanted(self) -> tuple[str, ...]:
        """Each once."""
        names = (self.path, self.label, self.split, self.size, self.group)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def places(self) -> Places:
        """Where each is among those wanted."""
        wanted = self.wanted()

        def place(name: str | None) -> int | None:
            return None if name is None else wanted.index(name)

        return Places(
            path=wanted.index(self.path),
            label=wanted.index(self.label),
            split=place(self.split),
            size=place(self.size),
            group=place(self.group),
        )


@dataclass(frozen=True, slots=True)
class Places:
    """The positions of a record's values; None: the listing has no such column."""

    path: int
    label: int
    split: int | None
    size: int | None
    group: int | None


def find_columns(file: ListingFile, listing: ListingOptions, options: FolderOptions) -> Columns:
    """The columns that the options name, or their defaults.

    Raises:
        SourceError: one is not there, or is there twice, or tells splits although the user wants
            to cut them.
    """
    plain = listing.format == "txt"  # its columns have no names that could be others
    columns = Columns(
        path="path" if plain else listing.path_column,
        label="label" if plain else listing.label_column,
        split=_optional(file, listing.split_column, "split"),
        size=_optional(file, listing.size_column, "size"),
        group=options.group_by if options.group_by not in ("path", "folder") else None,
    )
    _require(file, "path_column", columns.path)
    _require(file, "label_column", columns.label)
    _require(file, "split_column", columns.split)
    _require(file, "size_column", columns.size)
    _require(file, "group_by", columns.group)
    if columns.split is not None and options.cut is not None:
        raise SourceError(
            f"{file.name} has a column {printable(columns.split)}, and --fractions would cut other "
            "splits; expected one of the two; leave --fractions out, or rename the column"
        )
    return columns


def _optional(file: ListingFile, name: str | None, usual: str) -> str | None:
    """The column that the user named, nothing if that is empty; without a name the usual one."""
    if name is not None:
        return name or None
    return usual if usual in file.columns else None


def _require(file: ListingFile, option: str, name: str | None) -> None:
    if name is None:
        return
    count = list(file.columns).count(name)
    if count != 1:
        found = f"{count} columns" if count else "no column"
        raise SourceError(
            f"{file.name} has {found} {printable(name)}, expected one; it has "
            f"{_shown(file.columns)}; name the right one with --{option}"
        )


def _shown(columns: Sequence[str]) -> str:
    first = ", ".join(printable(name) for name in columns[:_MOST_SHOWN])
    more = len(columns) - _MOST_SHOWN
    return f"{first} and {more} more" if more > 0 else first
