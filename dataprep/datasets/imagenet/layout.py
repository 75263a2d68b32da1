"""The forms a split of ILSVRC2012 comes in: archives, class folders, and what lies between."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.names import is_clutter_folder, refusal
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.imagenet.labels import class_indices
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import printable, some_of, unreadable

TRAIN_ARCHIVE: Final = "ILSVRC2012_img_train.tar"
VALIDATION_ARCHIVE: Final = "ILSVRC2012_img_val.tar"
TRAIN_FOLDER: Final = "train"
VALIDATION_FOLDERS: Final = ("validation", "val")


@dataclass(frozen=True, slots=True)
class ImageNetUnit(ScanUnit):
    """A directory, an archive, or an archive in an archive, of one split.

    Attributes:
        split: ``train`` or ``validation``.
        kind: whether `container` is a directory of images or a tar archive.
        offset: where in the container the archive starts, in bytes; 0 unless it is nested.
        size: how many bytes a nested archive has; None for everything else.
        inner: the nested archive's name inside the container; empty unless it is nested.
        category: the class all images of the unit have; empty when labels come from a list.
        labels: the list of labels, relative to the raw directory; empty for the shipped list.
        stray: what lay next to the unit and belongs to none; reported when this unit is scanned.
    """

    split: str
    kind: Literal["folder", "archive"]
    offset: int = 0
    size: int | None = None
    inner: str = ""
    category: str = ""
    labels: str = ""
    stray: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitLayout:
    """One split as it was found: a line for the terminal, and what to scan."""

    description: str
    units: tuple[ImageNetUnit, ...]


@dataclass(frozen=True, slots=True)
class SplitFolder:
    """A split's directory: its entries by kind, sorted by name.

    Attributes:
        path: the directory, relative to the raw directory.
        folders: names of its folders.
        files: names of its other entries.
        stray: hidden and system entries, which belong to no data set.
    """

    path: str
    folders: list[str]
    files: list[str]
    stray: list[Ignored]


def is_archive(raw: Path, name: str) -> bool:
    """Whether the raw directory holds this archive.

    Raises:
        SourceError: it is a symbolic link that leads nowhere, or cannot be looked at.
    """
    path = raw / name
    try:
        if not path.is_symlink() or path.exists():
            return path.is_file()
        target = printable(str(path.readlink()))
    except OSError as error:
        raise unreadable(name, error) from error
    raise SourceError(
        f"{name} is a symbolic link to {target}, which does not exist; restore the archive or "
        "remove the link"
    )


def open_folder(raw: Path, name: str) -> SplitFolder | None:
    """List a split's directory; None if it does not exist or holds nothing of interest.

    Raises:
        SourceError: it cannot be read.
    """
    found = SplitFolder(name, [], [], [])
    try:
        if not (raw / name).is_dir():
            return None
        with os.scandir(raw / name) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                _sort_in(entry, found)
    except OSError as error:
        raise unreadable(name, error) from error
    return found if found.folders or found.files else None


def contradiction(split: str, forms: Iterable[str]) -> SourceError:
    """The error for a split that is there more than once."""
    return SourceError(
        f"found {' and '.join(forms)}; expected the {split} images in one form only; move what "
        "should not be read out of the raw directory"
    )


def require_known(places: Iterable[tuple[str, str]], expected: str) -> None:
    """Check that classes are among the 1000 of ILSVRC2012.

    Args:
        places: each class and where it was found.
        expected: what the places should have been.

    Raises:
        SourceError: some are unknown; it names where they are.
    """
    unknown = [place for synset, place in places if synset not in class_indices()]
    if unknown:
        raise SourceError(
            f"unknown class: {some_of(unknown)}; expected {expected} named by the 1000 WordNet "
            "ids of ILSVRC2012, such as n01440764; move it out of the raw directory"
        )


def folder_units(split: str, found: SplitFolder, labels: str = "") -> list[ImageNetUnit]:
    """One unit a class folder."""
    return [
        ImageNetUnit(
            split=split,
            name=f"{split}-{synset}",
            kind="folder",
            container=f"{found.path}/{synset}",
            category=synset,
            labels=labels,
        )
        for synset in found.folders
    ]


def split_layout(
    split: str, form: str, units: Iterable[ImageNetUnit], stray: Sequence[Ignored]
) -> SplitLayout:
    """Put a split together; what is stray is reported with its first unit.

    Args:
        split: its name.
        form: what was found, for the terminal.
        units: what to scan, at least one unit.
        stray: what was found and will not be scanned.
    """
    first, *others = sorted(units, key=lambda unit: unit.name)
    note = f", ignoring {some_of([entry.name for entry in stray])}" if stray else ""
    return SplitLayout(f"{split}: {form}{note}", (replace(first, stray=tuple(stray)), *others))


def _sort_in(entry: os.DirEntry[str], found: SplitFolder) -> None:
    if entry.is_dir():
        if is_clutter_folder(entry.name):
            found.stray.append(Ignored(found.path, entry.name, "hidden or system folder"))
        else:
            found.folders.append(entry.name)
    elif entry.name.startswith("."):
        found.stray.append(Ignored(found.path, entry.name, refusal(entry.name)))
    elif not entry.is_file() and not entry.is_symlink():  # opening a named pipe would block
        found.stray.append(Ignored(found.path, entry.name, "not a regular file"))
    else:
        found.files.append(entry.name)
