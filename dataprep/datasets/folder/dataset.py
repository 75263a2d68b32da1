"""Any other image set: class folders, archives of them, or a file that lists the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from msgspec.structs import replace as replace_fields

from dataprep.archives.containers import folder_fingerprint, list_container, stat_fingerprint
from dataprep.archives.listing import below
from dataprep.datasets.base import Attribute, Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.datasets.folder.headers import Headers, KeyedHash, header_attributes
from dataprep.datasets.folder.layout import (
    ContainerUnit,
    ListingUnit,
    containers_of,
    find_folders,
    label_images,
    make_units,
    open_top,
    refuse_listing,
)
from dataprep.datasets.folder.options import OPTIONS, parse_options
from dataprep.datasets.lists import ClassList, load_class_list
from dataprep.errors import UsageError
from dataprep.rows import Value
from dataprep.system.messages import counted, printable, sized, some_of, unreadable
from dataprep.system.state_files import file_sha256
from dataprep.tables import Ignored, Member, Row, Scanned, Unmatched

if TYPE_CHECKING:  # it loads DuckDB, which --help does not need
    from dataprep.datasets.folder.listing import Listing

# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 7


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
        if self._wanted.cut is not None and self._wanted.stratify:
            self.cut = replace(self._wanted.cut.stratified, kept=self._wanted.splits_from)
        self.names_files = not self._wanted.hash_keys
        self.attributes: tuple[Attribute, ...] = ()  # `find` knows

    def config(self) -> Mapping[str, str]:
        """The options that shape the index; no paths of files."""
        others = ("listing", "classes", "stratify", "splits_from", "hash_key")
        shaping = {name: value for name, value in self.options.items() if name not in others}
        if self._hashes is not None:
            shaping["hash_key"] = self._hashes.fingerprint
        return {**shaping, "stratify": "labels"} if self.cut is not None else shaping

    @property
    def multilabel(self) -> bool:
        """Whether the listing's labels have a separator or columns, or one of them means none."""
        wanted = self._wanted
        return bool(wanted.label_separator or wanted.no_label or wanted.label_columns)

    @property
    def has_captions(self) -> bool:
        """Whether the listing has a column of them."""
        return bool(self._wanted.caption_column)

    def classes(self) -> Sequence[tuple[str, str]] | None:
        """The classes of ``--classes`` or ``--label_columns``; None without.

        Raises:
            SourceError: the list cannot be used.
        """
        if self._wanted.label_columns:
            return [(name, name) for name in self._wanted.label_columns]
        return None if self._known is None else self._known.classes

    def order_classes(self, found: Iterable[str]) -> Sequence[tuple[str, str]]:
        """By name; by value if all are whole numbers, so that 10 comes after 9."""
        names = sorted(found)
        if all(name.isascii() and name.isdecimal() for name in names):
            names.sort(key=int)
        return [(name, name) for name in names]

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what there is from the listings of the top two levels; no archive is opened.

        Of a listing, the names of its columns are read.
        """
        self.classes()  # so that a wrong list is refused before anything is scanned
        listing = self._wanted.listing
        self._headers(raw)  # so that a package that is missing is told of
        self.attributes = header_attributes(self._wanted)
        found = self._find_listed(raw, listing) if listing else find_folders(raw, self._wanted)
        return found if splits is None or found.splits is None else _only(found, splits)

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one unit: some folders and archives, or the listing."""
        if isinstance(unit, ListingUnit) and self._wanted.listing is not None:
            self.attributes = (*unit.attributes, *header_attributes(self._wanted))
            listing = self._listing(raw / self._wanted.listing)
            counts: Counter[str] = Counter()  # of what the tables leave out, when they are read
            headers = self._headers(raw)
            tables = listing.tables(
                raw, unit.top, unit.attributes, counts, headers, packed=unit.packed
            )
            return Scanned(tables=tables, counts=counts)
        if not isinstance(unit, ContainerUnit):
            raise TypeError(f"a unit of another data set: {unit!r}")
        return self._scan_containers(raw, unit)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from by size and modification time.

        A folder's time changes when entries are added, removed or renamed in it: that is noticed
        in a class folder and in every folder below, which takes listing all of them. When a file
        is rewritten in place, `read_image` notices that by its size. Of the files in a listing
        nothing is looked at. Listing and list of classes count by their content.
        """
        seen: list[object] = [None if self._known is None else self._known.sha256]
        if isinstance(unit, ListingUnit) and self._wanted.listing is not None:
            path = raw / self._wanted.listing
            try:
                seen.append([path.suffix, *stat_fingerprint(raw, str(path)), file_sha256(path)])
            except OSError as error:
                raise unreadable(str(path), error) from error
        if isinstance(unit, ContainerUnit):
            for container in unit.containers:
                see = folder_fingerprint if container.prefix else stat_fingerprint
                seen.append(see(raw, container.path))
        return json.dumps([_SCAN_RULES, seen], separators=(",", ":"))

    @cached_property
    def _known(self) -> ClassList | None:
        return None if self._wanted.classes is None else load_class_list(self._wanted.classes)

    def _listing(self, path: Path) -> Listing:
        from dataprep.datasets.folder.listing import Listing

        return Listing(path, self._wanted, self._known, self._hashes)

    @cached_property
    def _hashes(self) -> KeyedHash | None:
        return None if self._wanted.hash_key is None else KeyedHash(self._wanted.hash_key)

    def _headers(self, raw: Path) -> Headers | None:
        if not self._wanted.dicom_attributes:
            return None
        return Headers(raw, self._wanted, self._hashes)

    def _find_listed(self, raw: Path, path: Path) -> Found:
        if not (raw / path).exists():
            raise UsageError(
                f"no listing {printable(str(path))} here or in {printable(str(raw))}; "
                "check --listing"
            )
        listing = self._listing(raw / path)
        own = listing.attributes()
        of_headers = {attribute.name for attribute in self.attributes}
        if both := [each.name for each in own if each.name.lower() in of_headers]:
            raise UsageError(
                f"{some_of(both)} in both --attribute_columns and --dicom_attributes; leave one out"
            )
        self.attributes = (*own, *self.attributes)
        top, inside = open_top(raw, self._wanted.inside)
        packed = bool(top.archives)
        if packed and (of_headers or self._wanted.hash_keys):
            raise UsageError(
                "--dicom_attributes and --hash_keys with --listing: the images are in archives; "
                "expected files, or no listing"
            )
        unit = ListingUnit("listing", listing.file.name, top.path, packed, own)
        units: tuple[ScanUnit, ...] = (unit,)
        place = f"files in {printable(str(raw / top.path))}"
        if packed:
            containers = containers_of(top)
            place = f"images in {counted(len(containers), 'archive or folder')}"
            reason = "image beside the archives; only those in archives and folders are looked for"
            stray = [*top.others, *(Ignored(top.path, name, reason) for name in top.images)]
            units = (*units, *make_units("images", "", containers, inside, stray))
        splits: tuple[str, ...] | None = (self._wanted.split_name,)
        if self._wanted.cut is not None:
            splits = self._wanted.cut.splits
        elif "split" in listing.columns:
            splits = None
        described = (
            f"listed in {listing.file.name} ({sized(listing.file.path.stat().st_size)}): {place}"
        )
        hint = self._wanted.hint if splits else ()
        return Found((described, *hint), units, splits, whole=True)

    def _scan_containers(self, raw: Path, unit: ContainerUnit) -> Scanned:
        known = self._known
        numbers: dict[str, int] = {} if known is None else dict(known.indices)
        rows: dict[str, list[Row]] = {}
        members: list[Member] = []
        ignored = [entry for entry in unit.stray if isinstance(entry, Ignored)]
        unmatched = [entry for entry in unit.stray if isinstance(entry, Unmatched)]
        counts: Counter[str] = Counter()
        restarts = b""
        for container in unit.containers:
            gone: list[str] = []
            found = list_container(
                raw, container.path, deep=True, restarts_name=unit.restarts_name, gone=gone
            )
            unmatched += [Unmatched("missing", path, container.path, unit.split) for path in gone]
            restarts = found.restarts  # a gzip archive is a unit of its own
            ignored += found.ignored
            if container.prefix:
                placed = [(f"{container.prefix}/{image.path}", image) for image in found.images]
            else:
                paths = ((below(image.path, unit.inside), image) for image in found.images)
                placed = [(path, image) for path, image in paths if path]
            if outside := len(found.images) - len(placed):
                counts["images that are not below --inside"] += outside
            if self._wanted.listing is not None:
                # A listing may call them by their paths or, of a class archive, below its name.
                members += [
                    image.member(path, f"{container.stem}/{path}" if container.stem else "")
                    for path, image in placed
                ]
                continue
            if container.prefix:
                refuse_listing(container.path, found.ignored, self._wanted)
            labelled = label_images(container, unit.split, placed, self._wanted, numbers, known)
            for split, row in self._completed(raw, labelled, unit.restarts_name, restarts):
                rows.setdefault(split, []).append(row)
            # A class without images keeps its number.
            empty = "" if found.images or unit.inside else container.prefix or container.stem
            by_top = self._wanted.class_from == "top" and (known is None or empty in numbers)
            if empty and by_top:
                numbers.setdefault(empty, len(numbers))
                counts["class folders or archives without images"] += 1
        classes = list(numbers) if known is None else None
        if self._wanted.hash_keys and (hashes := self._hashes) is not None:
            ignored = [
                Ignored("", hashes.of("file", f"{it.container}/{it.name}"), it.reason)
                for it in ignored
            ]
            unmatched = [
                Unmatched(it.kind, hashes.of("file", it.name), "", it.split) for it in unmatched
            ]
        return Scanned(rows, ignored, unmatched, classes, dict(counts), restarts, members)

    def _completed(
        self, raw: Path, labelled: Iterable[tuple[str, Row]], name: str, restarts: bytes
    ) -> Iterable[tuple[str, Row]]:
        """With what headers tell of the images, and with keys as they are wanted."""
        options, headers, hashes = self._wanted, self._headers(raw), self._hashes
        if headers is None and not options.hash_keys:
            yield from labelled
            return
        images = list(labelled)
        known: Sequence[Mapping[str, Value]] = [{}] * len(images)
        if headers is not None:
            with TemporaryDirectory() as index:
                (Path(index) / name).write_bytes(restarts)
                known = headers.of([row for _, row in images], Path(index))
        for (split, row), attributes in zip(images, known, strict=True):
            key, group = row.key, row.group
            if options.groups_by_header:
                group = str(attributes[options.group_by])
                if options.cut and not options.stratify:
                    split = options.cut.split_of(group)
            if options.hash_keys and hashes is not None:
                key = hashes.of("key", key)
            yield split, replace_fields(row, key=key, group=group, attributes=attributes)


def _only(found: Found, splits: Sequence[str]) -> Found:
    """What is needed for the splits wanted."""
    wanted = wanted_splits(found.splits or (), splits)
    units = tuple(
        unit
        for unit in found.units
        if not isinstance(unit, ContainerUnit) or not unit.split or unit.split in splits
    )
    return replace(found, units=units, splits=wanted)
