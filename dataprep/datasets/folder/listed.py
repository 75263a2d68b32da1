"""Listings: the source of images that the rows of a table name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from dataprep.datasets.base import ScanUnit
from dataprep.datasets.folder.headers import Headers
from dataprep.datasets.folder.layout import FolderFound, Images, ListingUnit, Source, images_of
from dataprep.datasets.folder.layouts import LAYOUTS
from dataprep.datasets.folder.listing import Listing
from dataprep.datasets.folder.objects import Objects
from dataprep.datasets.folder.published import Published
from dataprep.datasets.lists import FORMATS, ClassList, ListFile
from dataprep.datasets.splits import in_usual_order
from dataprep.errors import SourceError, UsageError
from dataprep.rows import Scanned
from dataprep.system.messages import printable, sized, some_of
from dataprep_schemas.fields import BOXES, CAPTIONS, Fields


class Listed(Source):
    """Images that listings name: one, or one a split; files, or in archives."""

    def find(self, raw: Path, lists: Sequence[ListingUnit]) -> FolderFound:
        """The lists, of which each is a unit, and the archives with the images."""
        options = self.options
        listings = [self._open(raw, unit) for unit in lists]
        own = _agreeing([(listing.file.name, listing.fields()) for listing in listings])
        if both := [it.name for it in own if it.name.lower() in options.dicom_attributes]:
            raise UsageError(
                f"{some_of(both)} in both --attribute_columns and --dicom_attributes; leave one out"
            )
        units: list[ListingUnit] = []
        others: list[ScanUnit] = []
        described = []
        known, classes = None, tuple((it, it) for it in listings[0].options.label_columns)
        for unit, listing in zip(lists, listings, strict=True):
            images = images_of(raw, options, unit.top)
            self._check_archives(unit, images)
            form, several = listing.box_form()
            columns = ", ".join(map(printable, listing.boxes.values()))
            said = [f"boxes from {columns}, in {form}"] * bool(form)
            said = [*filter(None, [listing.file.described]), *said]
            if isinstance(listing.file, Published) and listing.columns.get("label") == "label":
                known = listing.file.class_list()
            if images.units and form == "pixels of files":
                form, several = "", False
                said = [
                    f"{columns} left out: their images are in archives, and no columns width and "
                    "height say how many pixels these have"
                ]
            if listing.file.bare and "label" in listing.columns:
                said.append(f"{unit.container} has no labels: the first folder of each path is it")
            packed = bool(images.units)
            units.append(replace(unit, top=images.top, packed=packed, boxes=form, several=several))
            others += images.units
            size = sized(listing.file.path.stat().st_size)
            described.append(f"listed in {unit.container} ({size}): {images.place}")
            described += [*said, *listing.unread]
        boxes = (BOXES,) * any(unit.boxes for unit in units)
        captions = (CAPTIONS,) * bool(options.caption_column)
        splits = in_usual_order(unit.split for unit in lists if unit.split)
        return FolderFound(
            description=tuple(described),
            units=(*units, *others),
            splits=None if "split" in listings[0].columns else splits,
            classes=known.classes if known else classes or None,
            multilabel=bool(classes or any(unit.several for unit in units)),
            known=known,
            fields=(*boxes, *captions, *own),
        )

    def scan(self, raw: Path, found: FolderFound, unit: ScanUnit) -> Scanned:
        """The rows of a list; they are read later."""
        unit = cast("ListingUnit", unit)
        listing = self._open(raw, unit, found.known)
        tables = listing.tables(raw, unit, found.fields, Headers(raw, self.options, self.hashes))
        return Scanned(tables=tables, counts=listing.counts)

    def _open(self, raw: Path, unit: ListingUnit, known: ClassList | None = None) -> Listing:
        options = self.options
        if unit.column and options.path_column == "path":
            options = replace(options, path_column=unit.column)
        if unit.split:
            options = replace(options, split_name=unit.split)
        path = raw / unit.paths[0]
        if not unit.layout:
            listed = ListFile(path, FORMATS[path.suffix.lower()])
            if Objects.are_in(listed, options):
                listed, options = Objects(path, listed.form), replace(options, label_column="label")
            return Listing(listed, options, known)
        file = Published(LAYOUTS[unit.layout], [raw / each for each in unit.paths])
        classes = options.label_columns
        if not (classes or options.unlabelled or options.label_column != "label"):
            classes = file.classes
        if classes:  # of which -1 is no, there
            uncertain = options.uncertain or "negative"
            options = replace(options, label_columns=classes, uncertain=uncertain)
        return Listing(file, options, known)

    def _check_archives(self, unit: ListingUnit, images: Images) -> None:
        if images.units and unit.split:
            raise SourceError(
                f"{printable(unit.container)}: the images beside it are in archives; expected "
                "files, or one list of all splits (--listing)"
            )
        options = self.options
        if images.units and (options.dicom_attributes or options.hash_keys or options.frames):
            raise UsageError(
                "--dicom_attributes, --frames and --hash_keys with --listing: the images are in "
                "archives; expected files, or no listing"
            )


def _agreeing(found: Sequence[tuple[str, Fields]]) -> Fields:
    """The fields of several listings, which must be the same."""
    (place, first), *others = found
    for other, fields in others:
        if fields != first:
            raise SourceError(
                f"{place} and {other} do not have the same attributes; name those that they share "
                "with --attribute_columns"
            )
    return first
