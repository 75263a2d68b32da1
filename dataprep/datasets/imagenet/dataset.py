"""ILSVRC2012, the ImageNet data set of 1000 classes, in every form it is usually kept in."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from io import TextIOWrapper
from pathlib import Path
from typing import ClassVar, Final, cast

from dataprep.archives.containers import (
    container_stem,
    how_read,
    is_alone,
    list_archive,
    list_container,
    stat_fingerprint,
)
from dataprep.archives.listing import basename
from dataprep.archives.packed import Copy
from dataprep.archives.tar import Archive, ArchiveMember, members
from dataprep.datasets.base import Dataset, Found, ScanUnit, wanted_splits
from dataprep.datasets.raw_directory import Entries, entries_of, list_raw
from dataprep.errors import SourceError
from dataprep.options import FILE, option
from dataprep.rows import Ignored, Row, Scanned
from dataprep.system.messages import counted, printable, some_of, unreadable
from dataprep.system.regular_files import open_regular
from dataprep.system.state_files import file_sha256
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets
from dataprep_schemas.fields import BOXES, Box

# 732 to 1300 training images a class, 50 validation images a class; the 100,000 test images
# have no labels. Source: tensorflow.org/datasets/catalog/imagenet2012.
_OFFICIAL_COUNTS: Final = {"train": 1_281_167, "validation": 50_000}
# Part of every fingerprint: raise it whenever the same raw data would scan differently.
_SCAN_RULES: Final = 5


@dataclass(frozen=True, kw_only=True)
class ImageNetOptions:
    """What the user says of ImageNet's raw data."""

    bbox_csv: Path | None = option(
        "Bounding boxes of training images: name,xmin,ymin,xmax,ymax in fractions.", None, **FILE
    )


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
    Options: ClassVar[type[ImageNetOptions]] = ImageNetOptions
    options: ImageNetOptions
    splits: ClassVar[tuple[str, ...]] = ("train", "validation")

    def config(self) -> Mapping[str, str]:
        """Identifies the boxes, if there are any.

        Raises:
            SourceError: they cannot be read.
        """
        return {} if self._boxes_sha256 is None else {"bbox_csv": self._boxes_sha256}

    @cached_property  # each of a thousand class archives asks for it
    def _boxes_sha256(self) -> str | None:
        path = self.options.bbox_csv
        try:
            return None if path is None else file_sha256(path)
        except OSError as error:
            raise unreadable(f"--bbox_csv {path}", error) from error

    @cached_property
    def _boxes(self) -> Mapping[str, tuple[Box, ...]]:
        path = self.options.bbox_csv
        return {} if path is None else read_bounding_boxes(path)

    def find(self, raw: Path, splits: Sequence[str] | None) -> Found:
        """Detect in which form each split lies under `raw`; see `Dataset.find`."""
        wanted = wanted_splits(self.splits, splits)
        found = find_layouts(raw, wanted)
        return Found(
            description=tuple(description for description, _ in found.values()),
            units=tuple(unit for _, units in found.values() for unit in units),
            splits=tuple(found),
            classes=tuple(imagenet_classes()),  # in ASCII order of the WordNet ids
            fields=() if self.options.bbox_csv is None else (BOXES,),
            official_counts=dict(_OFFICIAL_COUNTS),
        )

    def scan(self, raw: Path, found: Found, unit: ScanUnit) -> Scanned:
        """List one unit: rows sorted by key, and whatever was left out and why."""
        del found
        return unit.scanned(partial(self._scan, raw, cast("ImageNetUnit", unit)))

    def _scan(self, raw: Path, unit: ImageNetUnit, copy: Copy | None) -> Scanned:
        rows: list[Row] = []
        ignored: list[Ignored] = []
        restarts = b""
        for place in unit.places:
            if place.inner:
                listing = list_archive(raw, place)
            else:
                name = unit.restarts_name
                listing = list_container(raw, place.container, restarts_name=name, copy=copy)
            restarts = listing.restarts  # a gzip archive is a unit of its own
            ignored += sorted(listing.ignored, key=lambda entry: entry.name)
            prefix = f"{place.category}/" if unit.split == "train" else ""
            for image in listing.images:
                name = basename(image.path)
                known = place.category
                label = class_indices()[known] if known else validation_label(name)
                boxes = self._boxes.get(name)
                said = {BOXES.name: boxes} if boxes else {}
                rows.append(image.row(prefix + name, (label,), fields=said))
        rows.sort(key=lambda row: row.key)
        return Scanned({unit.split: rows}, ignored, restarts=restarts)

    def fingerprint(self, raw: Path, unit: ScanUnit) -> str:
        """Identify what `scan` would read from, with a `stat` call for each class.

        A directory's time changes when entries are added, removed or renamed. It does not when a
        file in it is rewritten in place: `read_image` notices that by the file's size.
        """
        places = [place.container for place in cast("ImageNetUnit", unit).places]
        # Archives in an archive are one file.
        paths = [*dict.fromkeys(places), str(self.options.bbox_csv or "")]
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


# --- the forms a split comes in, and the labels that names tell in each of them ---

_ARCHIVES: Final = {"train": "ILSVRC2012_img_train.tar", "validation": "ILSVRC2012_img_val.tar"}
_FOLDERS: Final = {"train": ("train",), "validation": ("validation", "val")}
_LOOKED_FOR: Final = {
    "train": "ILSVRC2012_img_train.tar, train/<WordNet id>/*.JPEG or train/<WordNet id>.tar",
    "validation": "ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*.JPEG or "
    "validation/<WordNet id>/*.JPEG (also val/)",
}
_CLASSES: Final = 16  # a unit
_VALIDATION_COUNT: Final = 50_000
_NUMBERED: Final = re.compile(r"ILSVRC2012_val_([0-9]{8})\.[A-Za-z]+")
_OTHER_SET: Final = "if it is another image set, prepare it with `dataprep folder`"


@dataclass(frozen=True, slots=True)
class ClassArchive(Archive):
    """A directory, an archive, or an archive in an archive."""

    category: str = ""  # the class all images there have; empty where names tell the labels


@dataclass(frozen=True, slots=True)
class ImageNetUnit(ScanUnit):
    """Some classes of a split, or all of it."""

    split: str  # ``train`` or ``validation``
    places: tuple[ClassArchive, ...]  # where their images are


# One split as it was found: a line for the terminal, and what to scan.
SplitLayout = tuple[str, list[ImageNetUnit]]


def find_layouts(raw: Path, splits: Iterable[str]) -> dict[str, SplitLayout]:
    """The form of each split.

    Raises:
        SourceError: one is not there, is there in two forms that contradict each other, or has
            an unknown class; images lie outside the class folders; an archive is damaged.
    """
    names = list_raw(raw, f"train/ or {_ARCHIVES['train']}")
    layouts = {split: _find(raw, split) for split in splits}
    found = {split: layout for split, layout in layouts.items() if layout}
    if lacking := [split for split in layouts if split not in found]:
        looked_for = "; ".join(f"for {split}: {_LOOKED_FOR[split]}" for split in lacking)
        there = f"--splits {','.join(found)} would take only what is there"
        raise SourceError(
            f"no {' and no '.join(lacking)} images in {printable(str(raw))}; looked {looked_for}; "
            f"found {some_of(names) if names else 'nothing'}; "
            f"{there if found else f'check --raw; {_OTHER_SET}'}"
        )
    return found


def _find(raw: Path, split: str) -> SplitLayout | None:
    """The only form of a split; None if there is none."""
    archive = _ARCHIVES[split]
    there = [entries_of(raw, name) for name in _FOLDERS[split] if (raw / name).is_dir()]
    folders = [level for level in there if level.folders or level.images or level.archives]
    forms = [archive] if (raw / archive).is_file() else []
    forms += [f"{level.path}/" for level in folders]
    if len(forms) > 1:
        what = "training" if split == "train" else split
        raise SourceError(
            f"found {' and '.join(forms)}; expected the {what} images in one form only; move what "
            "should not be read out of the raw directory"
        )
    if not forms:
        return None
    if not folders:
        return _archive_of_archives(raw) if split == "train" else _images_by_number(archive)
    (level,) = folders
    if not level.images:
        return _classes(split, level)
    if split == "train":
        raise SourceError(
            f"images outside a class folder: {some_of([*map(level.at, level.images)])}; expected "
            f"train/<WordNet id>/*.JPEG; move them into their class folder; {_OTHER_SET}"
        )
    if level.folders:
        raise SourceError(
            f"found images directly in {level.path}/ ({some_of(level.images)}) and folders "
            f"({some_of(level.folders)}); expected all validation images in one directory or all "
            "in class folders; move one of the two out of the raw directory"
        )
    return _images_by_number(level.path, "/ (one directory")


def _images_by_number(container: str, form: str = " (read in place") -> SplitLayout:
    """Validation images all in one place, whose names tell their labels."""
    unit = ImageNetUnit("validation", container, "validation", (ClassArchive(container),))
    return f"validation: {container}{form}, labels from the shipped list)", [unit]


def _classes(split: str, found: Entries) -> SplitLayout:
    """Class folders and class archives."""
    places = {f"{found.path}/{name}/": name for name in found.folders}
    places |= {found.at(name): container_stem(name) for name in found.archives}
    _require_known(places, "class folders or class archives")
    parts = [counted(len(found.folders), "class folder")] if found.folders else []
    if found.archives:
        parts.append(counted(len(found.archives), "class archive") + how_read(found.archives))
    classes = [
        ClassArchive(found.at(name), category=container_stem(name))
        for name in sorted([*found.folders, *found.archives])
    ]
    others = [entry.name for entry in found.others]
    note = f", ignoring {some_of(others)}" if others else ""
    return f"{split}: {found.path}/ ({' and '.join(parts)}){note}", _units(split, classes)


def _archive_of_archives(raw: Path) -> SplitLayout:
    outer = _ARCHIVES["train"]
    inner: dict[str, ArchiveMember] = {}
    for member in members(raw, Archive(outer)):
        name = basename(member.name)
        if name.startswith("."):  # left behind by macOS
            continue
        synset = name.removesuffix(".tar")
        place = f"{printable(member.name)} in {outer}"
        if synset == name or member.refusal:
            raise SourceError(
                f"found {place} {member.refusal}; expected class archives only, such as "
                "n01440764.tar, as published; if it is an archive of a tree, unpack it; "
                f"{_OTHER_SET}"
            )
        _require_known({place: synset}, "class archives")
        inner[synset] = member
    if not inner:
        raise SourceError(
            f"{outer} holds no class archives; expected n01440764.tar and others, as published; "
            "copy or download it again"
        )
    classes = [
        ClassArchive(outer, member.offset, member.size, f"{synset}.tar", synset)
        for synset, member in sorted(inner.items())
    ]
    found = f"{outer} ({counted(len(classes), 'class archive')}, read in place)"
    return f"train: {found}", _units("train", classes)


def _units(split: str, classes: Iterable[ClassArchive]) -> list[ImageNetUnit]:
    """Sixteen classes a unit: a thousand small files of an index take longer than most scans.

    Which they are depends on no other class, so that a new one leaves the other units as they are.
    A compressed archive is a unit of its own: a unit has one file of restart points, and one copy.
    """
    together: dict[str, list[ClassArchive]] = {}
    names = [*class_indices()]
    for place in classes:
        name = place.category
        if place.inner or not is_alone(place.container):
            first = class_indices()[name] // _CLASSES * _CLASSES
            some = names[first : first + _CLASSES]
            name = f"{some[0]}-{some[-1]}"
        together.setdefault(f"{split}-{name}", []).append(place)
    return [
        ImageNetUnit(name, places[0].container, split, tuple(places))
        for name, places in together.items()
    ]


def _require_known(places: dict[str, str], expected: str) -> None:
    """Check classes, by where each was found."""
    if unknown := [place for place, synset in places.items() if synset not in class_indices()]:
        raise SourceError(
            f"unknown class: {some_of(unknown)}; expected {expected} named by the 1000 WordNet "
            "ids of ILSVRC2012, such as n01440764; move it out of the raw directory; "
            f"{_OTHER_SET}"
        )


@cache
def class_indices() -> dict[str, int]:
    """The 0-based class index of each WordNet id: its position among the 1000 sorted ids."""
    return {synset: index for index, (synset, _) in enumerate(imagenet_classes())}


def validation_label(name: str) -> int:
    """The 0-based class index of a validation image, by the number in its name.

    So any subset of the images keeps its labels.

    Raises:
        SourceError: its name has none.
    """
    match = _NUMBERED.fullmatch(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= _VALIDATION_COUNT:
        raise SourceError(
            f"validation image {printable(name)} has no number from 1 to {_VALIDATION_COUNT} to "
            "look its label up; expected ILSVRC2012_val_00000001.JPEG to "
            f"ILSVRC2012_val_{_VALIDATION_COUNT:08d}.JPEG; rename it, or sort the images into "
            "folders named by their WordNet ids"
        )
    return class_indices()[imagenet_validation_synsets()[number - 1]]
