"""ILSVRC2012, the ImageNet data set of 1000 classes, in every form it is usually kept in."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, Final, cast

from dataprep.archives.archives import list_archive
from dataprep.archives.folders import list_folder
from dataprep.archives.kinds import witness
from dataprep.archives.listing import Listing, StoredImage
from dataprep.archives.tars import Archive
from dataprep.datasets.base import Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.datasets.imagenet.boxes import boxes_sha256, read_bounding_boxes
from dataprep.datasets.imagenet.labels import (
    check_category,
    class_indices,
    classify,
    load_label_list,
)
from dataprep.datasets.imagenet.layout import ImageNetUnit, SplitLayout
from dataprep.datasets.imagenet.missing import list_raw, missing
from dataprep.datasets.imagenet.train import find_train
from dataprep.datasets.imagenet.validation import find_validation
from dataprep.errors import SourceError
from dataprep.index import Row, Scanned
from dataprep.system.messages import printable
from dataprep_schemas import imagenet_classes

# 732 to 1300 training images a class, 50 validation images a class; the 100,000 test images
# have no labels. Source: tensorflow.org/datasets/catalog/imagenet2012.
_OFFICIAL_COUNTS: Final = {"train": 1_281_167, "validation": 50_000}
_FINDERS: Final[dict[str, Callable[[Path], SplitLayout | None]]] = {
    "train": find_train,
    "validation": find_validation,
}
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 2


class ImageNet(Dataset):
    """ILSVRC2012 in its original archives, in the TPU script's tree, or half unpacked.

    Keys are ``<WordNet id>/<file name>`` for training and ``<file name>`` for validation images
    in every form, and labels are positions among the 1000 sorted WordNet ids, so neither depends
    on how the data is kept or on which part of it is there.
    """

    name: ClassVar[str] = "imagenet"
    summary: ClassVar[str] = """Turn the raw ILSVRC2012 images into shuffled, verified shards.

    The raw data: the original archives, or a tree; the layout is detected."""
    OPTIONS: ClassVar[tuple[Option, ...]] = (
        Option(
            "bbox_csv",
            "Bounding boxes of training images: name,xmin,ymin,xmax,ymax in fractions.",
            metavar="FILE",
            file=True,
        ),
    )
    splits: ClassVar[tuple[str, ...]] = ("train", "validation")

    def config(self) -> Mapping[str, str]:
        """Identifies the boxes, if there are any."""
        boxes = self.options.get("bbox_csv")
        return {} if boxes is None else {"bbox_csv": boxes_sha256(Path(boxes))}

    @property
    def has_boxes(self) -> bool:
        """Whether ``--bbox_csv`` was given."""
        return "bbox_csv" in self.options

    def classes(self) -> Sequence[tuple[str, str]]:
        """The 1000 classes as (WordNet id, English name), in ASCII order of the id."""
        return imagenet_classes()

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect in which form each split lies under `raw`.

        Args:
            raw: the raw directory, as the user gave it.
            splits: the splits wanted; None demands both.

        Raises:
            SourceError: a split is missing, is there in two forms, has an unknown class or is in
                a damaged archive.
            UsageError: `splits` is empty or names a split that ImageNet does not have.
        """
        wanted = wanted_splits(self.splits, splits)
        names = list_raw(raw)
        layouts = {split: _FINDERS[split](raw) for split in wanted}
        found = {split: layout for split, layout in layouts.items() if layout}
        if len(found) < len(wanted):
            lacking = [split for split in wanted if split not in found]
            raise missing(raw, names, lacking, ",".join(found))
        return Found(
            description=tuple(layout.description for layout in found.values()),
            units=tuple(unit for layout in found.values() for unit in layout.units),
            splits=tuple(found),
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
        unit = cast("ImageNetUnit", unit)
        listing = _list(raw, unit)
        images = sorted(listing.images, key=lambda image: image.name)
        _require_unique(images, unit)
        labels = _label(raw, unit, [image.name for image in images])
        prefix = f"{unit.category}/" if unit.split == "train" else ""
        given = self.options.get("bbox_csv")
        boxes = {} if given is None else read_bounding_boxes(Path(given))
        rows = [
            Row(
                prefix + image.name,
                image.container,
                image.offset,
                image.size,
                image.modified,
                (label,),
                boxes.get(image.name, ()),
                container_mtime=image.container_mtime,
            )
            for image, label in zip(images, labels, strict=True)
        ]
        ignored = sorted(listing.ignored, key=lambda entry: entry.name)
        return Scanned({unit.split: rows}, [*unit.stray, *ignored])

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from, with one or two `stat` calls.

        It covers size and modification time in nanoseconds of the archive or directory, of the
        label list and of the boxes. A directory's time changes when entries are added, removed or
        renamed. It does not when a file in it is rewritten in place: `read_image` notices that by
        the file's size.

        Raises:
            SourceError: something the unit needs is gone or unreadable.
        """
        unit = cast("ImageNetUnit", unit)
        paths = [unit.container, unit.labels, self.options.get("bbox_csv", "")]
        return json.dumps(
            [_SCAN_RULES, *(witness(raw, path) for path in paths if path)], separators=(",", ":")
        )


def _list(raw: Path, unit: ImageNetUnit) -> Listing:
    if unit.kind == "folder":
        return list_folder(raw, unit.container)
    return list_archive(raw, Archive(unit.container, unit.offset, unit.size, unit.inner))


def _require_unique(images: Sequence[StoredImage], unit: ImageNetUnit) -> None:
    for earlier, later in pairwise(images):
        if earlier.name == later.name:
            inner = f" (inner archive {unit.inner})" if unit.inner else ""
            raise SourceError(
                f"{printable(unit.container)}{inner} holds {printable(later.name)} twice, at bytes "
                f"{earlier.offset} and {later.offset}; expected each image once; copy or download "
                "it again"
            )


def _label(raw: Path, unit: ImageNetUnit, names: Sequence[str]) -> list[int]:
    if not unit.category:
        return classify(names, load_label_list(raw, unit.labels))
    if unit.labels:
        check_category(names, unit.category, load_label_list(raw, unit.labels))
    return [class_indices()[unit.category]] * len(names)
