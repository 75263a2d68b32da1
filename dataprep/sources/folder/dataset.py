"""Any other image set: class folders, archives of them, or a file that lists the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from dataprep.errors import SourceError
from dataprep.index import Ignored, Scanned, Unmatched
from dataprep.sources.base import Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.sources.containers.kinds import list_container, witness
from dataprep.sources.folder.alike import require_distinct
from dataprep.sources.folder.class_list import ClassList, load_class_list, numbers_in_order
from dataprep.sources.folder.classes import (
    OUTSIDE,
    WITHOUT_IMAGES,
    class_without_images,
    classify,
    place_images,
)
from dataprep.sources.folder.config import one_spelling
from dataprep.sources.folder.content_hash import hash_content
from dataprep.sources.folder.drafts import Draft, make_rows
from dataprep.sources.folder.layout import find_folders, find_to_join, open_top
from dataprep.sources.folder.listing_entries import Entries
from dataprep.sources.folder.listing_scan import ListingUnit, make_listing_units, scan_listing
from dataprep.sources.folder.options import OPTIONS, ListingOptions, parse_options
from dataprep.sources.folder.units import Container, ContainerUnit
from dataprep.sources.folder.witnesses import witness_folder
from dataprep.wording import counted, printable, sized, unreadable

if TYPE_CHECKING:
    from dataprep.sources.folder.listing_join import Table

# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 2


class Folder(Dataset):
    """Images in class folders or archives, or listed in a file.

    A key is an image's path below the split's folder, the same for every form: a file of a class
    archive has the archive's name before it. A listed image has the path it is listed with.
    """

    name: ClassVar[str] = "folder"
    summary: ClassVar[str] = """Any image set: class folders, archives of them, or a listing.

    Without --listing, a folder's name is the class of what is in it: CLASS/x.jpg, also in .tar,
    .tar.gz or .zip archives; an archive whose images are in no folder is a class itself. Top
    folders or archives called train, val or test are splits. With --listing FILE, the file names
    the images, which are files below the raw directory or in archives there, and their labels.
    """
    OPTIONS: ClassVar[tuple[Option, ...]] = OPTIONS
    formats: ClassVar[frozenset[Literal["JPEG", "PNG"]]] = frozenset({"JPEG", "PNG"})

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        self._wanted = parse_options(self.options)

    def config(self) -> Mapping[str, str]:
        """The options that shape the index, each written in one way only; no paths of files."""
        return one_spelling(self.options, self._wanted)

    @property
    def multilabel(self) -> bool:
        """Whether the listing's labels have a separator."""
        return self._wanted.listing is not None and bool(self._wanted.listing.label_separator)

    def classes(self) -> Sequence[tuple[str, str]] | None:
        """The classes of ``--classes``; None without.

        Raises:
            SourceError: the list cannot be used.
        """
        known = self._known()
        return None if known is None else known.classes

    def order_classes(self, found: Iterable[str]) -> Sequence[tuple[str, str]]:
        """By name; by value if all are whole numbers, so that these stay the labels they were.

        Raises:
            SourceError: two are one name in two Unicode spellings.
        """
        names = numbers_in_order(found)
        require_distinct(names)
        return [(name, name) for name in names]

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what there is from the listings of the top two levels; no archive is opened.

        Of a listing, the places where it can be cut are looked up.

        Args:
            raw: the raw directory, as the user gave it.
            splits: the splits wanted; None: all that are there.

        Raises:
            SourceError: nothing was found, or what was found contradicts itself or the options.
            UsageError: `splits` names a split that is known not to be there.
        """
        self._known()  # so that a wrong list is refused before anything is scanned
        listing = self._wanted.listing
        found = find_folders(raw, self._wanted) if listing is None else self._listed(raw, listing)
        return found if splits is None or found.splits is None else _only(found, splits)

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one unit: some folders and archives, or a piece of the listing.

        Raises:
            SourceError: something in it is damaged, unreadable, wrongly listed, of an unknown
                class, or there twice.
        """
        known = self._known()
        listing = self._wanted.listing
        if isinstance(unit, ListingUnit) and listing is not None:
            return scan_listing(raw, unit, Entries(listing, self._wanted, known), known)
        if not isinstance(unit, ContainerUnit):
            raise TypeError(f"a unit of another data set: {unit!r}")
        if listing is None:
            return self._scan_containers(raw, unit, known, None)
        # Imported late, as elsewhere: numpy is not needed for --help.
        from dataprep.sources.folder.listing_join import open_table

        entries = Entries(listing, self._wanted, known)
        table = open_table(listing, self._wanted)
        return self._scan_containers(raw, unit, known, (table, entries))

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from by size and modification time.

        Of an archive these are its own. A folder's time changes when entries
        are added, removed or renamed in it: that is noticed in a class folder and in every folder
        below, which takes listing all of them. It does not when a file is rewritten in place:
        `read_image` notices that by the file's size. Of the files in a listing nothing is looked
        at: that one which was missing is there now goes unnoticed. The listing and the list of
        classes count by their content, the listing also by its size, its time and its format,
        which `config` leaves out.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        known = self._known()
        listing = self._wanted.listing
        witnesses: list[object] = [None if known is None else known.sha256]
        if listing is not None:
            witnesses.append([listing.format, *_status(listing.path), hash_content(listing.path)])
        if isinstance(unit, ContainerUnit):
            for container in unit.containers:
                see = witness_folder if container.prefix else witness
                witnesses.append(see(raw, container.path))
        return json.dumps([_SCAN_RULES, witnesses], separators=(",", ":"))

    def missing(
        self, raw: Path, splits: Sequence[str] | None, present: Iterable[str]
    ) -> Iterator[Unmatched]:
        """What the listing names but no archive has; missing files were found by `scan`.

        Raises:
            SourceError: the listing is wrong; names the line.
        """
        listing = self._wanted.listing
        if listing is not None and open_top(raw, self._wanted.inside).archives:
            from dataprep.sources.folder.listing_join import missing_entries, open_table

            entries = Entries(listing, self._wanted, self._known())
            table = open_table(listing, self._wanted)
            yield from missing_entries(table, entries, splits, present)

    def _known(self) -> ClassList | None:
        return None if self._wanted.classes is None else load_class_list(self._wanted.classes)

    def _listed(self, raw: Path, listing: ListingOptions) -> Found:
        entries = Entries(listing, self._wanted, self._known())
        top = open_top(raw, self._wanted.inside)
        place = f"{entries.file.name} ({sized(_status(listing.path)[0])})"
        if top.archives:
            units: Sequence[ScanUnit] = find_to_join(top)
            archives = counted(len(top.archives), "archive")
            folders = f" and {counted(len(top.folders), 'folder')}" if top.folders else ""
            description = f"listed in {place}: images in {archives}{folders}, read in place"
        else:
            units = make_listing_units(entries, top.path)
            description = f"listed in {place}: files in {printable(str(raw / top.path))}"
        if not units:
            raise SourceError(f"{entries.file.name} lists no images; expected one image a line")
        splits: tuple[str, ...] | None = (self._wanted.split_name,)
        if self._wanted.cut is not None:
            splits = self._wanted.splits
        elif entries.columns.split is not None:
            splits = None
        return Found((description,), tuple(units), splits, whole=True)

    def _scan_containers(
        self,
        raw: Path,
        unit: ContainerUnit,
        known: ClassList | None,
        listed: tuple[Table, Entries] | None,
    ) -> Scanned:
        drafts: list[Draft] = []
        ignored: list[Ignored] = list(unit.stray)
        unmatched: list[Unmatched] = []
        without_images: list[str] = []
        counts: Counter[str] = Counter()
        restarts = b""
        for container in unit.containers:
            listing = list_container(
                raw, container.path, deep=True, restarts_name=unit.restarts_name
            )
            if listing.restarts:
                _require_alone(unit, container)
                restarts = listing.restarts
            ignored += listing.ignored
            placed = place_images(container, unit.inside, listing.images)
            if outside := len(listing.images) - len(placed):
                counts[OUTSIDE] += outside
            if listed is None:
                drafts += classify(container, unit.split, placed, self._wanted, known)
                empty = class_without_images(container, listing, unit.inside, self._wanted)
                if empty and (known is None or empty in known.indices):
                    without_images.append(empty)
                    counts[WITHOUT_IMAGES] += 1
            else:
                from dataprep.sources.folder.listing_join import join

                found, unlisted = join(container, placed, *listed)
                drafts += found
                unmatched += unlisted
        rows, classes = make_rows(drafts, known, without_images)
        return Scanned(rows, ignored, unmatched, classes, dict(counts), restarts)


def _only(found: Found, splits: Sequence[str]) -> Found:
    """What is needed for the splits wanted."""
    wanted = wanted_splits(found.splits or (), splits)
    units = tuple(
        unit
        for unit in found.units
        if not isinstance(unit, ContainerUnit) or not unit.split or unit.split in splits
    )
    return Found(found.description, units, wanted, found.official_counts, found.whole)


def _require_alone(unit: ContainerUnit, container: Container) -> None:
    if len(unit.containers) > 1:
        raise SourceError(
            f"{printable(container.path)} is compressed with gzip, which its name does not say; "
            "expected a name that ends in .tar.gz or .tgz; rename it"
        )


def _status(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError as error:
        raise unreadable(str(path), error) from error
    return [status.st_size, status.st_mtime_ns]
