"""The forms the images of ChestX-ray14 come in: archives, folders of parts, one flat folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind, container_stem
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.raw_directory import list_raw, open_level
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of

_EXPECTED: Final = "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/"
# The NIH's folder has images_001.tar.gz, its download script saves images_01.tar.gz.
_PART: Final = re.compile(r"images_([0-9]{2,3})")
_FLAT: Final = "images"


def find_images(raw: Path) -> tuple[str, tuple[ScanUnit, ...]]:
    """Find the archives or folders of images in the raw directory and in its ``images/``.

    Directories are listed; no archive is opened.

    Returns:
        A line for the terminal, and what to scan.

    Raises:
        SourceError: there are no images, some are there in two forms, or a directory cannot be
            read.
    """
    names = list_raw(raw, _EXPECTED)
    found: dict[str, str] = {}
    for unit, container in _containers(raw):
        other = found.setdefault(unit, container)
        if other != container or (unit != _FLAT and _FLAT in found):
            raise SourceError(
                f"found images in {printable(found.get(_FLAT, other))} and in "
                f"{printable(container)}; expected each part of the images in one form only; move "
                "what should not be read out of the raw directory"
            )
    if not found:
        raise SourceError(
            f"no images in {printable(str(raw))}; looked for images_001.tar.gz (also .tar, .tgz "
            "and .zip), images_001/ and images/*.png, there and in images/; found "
            f"{some_of(names) if names else 'nothing'}; check --raw"
        )
    units = tuple(ScanUnit(unit, container) for unit, container in found.items())
    return f"images: {_describe(list(found.values()))}", units


def _containers(raw: Path) -> list[tuple[str, str]]:
    """The name of a unit and its archive or folder; a part that is there twice is so here, too."""
    found: list[tuple[str, str]] = []
    levels = [open_level(raw, "")]
    for level in levels:
        for name in level.archives:
            if part := _PART.fullmatch(container_stem(name)):
                found.append((f"{_FLAT}_{int(part[1]):03d}", level.at(name)))
        for name in level.folders:
            part = _PART.fullmatch(name)
            if not (part or name == _FLAT):
                continue
            inner = open_level(raw, level.at(name))
            places = [inner]
            if part and _FLAT in inner.folders:  # as in the archive
                places.append(open_level(raw, inner.at(_FLAT)))
            elif level is levels[0] and not part:
                levels.append(inner)
            unit = f"{_FLAT}_{int(part[1]):03d}" if part else _FLAT
            found += [(unit, place.path) for place in places if place.images]
    return sorted(found)


def _describe(containers: Sequence[str]) -> str:
    folders = [container for container in containers if not container_kind(container)]
    archives = [container for container in containers if container_kind(container)]
    return " and ".join(
        f"{counted(len(each), noun)}, {' to '.join(dict.fromkeys((each[0], each[-1])))}"
        for noun, each in (("archive", archives), ("folder", folders))
        if each
    )
