"""Any other image set: class folders, archives of them, or a file that lists the images."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal, cast

from dataprep.archives.containers import folder_fingerprint, list_container, stat_fingerprint
from dataprep.archives.listing import below, folder_of
from dataprep.datasets.base import (
    Attribute,
    Classes,
    Dataset,
    Found,
    Option,
    ScanUnit,
    require_labels,
    wanted_splits,
)
from dataprep.datasets.folder.beside import only_class, refuse_classes, refuse_listing, refuse_twins
from dataprep.datasets.folder.headers import Headers, KeyedHash, completed, header_attributes
from dataprep.datasets.folder.layout import (
    ContainerUnit,
    FolderFound,
    ListingUnit,
    containers_of,
    find_folders,
    label_images,
    make_units,
    metadata_beside,
    open_top,
)
from dataprep.datasets.folder.options import OPTIONS, parse_options, refuse_options_of_listings
from dataprep.datasets.lists import (
    ClassList,
    classes_by_name,
    load_class_list,
)
from dataprep.datasets.raw_directory import open_level
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import SourceError, UsageError
from dataprep.system.messages import counted, printable, sized, some_of, unreadable
from dataprep.system.state_files import file_sha256
from dataprep.tables import Ignored, Member, Row, Scanned, Unmatched

if TYPE_CHECKING:  # they load DuckDB and Arrow, which --help does not need
    from dataprep.datasets.folder.listing import Listing

# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 9


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
        """The options that shape the index; no paths of files."""
        others = ("listing", "classes", "stratify", "splits_from", "hash_key")
        shaping = {name: value for name, value in self.options.items() if name not in others}
        if self._hashes is not None:
            shaping["hash_key"] = self._hashes.fingerprint
        stratified = self._wanted.cut is not None and self._wanted.stratify
        return {**shaping, "stratify": "labels"} if stratified else shaping

    def name_classes(self, found: Found, names: Collection[str]) -> Classes:
        """By name, by value if all are whole numbers; of annotations in the order of their ids."""
        if self._wanted.annotations:
            ordered = dict.fromkeys(text.partition("\t")[2] for text in sorted(names))
            return Classes([(name, name) for name in ordered])
        require_labels(names)
        of_folders = _is_of_folders(found)
        named = classes_by_name(names, of_folders=of_folders)
        if of_folders and len(named.classes) == 1:
            return replace(named, reason=only_class(named.classes[0][0]))
        return named

    def check_classes(
        self,
        found: Found,
        names: Sequence[str],
        by_split: Mapping[str, Collection[str]],
        folders: Collection[str],
    ) -> None:
        """Refuse folders that can be no classes; what a file says is believed."""
        if _is_of_folders(found):
            above: dict[str, set[str]] = {}
            for unit in found.units:
                for each in cast("ContainerUnit", unit).containers:
                    above.setdefault(each.prefix, set()).add(folder_of(each.path))
            there = {} if self._wanted.cut else by_split
            refuse_classes(names, there, folders, above, self._wanted)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect what there is from the listings of the top two levels; no archive is opened.

        Of a listing, the names of its columns are read; annotations are read whole.
        """
        wanted = self._wanted
        known = None if wanted.classes is None else load_class_list(wanted.classes)
        self._headers(raw, Counter())  # so that a package that is missing is told of
        if wanted.annotations:
            found = self._find_annotated(raw)
        elif sources := self._sources(raw):
            found = self._find_listed(raw, sources, known)
        else:
            found = FolderFound(*find_folders(raw, wanted), attributes=header_attributes(wanted))
        if splits is not None and found.splits is not None:
            found = _only(found, splits)
        classes = None if known is None else known.classes
        if wanted.label_columns:
            classes = tuple((name, name) for name in wanted.label_columns)
        several = wanted.label_separator or wanted.no_label or wanted.label_columns
        cut = None
        if wanted.cut is not None and wanted.stratify:
            cut = replace(wanted.cut.stratified, kept=wanted.splits_from)
        return replace(
            found,
            classes=() if wanted.unlabelled else classes,
            multilabel=bool(found.multilabel or several or wanted.unlabelled),
            has_captions=bool(found.has_captions or wanted.caption_column),
            cut=cut,
            names_files=not wanted.hash_keys,
            whole=True,
            known=known,
        )

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List one unit: some folders and archives, or the listing."""
        found = cast("FolderFound", found)
        if isinstance(unit, ContainerUnit):
            return self._scan_containers(raw, unit, found.known)
        unit = cast("ListingUnit", unit)
        if self._wanted.annotations:
            from dataprep.datasets.folder.annotated import scan_annotated

            return scan_annotated(raw, unit, self._wanted, found.names)
        listing = self._listing(raw, unit, found.known)
        counts: Counter[str] = Counter()  # of what the tables leave out, when they are read
        headers = self._headers(raw, counts)
        of_headers = self._wanted.dicom_attributes
        own = [each for each in found.attributes if each.name not in of_headers]
        tables = listing.tables(raw, unit, own, counts, headers)
        return Scanned(tables=tables, counts=counts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from by size and modification time.

        A folder's time changes when entries are added, removed or renamed in it: that is noticed
        in a class folder and in every folder below, which takes listing all of them. When a file
        is rewritten in place, `read_image` notices that by its size. Of the files in a listing
        nothing is looked at. Listing and list of classes count by their content.
        """
        seen: list[object] = []
        from dataprep.datasets.folder.voc import files_of

        for path in unit.paths if isinstance(unit, ListingUnit) else ():
            place = raw / path
            try:
                # The same content elsewhere is the same list.
                files = files_of(place) if place.is_dir() else [place]
                for each in files:
                    name = each.suffix if each == place else str(each.relative_to(place.parent))
                    seen.append([name, *stat_fingerprint(raw, str(each)), file_sha256(each)])
            except OSError as error:
                raise unreadable(path, error) from error
        if isinstance(unit, ContainerUnit):
            for container in unit.containers:
                see = folder_fingerprint if container.prefix else stat_fingerprint
                seen.append(see(raw, container.path))
        return json.dumps([_SCAN_RULES, seen], separators=(",", ":"))

    def _listing(self, raw: Path, unit: ListingUnit, known: ClassList | None) -> Listing:
        from dataprep.datasets.folder.listing import Listing

        wanted = self._wanted
        if unit.column and wanted.path_column == "path":
            wanted = replace(wanted, path_column=unit.column)
        if unit.split:
            wanted = replace(wanted, split_name=unit.split)
        return Listing(raw / unit.paths[0], wanted, known, self._hashes)

    def _sources(self, raw: Path) -> list[ListingUnit]:
        """The listing that is named, or those that lie beside the images, as units without more."""
        listing, inside = self._wanted.listing, self._wanted.inside
        if listing is not None:
            self._require(raw, listing)
            return [ListingUnit("listing", listing.name, "", packed=False, paths=(str(listing),))]
        beside: list[ListingUnit] = []
        if not self._wanted.listing_ruled_out:
            top = inside if (raw / inside).is_dir() else ""
            beside = metadata_beside(raw, top, splits=self._wanted.split_folders)
        if not beside:
            refuse_options_of_listings(self.options, self._wanted)
        return beside

    def _require(self, raw: Path, path: Path) -> None:
        if not (raw / path).exists():
            raise UsageError(
                f"no listing {printable(str(path))} here or in {printable(str(raw))}; "
                "check --listing"
            )

    @cached_property
    def _hashes(self) -> KeyedHash | None:
        return None if self._wanted.hash_key is None else KeyedHash(self._wanted.hash_key)

    def _headers(self, raw: Path, counts: Counter[str]) -> Headers | None:
        if not self._wanted.dicom_attributes:
            return None
        return Headers(raw, self._wanted, self._hashes, counts)

    def _find_listed(
        self, raw: Path, sources: Sequence[ListingUnit], known: ClassList | None
    ) -> FolderFound:
        listings = [self._listing(raw, source, known) for source in sources]
        own = _agreeing([(listing.file.name, listing.attributes()) for listing in listings])
        headers = header_attributes(self._wanted)
        of_headers = {attribute.name for attribute in headers}
        if both := [each.name for each in own if each.name.lower() in of_headers]:
            raise UsageError(
                f"{some_of(both)} in both --attribute_columns and --dicom_attributes; leave one out"
            )
        boxes = multilabel = False
        units: list[ScanUnit] = []
        described = []
        for source, listing in zip(sources, listings, strict=True):
            top, packed, place, images = self._images_of(raw, source.top)
            if packed and source.split:
                raise SourceError(
                    f"{printable(source.container)}: the images beside it are in archives; "
                    "expected files, or one list of all splits (--listing)"
                )
            if packed and (of_headers or self._wanted.hash_keys):
                raise UsageError(
                    "--dicom_attributes and --hash_keys with --listing: the images are in "
                    "archives; expected files, or no listing"
                )
            form, several = listing.box_form()
            columns = ", ".join(map(printable, listing.boxes.values()))
            said = [f"boxes from {columns}, in {form}"] * bool(form)
            if packed and form == "pixels of files":
                form = ""
                said = [
                    f"{columns} left out: their images are in archives, and no columns width and "
                    "height say how many pixels these have"
                ]
            boxes |= bool(form)
            multilabel |= several and bool(form)
            unit = replace(source, top=top, packed=packed)
            units += [replace(unit, boxes=form, several=several), *images]
            size = sized(listing.file.path.stat().st_size)
            described.append(f"listed in {source.container} ({size}): {place}")
            described += [*said, *listing.unread]
        splits: tuple[str, ...] | None = (self._wanted.split_name,)
        if self._wanted.cut is not None:
            splits = self._wanted.cut.splits
        elif "split" in listings[0].columns:
            splits = None
        elif sources[0].split:
            splits = in_usual_order(source.split for source in sources)
        hint = self._wanted.hint if splits == (self._wanted.split_name,) else ()
        return FolderFound(
            description=(*described, *hint),
            units=tuple(units),
            splits=splits,
            multilabel=multilabel,
            has_boxes=boxes,
            attributes=(*own, *headers),
        )

    def _images_of(self, raw: Path, folder: str) -> tuple[str, bool, str, Sequence[ScanUnit]]:
        """Where listed images start, whether they are in archives, in words, and these."""
        if folder:
            top, inside = open_level(raw, folder), ""
        else:
            top, inside = open_top(raw, self._wanted.inside)
        if not top.archives:
            return top.path, False, f"files in {printable(str(raw / top.path))}", ()
        containers = containers_of(top)
        reason = "image beside the archives; only those in archives and folders are looked for"
        stray = [*top.others, *(Ignored(top.path, name, reason) for name in top.images)]
        units = make_units("images", "", containers, inside, stray)
        place = f"images in {counted(len(containers), 'archive or folder', 'archives or folders')}"
        return top.path, True, place, [replace(unit, listed=True) for unit in units]

    def _find_annotated(self, raw: Path) -> FolderFound:
        """Annotations, a unit for each split that their names tell; and archives, if there are."""
        from dataprep.datasets.folder.annotated import find_annotated

        for path in self._wanted.annotations:
            self._require(raw, path)
        return find_annotated(raw, self._wanted, *self._images_of(raw, ""))

    def _scan_containers(self, raw: Path, unit: ContainerUnit, known: ClassList | None) -> Scanned:
        names = [] if known is None else [name for name, _ in known.classes]
        numbers = {name: number for number, name in enumerate(names)}
        rows: dict[str, list[Row]] = {}
        members: list[Member] = []
        ignored = [entry for entry in unit.stray if isinstance(entry, Ignored)]
        unmatched = [entry for entry in unit.stray if isinstance(entry, Unmatched)]
        counts: Counter[str] = Counter()
        restarts = b""
        for container in unit.containers:
            gone: list[str] = []
            found = list_container(
                raw,
                container.path,
                deep=not container.flat,
                restarts_name=unit.restarts_name,
                gone=gone,
            )
            unmatched += [Unmatched("missing", path, container.path, unit.split) for path in gone]
            restarts = found.restarts  # a gzip archive is a unit of its own
            ignored += found.ignored
            if container.prefix:
                placed = [(f"{container.prefix}/{image.path}", image) for image in found.images]
            elif container.flat:
                placed = [(image.path, image) for image in found.images]
            else:
                paths = ((below(image.path, unit.inside), image) for image in found.images)
                placed = [(path, image) for path, image in paths if path]
            if outside := len(found.images) - len(placed):
                counts["images that are not below --inside"] += outside
            if unit.listed:
                # A listing may call them by their paths or, of a class archive, below its name.
                members += [
                    image.member(path, f"{container.stem}/{path}" if container.stem else "")
                    for path, image in placed
                ]
                continue
            if container.prefix:
                refuse_listing(container.path, found.ignored, self._wanted)
            refuse_twins(container.path, found.images, found.ignored, self._wanted)
            labelled = label_images(container, unit.split, placed, self._wanted, numbers, known)
            headers = self._headers(raw, counts)
            wanted, hashes, there = self._wanted, self._hashes, (unit.restarts_name, restarts)
            for split, row in completed(labelled, wanted, headers, hashes, there):
                rows.setdefault(split, []).append(row)
            # A class without images keeps its number.
            empty = "" if found.images or unit.inside else container.prefix or container.stem
            by_top = self._wanted.class_from == "top" and (known is None or known.named(empty))
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


def _agreeing(found: Sequence[tuple[str, tuple[Attribute, ...]]]) -> tuple[Attribute, ...]:
    """The attributes of several listings, which must be the same."""
    (place, first), *others = found
    for other, attributes in others:
        if attributes != first:
            raise SourceError(
                f"{place} and {other} do not have the same attributes; name those that they share "
                "with --attribute_columns"
            )
    return first


def _is_of_folders(found: Found) -> bool:
    """Whether nothing but folders tells the classes."""
    return not any(isinstance(unit, ListingUnit) for unit in found.units)


def _only(found: FolderFound, splits: Sequence[str]) -> FolderFound:
    """What is needed for the splits wanted."""
    wanted = wanted_splits(found.splits or (), splits)
    units = tuple(
        unit
        for unit in found.units
        if not isinstance(unit, ContainerUnit) or not unit.split or unit.split in splits
    )
    return replace(found, units=units, splits=wanted)
