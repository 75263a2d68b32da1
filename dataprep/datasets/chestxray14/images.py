"""The forms the images of ChestX-ray14 come in: archives, folders of parts, one flat folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind
from dataprep.archives.listing import is_clutter_folder, is_image_name, refusal
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.chestxray14.lists import LABELS, likely_raw
from dataprep.datasets.raw_directory import list_raw
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import counted, printable, some_of, unreadable

EXPECTED: Final = "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/"
"""What a raw directory holds, for messages."""

# The NIH's folder has images_001.tar.gz, its download script saves images_01.tar.gz.
_PART: Final = re.compile(r"images_([0-9]{2,3})(\.tar|\.tar\.gz|\.tgz|\.zip)?")
_FLAT: Final = "images"


@dataclass(frozen=True, slots=True)
class ImageUnit(ScanUnit):
    """One archive or folder of images.

    Attributes:
        stray: what was found next to the archives and is none; reported with the first unit.
    """

    stray: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """The images as they were found: a line for the terminal, and what to scan."""

    description: str
    units: tuple[ImageUnit, ...]


@dataclass(slots=True)
class _Search:
    """What was found so far: the containers of each unit, by the unit's name."""

    containers: dict[str, list[str]] = field(default_factory=dict)
    stray: list[Ignored] = field(default_factory=list)

    def add(self, unit: str, container: str) -> None:
        self.containers.setdefault(unit, []).append(container)


def find_images(raw: Path) -> ImageLayout:
    """Find the archives or folders of images in the raw directory and in its ``images/``.

    Directories are listed; no archive is opened.

    Raises:
        SourceError: there are no images, some are there in two forms, or a directory cannot be
            read.
    """
    names = list_raw(raw, EXPECTED)
    search = _Search()
    _search(raw, "", search)
    if (raw / _FLAT).is_dir():
        _search(raw, _FLAT, search)
    _require_one_form(search.containers)
    if not search.containers:
        raise _nothing(raw, names)
    stray = tuple(search.stray)
    units = [
        ImageUnit(name, container, () if position else stray)
        for position, (name, (container,)) in enumerate(sorted(search.containers.items()))
    ]
    return ImageLayout(_describe(units), tuple(units))


def _search(raw: Path, directory: str, search: _Search) -> None:
    """Look through one directory, entering only the folders that may hold images."""
    flat = False
    for name, is_folder in _entries(raw, directory):
        path = f"{directory}/{name}" if directory else name
        part = _PART.fullmatch(name)
        if part and is_folder == (part[2] is None):
            unit = f"{_FLAT}_{int(part[1]):03d}"
            for container in _folders_of_images(raw, path) if is_folder else [path]:
                search.add(unit, container)
        elif directory and is_folder and name == _FLAT:
            if _holds_images(raw, path):
                search.add(_FLAT, path)
        elif directory and not is_folder and is_image_name(name):
            flat = True
        elif directory:
            search.stray.append(Ignored(directory, name, _reason(name, is_folder)))
    if flat:
        # Whoever lists the folder reports the rest of it.
        search.stray[:] = [entry for entry in search.stray if entry.container != directory]
        search.add(_FLAT, directory)


def _folders_of_images(raw: Path, part: str) -> list[str]:
    """Where a part's images are: in its folder, or in ``images/`` of it as in the archive."""
    return [path for path in (part, f"{part}/{_FLAT}") if _holds_images(raw, path)]


def _holds_images(raw: Path, directory: str) -> bool:
    """Whether images are directly in a directory; it is listed only up to the first."""
    try:
        if not (raw / directory).is_dir():
            return False
        with os.scandir(raw / directory) as entries:
            return any(is_image_name(entry.name) and not entry.is_dir() for entry in entries)
    except OSError as error:
        raise unreadable(directory, error) from error


def _entries(raw: Path, directory: str) -> list[tuple[str, bool]]:
    """The names in a directory, sorted, each with whether it is a folder."""
    try:
        with os.scandir(raw / directory) as entries:
            return sorted((entry.name, entry.is_dir()) for entry in entries)
    except OSError as error:
        raise unreadable(directory or str(raw), error) from error


def _reason(name: str, is_folder: bool) -> str:
    if is_folder:
        clutter = is_clutter_folder(name)
        return "hidden or system folder" if clutter else "folder, not searched for images"
    return refusal(name) if name.startswith(".") else "no archive of images"


def _require_one_form(containers: dict[str, list[str]]) -> None:
    parts = {name: found for name, found in containers.items() if name != _FLAT}
    twice = [found for _, found in sorted(containers.items()) if len(found) > 1]
    if _FLAT in containers and parts:
        twice.append([containers[_FLAT][0], min(parts.items())[1][0]])
    if twice:
        raise SourceError(
            f"found images in {' and in '.join(map(printable, twice[0]))}; expected each part of "
            "the images in one form only; move what should not be read out of the raw directory"
        )


def _describe(units: Sequence[ImageUnit]) -> str:
    folders = [unit.container for unit in units if not container_kind(unit.container)]
    archives = [unit.container for unit in units if container_kind(unit.container)]
    forms = [
        f"{counted(len(containers), noun)}, {_range(containers)}"
        for noun, containers in (("archive", archives), ("folder", folders))
        if containers
    ]
    stray = units[0].stray
    note = f", ignoring {some_of([entry.name for entry in stray])}" if stray else ""
    return f"images: {' and '.join(forms)}{note}"


def _range(containers: Sequence[str]) -> str:
    first, last = containers[0], containers[-1]
    return first if first == last else f"{first} to {last}"


def _nothing(raw: Path, names: Sequence[str]) -> SourceError:
    right = next(likely_raw(raw, LABELS), None)
    advice = (
        f"did you mean --raw_data_dir {printable(right)} ?" if right else "check --raw_data_dir"
    )
    return SourceError(
        f"no images in {printable(str(raw))}; looked for images_001.tar.gz (also .tar, .tgz and "
        f".zip), images_001/ and images/*.png, there and in images/; found "
        f"{some_of(names) if names else 'nothing'}; {advice}"
    )
