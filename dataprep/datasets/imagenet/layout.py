"""The forms a split of ILSVRC2012 comes in, and the labels that names tell in each of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind, container_stem
from dataprep.archives.listing import basename
from dataprep.archives.tar import Archive, ArchiveMember, members
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.raw_directory import Level, list_raw, open_level
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

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
class Place:
    """A directory, an archive, or an archive in an archive.

    Attributes:
        path: of the directory or the outermost archive, relative to the raw directory.
        category: the class all images there have; empty where names tell the labels.
        offset: where in that file the archive starts, in bytes; 0 unless it is nested.
        size: how many bytes a nested archive has; None for everything else.
        inner: the nested archive's name inside the file; empty unless it is nested.
    """

    path: str
    category: str = ""
    offset: int = 0
    size: int | None = None
    inner: str = ""


@dataclass(frozen=True, slots=True)
class ImageNetUnit(ScanUnit):
    """Some classes of a split, or all of it.

    Attributes:
        split: ``train`` or ``validation``.
        places: where their images are.
    """

    split: str
    places: tuple[Place, ...]


SplitLayout = tuple[str, list[ImageNetUnit]]
"""One split as it was found: a line for the terminal, and what to scan."""


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
    there = [open_level(raw, name) for name in _FOLDERS[split] if (raw / name).is_dir()]
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
    unit = ImageNetUnit("validation", container, "validation", (Place(container),))
    return f"validation: {container}{form}, labels from the shipped list)", [unit]


def _classes(split: str, found: Level) -> SplitLayout:
    """Class folders and class archives."""
    places = {f"{found.path}/{name}/": name for name in found.folders}
    places |= {found.at(name): container_stem(name) for name in found.archives}
    _require_known(places, "class folders or class archives")
    parts = [counted(len(found.folders), "class folder")] if found.folders else []
    if found.archives:
        parts.append(counted(len(found.archives), "class archive") + ", read in place")
    classes = [
        Place(found.at(name), container_stem(name))
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
        Place(outer, synset, member.offset, member.size, f"{synset}.tar")
        for synset, member in sorted(inner.items())
    ]
    found = f"{outer} ({counted(len(classes), 'class archive')}, read in place)"
    return f"train: {found}", _units("train", classes)


def _units(split: str, classes: Iterable[Place]) -> list[ImageNetUnit]:
    """Sixteen classes a unit: a thousand small files of an index take longer than most scans.

    Which they are depends on no other class, so that a new one leaves the other units as they are.
    A gzip archive is a unit of its own, because a unit has one file of restart points.
    """
    together: dict[str, list[Place]] = {}
    names = [*class_indices()]
    for place in classes:
        name = place.category
        if place.inner or container_kind(place.path) != "gzip":
            first = class_indices()[name] // _CLASSES * _CLASSES
            some = names[first : first + _CLASSES]
            name = f"{some[0]}-{some[-1]}"
        together.setdefault(f"{split}-{name}", []).append(place)
    return [
        ImageNetUnit(name, places[0].path, split, tuple(places))
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
