"""ILSVRC2012, the ImageNet data set of 1000 classes, in every form it is usually kept in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from itertools import pairwise
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError, UsageError
from dataprep.index import Row, Scanned
from dataprep.sources.archives import list_archive
from dataprep.sources.base import Found, ScanUnit
from dataprep.sources.folders import list_folder
from dataprep.sources.imagenet_labels import (
    check_category,
    class_indices,
    classify,
    load_label_list,
)
from dataprep.sources.imagenet_layout import SplitLayout
from dataprep.sources.imagenet_missing import list_raw, missing
from dataprep.sources.imagenet_train import find_train
from dataprep.sources.imagenet_validation import find_validation
from dataprep.sources.listing import Listing, StoredImage
from dataprep.sources.reading import close_archives
from dataprep.sources.tars import Archive
from dataprep.wording import printable, unreadable
from dataprep_schemas import imagenet_classes

# 732 to 1300 training images a class, 50 validation images a class; the 100,000 test images
# have no labels. Source: tensorflow.org/datasets/catalog/imagenet2012.
_OFFICIAL_COUNTS: Final = {"train": 1_281_167, "validation": 50_000}
_FINDERS: Final[dict[str, Callable[[Path], SplitLayout | None]]] = {
    "train": find_train,
    "validation": find_validation,
}
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 1


class ImageNet:
    """ILSVRC2012 in its original archives, in the TPU script's tree, or half unpacked.

    Keys are ``<WordNet id>/<file name>`` for training and ``<file name>`` for validation images
    in every form, and labels are positions among the 1000 sorted WordNet ids, so neither depends
    on how the data is kept or on which part of it is there.
    """

    name: str = "imagenet"
    splits: tuple[str, ...] = ("train", "validation")

    def classes(self) -> Sequence[tuple[str, str]]:
        """The 1000 classes as (WordNet id, English name), in ASCII order of the id."""
        return imagenet_classes()

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect in which form each split lies under `raw`.

        A new search starts from the files as they are now: archives that `read_image` kept open
        are closed.

        Args:
            raw: the raw directory, as the user gave it.
            splits: the splits wanted; None demands both.

        Raises:
            SourceError: a split is missing, is there in two forms, has an unknown class or is in
                a damaged archive.
            UsageError: `splits` is empty or names a split that ImageNet does not have.
        """
        wanted = self._wanted(splits)
        close_archives()
        names = list_raw(raw)
        layouts = {split: _FINDERS[split](raw) for split in wanted}
        found = {split: layout for split, layout in layouts.items() if layout}
        if len(found) < len(wanted):
            lacking = [split for split in wanted if split not in found]
            raise missing(raw, names, lacking, ",".join(found))
        return Found(
            description=tuple(layout.description for layout in found.values()),
            units=tuple(unit for layout in found.values() for unit in layout.units),
            official_counts=dict(_OFFICIAL_COUNTS),
        )

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one unit: rows sorted by key, and whatever was left out and why.

        Keys are unique within the unit. Two class folders of validation images may still hold
        the same file name; only whoever merges the units can see that.

        Args:
            raw: the raw directory.
            unit: a unit that `find` returned for it.

        Raises:
            SourceError: the unit is unreadable, damaged or truncated, holds a file name twice, or
                has images that the label list does not fit.
        """
        listing = _list(raw, unit)
        images = sorted(listing.images, key=lambda image: image.name)
        _require_unique(images, unit)
        labels = _label(raw, unit, [image.name for image in images])
        prefix = f"{unit.category}/" if unit.split == "train" else ""
        rows = [
            Row(
                prefix + image.name,
                image.container,
                image.offset,
                image.size,
                image.modified,
                label,
            )
            for image, label in zip(images, labels, strict=True)
        ]
        ignored = sorted(listing.ignored, key=lambda entry: entry.name)
        return Scanned(rows, [*unit.stray, *ignored])

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from, with one or two `stat` calls.

        It covers the unit's own description (and so the window of a nested archive), and size
        and modification time in nanoseconds of the archive or directory and of the label list.
        A directory's time changes when entries are added, removed or renamed. It does not when a
        file in it is rewritten in place: `read_image` notices that by the file's size.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        witnesses = [_witness(raw, unit.container)]
        if unit.labels:
            witnesses.append(_witness(raw, unit.labels))
        return json.dumps([_SCAN_RULES, astuple(unit), witnesses], separators=(",", ":"))

    def _wanted(self, splits: Sequence[str] | None) -> list[str]:
        unknown = [split for split in splits or () if split not in self.splits]
        if unknown or (splits is not None and not splits):
            raise UsageError(
                f"--splits names {', '.join(map(printable, unknown)) or 'nothing'}; expected "
                f"{' or '.join(self.splits)}, or both separated by a comma"
            )
        return [split for split in self.splits if splits is None or split in splits]


def _list(raw: Path, unit: ScanUnit) -> Listing:
    if unit.kind == "folder":
        return list_folder(raw, unit.container)
    return list_archive(raw, Archive(unit.container, unit.offset, unit.size, unit.inner))


def _require_unique(images: Sequence[StoredImage], unit: ScanUnit) -> None:
    for earlier, later in pairwise(images):
        if earlier.name == later.name:
            inner = f" (inner archive {unit.inner})" if unit.inner else ""
            raise SourceError(
                f"{printable(unit.container)}{inner} holds {printable(later.name)} twice, at bytes "
                f"{earlier.offset} and {later.offset}; expected each image once; copy or download "
                "it again"
            )


def _label(raw: Path, unit: ScanUnit, names: Sequence[str]) -> list[int]:
    if not unit.category:
        return classify(names, load_label_list(raw, unit.labels))
    if unit.labels:
        check_category(names, unit.category, load_label_list(raw, unit.labels))
    return [class_indices()[unit.category]] * len(names)


def _witness(raw: Path, path: str) -> list[int]:
    try:
        status = (raw / path).stat()
    except OSError as error:
        raise unreadable(path, error) from error
    return [status.st_size, status.st_mtime_ns]
