"""ILSVRC2012, the ImageNet data set of 1000 classes, in every form it is usually kept in."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import ClassVar, Final, cast

from dataprep.archives.containers import list_archive, list_container, stat_fingerprint
from dataprep.archives.listing import basename
from dataprep.archives.tar import Archive
from dataprep.datasets.base import Dataset, Found, Option, ScanUnit, wanted_splits
from dataprep.datasets.imagenet.layout import (
    ImageNetUnit,
    class_indices,
    find_layouts,
    validation_label,
)
from dataprep.errors import SourceError
from dataprep.system.messages import unreadable
from dataprep.system.regular_files import open_regular
from dataprep.system.state_files import file_sha256
from dataprep.tables import Box, Ignored, Row, Scanned
from dataprep_schemas import imagenet_classes

# 732 to 1300 training images a class, 50 validation images a class; the 100,000 test images
# have no labels. Source: tensorflow.org/datasets/catalog/imagenet2012.
_OFFICIAL_COUNTS: Final = {"train": 1_281_167, "validation": 50_000}
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 4


class ImageNet(Dataset):
    """ILSVRC2012 in its original archives, in the TPU script's tree, or half unpacked.

    Keys are ``<WordNet id>/<file name>`` for training and ``<file name>`` for validation images
    in every form, and labels are positions among the 1000 sorted WordNet ids, so neither depends
    on how the data is kept or on which part of it is there.
    """

    name: ClassVar[str] = "imagenet"
    summary: ClassVar[str] = """Turn the raw ILSVRC2012 images into shuffled, verified shards.

    The raw data: the original archives, or a tree; the layout is detected."""
    card: ClassVar[Mapping[str, str]] = {
        "name": "ILSVRC2012",
        "description": "Photographs of 1,000 classes of WordNet: the classification task of the "
        "ImageNet Large Scale Visual Recognition Challenge 2012.",
        "license": "https://www.image-net.org/download.php",
        "creator": "ImageNet, Stanford Vision Lab and Princeton University",
        "url": "https://www.image-net.org/challenges/LSVRC/2012/",
        "date": "2012-05-25",
        "cite_as": "@article{russakovsky2015, author={Olga Russakovsky and others}, "
        "title={ImageNet Large Scale Visual Recognition Challenge}, "
        "journal={International Journal of Computer Vision}, volume={115}, year={2015}}",
    }
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
        """Identifies the boxes, if there are any.

        Raises:
            SourceError: they cannot be read.
        """
        return {} if self._boxes_sha256 is None else {"bbox_csv": self._boxes_sha256}

    @cached_property  # each of a thousand class archives asks for it
    def _boxes_sha256(self) -> str | None:
        path = self.options.get("bbox_csv")
        try:
            return None if path is None else file_sha256(Path(path))
        except OSError as error:
            raise unreadable(f"--bbox_csv {path}", error) from error

    @cached_property
    def _boxes(self) -> Mapping[str, tuple[Box, ...]]:
        path = self.options.get("bbox_csv")
        return {} if path is None else read_bounding_boxes(Path(path))

    @property
    def has_boxes(self) -> bool:
        """Whether ``--bbox_csv`` was given."""
        return "bbox_csv" in self.options

    def classes(self) -> Sequence[tuple[str, str]]:
        """The 1000 classes as (WordNet id, English name), in ASCII order of the id."""
        return imagenet_classes()

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect in which form each split lies under `raw`; see `Dataset.find`."""
        wanted = wanted_splits(self.splits, splits)
        found = find_layouts(raw, wanted)
        return Found(
            description=tuple(description for description, _ in found.values()),
            units=tuple(unit for _, units in found.values() for unit in units),
            splits=tuple(found),
            official_counts=dict(_OFFICIAL_COUNTS),
        )

    def scan(self, raw: Path, unit: ScanUnit) -> Scanned:
        """List one unit: rows sorted by key, and whatever was left out and why."""
        unit = cast("ImageNetUnit", unit)
        rows: list[Row] = []
        ignored: list[Ignored] = []
        restarts = b""
        for place in unit.places:
            if place.inner:
                archive = Archive(place.path, place.offset, place.size, place.inner)
                listing = list_archive(raw, archive)
            else:
                listing = list_container(raw, place.path, restarts_name=unit.restarts_name)
            restarts = listing.restarts  # a gzip archive is a unit of its own
            ignored += sorted(listing.ignored, key=lambda entry: entry.name)
            prefix = f"{place.category}/" if unit.split == "train" else ""
            for image in listing.images:
                name = basename(image.path)
                if place.category:
                    label = class_indices()[place.category]
                else:
                    label = validation_label(name)
                rows.append(image.row(prefix + name, (label,), boxes=self._boxes.get(name, ())))
        rows.sort(key=lambda row: row.key)
        return Scanned({unit.split: rows}, ignored, restarts=restarts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from, with a `stat` call for each class.

        A directory's time changes when entries are added, removed or renamed. It does not when a
        file in it is rewritten in place: `read_image` notices that by the file's size.
        """
        places = [place.path for place in cast("ImageNetUnit", unit).places]
        # Archives in an archive are one file.
        paths = [*dict.fromkeys(places), self.options.get("bbox_csv", "")]
        return json.dumps([_SCAN_RULES, *(stat_fingerprint(raw, path) for path in paths if path)])


def read_bounding_boxes(path: Path) -> Mapping[str, tuple[Box, ...]]:
    """The boxes (xmin, ymin, xmax, ymax) of each file name, in the order of the file.

    The file is ``imagenet_2012_bounding_boxes.csv``, as ``process_bounding_boxes.py`` of
    tensorflow/models writes it: one box a line, ``n00007846_64193.JPEG,xmin,ymin,xmax,ymax``,
    fractions of width and height, several lines for an image with several boxes.

    Raises:
        SourceError: the file cannot be read, or a line is not a box; names the line.
    """
    boxes: defaultdict[str, tuple[Box, ...]] = defaultdict(tuple)
    try:
        with open_regular(path) as opened, TextIOWrapper(opened, "utf-8", newline="") as file:
            for number, row in enumerate(csv.reader(file), start=1):
                if row:
                    boxes[row[0]] += (_box(row[1:], f"{path}: line {number}"),)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"--bbox_csv {path}: {error}") from error
    return boxes


def _box(sides: Sequence[str], place: str) -> Box:
    try:
        left, top, right, bottom = map(float, sides)
        if 0 <= left <= right <= 1 and 0 <= top <= bottom <= 1:
            return left, top, right, bottom
    except ValueError:
        pass
    raise SourceError(
        f"{place}: expected 'file name,xmin,ymin,xmax,ymax' with fractions of the image's size, "
        f"found {','.join(sides)!r} after the name"
    )
