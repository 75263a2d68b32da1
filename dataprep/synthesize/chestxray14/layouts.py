"""The ways in which ChestX-ray14 lies on disk: archives, their folders, or one folder.

A writer gets the images one at a time and keeps none of them.
"""

from __future__ import annotations

import gzip
import re
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, get_args

from dataprep.synthesize.chestxray14.labels import CSV_2017, CSV_2020
from dataprep.synthesize.chestxray14.plan import BOX_LIST, TEST_LIST, TRAIN_VAL_LIST
from dataprep.synthesize.tar_members import NamedFile, write_tar

ChestXray14Layout = Literal["tar.gz", "tar", "zip", "folders", "flat"]
CHESTXRAY14_LAYOUTS: tuple[ChestXray14Layout, ...] = get_args(ChestXray14Layout)

FOLDER = "images"  # of the images, in the archives as on disk
_IMAGES = re.compile(r"images(_[0-9]+(\.tar\.gz|\.tgz|\.tar|\.zip)?)?", re.ASCII)
_DOCUMENTS = frozenset((CSV_2017, CSV_2020, TRAIN_VAL_LIST, TEST_LIST, BOX_LIST))
_ZIP_DATE = (2017, 12, 1, 0, 0, 0)  # any constant keeps the archives equal from run to run
_LEVEL = 1  # PNGs are compressed already


def is_chestxray14_name(name: str) -> bool:
    """Whether ChestX-ray14 has such a file or folder at its top, in any layout."""
    return name in _DOCUMENTS or _IMAGES.fullmatch(name) is not None


def final_name(layout: ChestXray14Layout, archive: int) -> str:
    """What the archive of that number, counted from 1, is called at the top."""
    if layout == "flat":
        return FOLDER
    suffix = "" if layout == "folders" else f".{layout}"
    return f"images_{archive:03d}{suffix}"


def write_archive(
    directory: Path, layout: ChestXray14Layout, archive: int, files: Iterable[NamedFile]
) -> None:
    """Write the images of one archive.

    Args:
        directory: where to.
        layout: as what.
        archive: its number, from 1.
        files: base names and contents.
    """
    path = directory / final_name(layout, archive)
    if layout in ("folders", "flat"):
        _write_folder(path if layout == "flat" else path / FOLDER, files)
    else:
        _WRITERS[layout](path, ((f"{FOLDER}/{name}", content) for name, content in files))


def _write_folder(folder: Path, files: Iterable[NamedFile]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files:
        (folder / name).write_bytes(content)


def _write_tar(path: Path, files: Iterable[NamedFile]) -> None:
    with path.open("wb") as stream:
        write_tar(stream, files)


def _write_tar_gz(path: Path, files: Iterable[NamedFile]) -> None:
    # Without name and time of day, for equal bytes.
    with (
        path.open("wb") as stream,
        gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as compressed,
    ):
        write_tar(compressed, files)


def _write_zip(path: Path, files: Iterable[NamedFile]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files:
            member = zipfile.ZipInfo(name, _ZIP_DATE)
            member.external_attr = 0o100644 << 16
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, _LEVEL)


_WRITERS: dict[str, Callable[[Path, Iterable[NamedFile]], None]] = {
    "tar.gz": _write_tar_gz,
    "tar": _write_tar,
    "zip": _write_zip,
}
