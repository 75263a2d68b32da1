"""The forms the images of ChestX-ray14 come in: archives, folders of parts, one flat folder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind
from dataprep.archives.listing import is_image_name
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.raw_directory import list_entries, list_raw
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of, unreadable

_EXPECTED: Final = "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/"
# The NIH's folder has images_001.tar.gz, its download script saves images_01.tar.gz.
_PART: Final = re.compile(r"images_([0-9]{2,3})(\.tar|\.tar\.gz|\.tgz|\.zip)?")
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
    flat = (_FLAT, f"{_FLAT}/{_FLAT}")
    found = [(_FLAT, place) for place in flat if _holds_images(raw, place)]
    for directory in ("", _FLAT):
        if not (raw / directory).is_dir():
            continue
        for name, is_folder, _ in list_entries(raw, directory):
            part = _PART.fullmatch(name)
            if part is None or is_folder == bool(part[2]):
                continue
            path = f"{directory}/{name}".lstrip("/")
            # In the folder of a part, or in images/ of it as in the archive.
            places = (path, f"{path}/{_FLAT}") if is_folder else (path,)
            unit = f"{_FLAT}_{int(part[1]):03d}"
            found += [(unit, place) for place in places if part[2] or _holds_images(raw, place)]
    return sorted(found)


def _holds_images(raw: Path, directory: str) -> bool:
    """Whether images are directly in a directory; it is listed only up to the first."""
    try:
        if not (raw / directory).is_dir():
            return False
        with os.scandir(raw / directory) as entries:
            return any(is_image_name(entry.name) and not entry.is_dir() for entry in entries)
    except OSError as error:
        raise unreadable(directory, error) from error


def _describe(containers: Sequence[str]) -> str:
    folders = [container for container in containers if not container_kind(container)]
    archives = [container for container in containers if container_kind(container)]
    return " and ".join(
        f"{counted(len(each), noun)}, {' to '.join(dict.fromkeys((each[0], each[-1])))}"
        for noun, each in (("archive", archives), ("folder", folders))
        if each
    )
