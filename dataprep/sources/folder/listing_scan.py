"""Rows of images that are listed in a file and lie in the raw directory as files."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from dataprep.index import Ignored, Scanned, Unmatched
from dataprep.sources.base import ScanUnit
from dataprep.sources.containers.listing import StoredImage
from dataprep.sources.folder.class_list import ClassList
from dataprep.sources.folder.drafts import Draft, RepeatedKeyError, make_rows
from dataprep.sources.folder.listing_entries import Entries, Entry
from dataprep.sources.folder.text_files import is_utf8
from dataprep.wording import unreadable


@dataclass(frozen=True, slots=True)
class ListingUnit(ScanUnit):
    """A piece of a listing.

    Attributes:
        start: its first position; see `dataprep.sources.folder.listing_file.ListingFile`.
        stop: one past its last.
        top: the directory that the listed paths start from, relative to the raw directory; empty
            for that itself.
    """

    start: int
    stop: int
    top: str = ""


def make_listing_units(entries: Entries, top: str) -> list[ListingUnit]:
    """One unit a piece of the listing."""
    return [
        ListingUnit(f"listing-{number:05d}", entries.file.name, start, stop, top)
        for number, (start, stop) in enumerate(entries.file.pieces())
    ]


def scan_listing(
    raw: Path, unit: ListingUnit, entries: Entries, known: ClassList | None
) -> Scanned:
    """List the images of a piece of a listing: one look-up a file, or none if sizes are listed.

    What is listed is taken for an image whatever its name: reading it tells whether it is one.

    Raises:
        SourceError: an entry is wrong, a path is listed twice, a file cannot be looked at, or one
            is missing whose path is not UTF-8.
    """
    drafts: list[Draft] = []
    ignored: list[Ignored] = []
    unmatched: list[Unmatched] = []
    for position, entry in entries.read(unit.start, unit.stop):
        container = f"{unit.top}/{entry.path}" if unit.top else entry.path
        if entry.size is not None:
            drafts.append(_draft(entry, container, entry.size, 0))
        elif (status := _look_up(raw, container)) is None:
            if not is_utf8(entry.path):
                raise entries.not_utf8(position, entry.path)
            unmatched.append(Unmatched("missing", entry.path, entries.file.name, entry.split))
        elif stat.S_ISREG(status.st_mode):
            drafts.append(_draft(entry, container, status.st_size, int(status.st_mtime)))
        else:
            ignored.append(Ignored(entries.file.name, entry.path, "not a regular file"))
    try:
        rows, classes = make_rows(drafts, known)
    except RepeatedKeyError as error:
        read = entries.read(unit.start, unit.stop)
        positions = [position for position, entry in read if entry.path == error.key]
        raise entries.repeated(error.key, positions) from error
    return Scanned(rows, ignored, unmatched, classes)


def _look_up(raw: Path, path: str) -> os.stat_result | None:
    try:
        return os.stat(f"{raw}/{path}")  # noqa: PTH116 - making a Path takes as long as the call
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def _draft(entry: Entry, container: str, size: int, modified: int) -> Draft:
    image = StoredImage(entry.path, container, 0, size, modified)
    return Draft(entry.split, entry.path, image, entry.labels, entry.group)
