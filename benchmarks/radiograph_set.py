"""Makes sets of radiographs of the real size, in every layout, from one drawing of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Usage, run
from benchmarks.setting import Setting
from dataprep.synthesize.chestxray14 import (
    ChestXray14Layout,
    synthesize_chestxray14,
    write_archive,
)
from dataprep.synthesize.files import NamedFile

LAYOUTS: tuple[ChestXray14Layout, ...] = ("folders", "tar", "tar.gz", "zip")

_PIXELS = 1024  # a side, as the published images have; about 430 KB each
_QUICK_PIXELS = 256
_ARCHIVES = 4  # more than there are cores, as the published 12 are
_CHUNK = 1 << 20


def radiographs(setting: Setting, patients: int, layout: ChestXray14Layout) -> Path:
    """A raw directory with the images of so many patients, 3.6 of each in the mean.

    What an earlier benchmark made is used again. All of it is in the page cache afterwards.
    """
    directory = setting.work / f"radiographs-{patients}-{layout}"
    if not directory.exists():
        if layout == "folders":
            _draw(setting, directory, patients)
        else:
            _pack(radiographs(setting, patients, "folders"), directory, layout)
        os.sync()
    _warm(directory)
    return directory


def count(folders: Path) -> int:
    """How many images a set has, of which these are the folders."""
    return len(images(folders))


def images(folders: Path) -> list[Path]:
    """The images of a set in folders, sorted."""
    return sorted(folders.glob("images_*/images/*.png"))


def unpack(archives: Path, directory: Path) -> Usage:
    """Unpack the .tar.gz archives as users do, one after another, and flush them to disk.

    Args:
        archives: the raw directory.
        directory: where to; it is there.
    """
    script = 'for archive in "$0"/*.tar.gz; do tar -xzf "$archive" -C "$1"; done'
    return run(["sh", "-ec", script, archives, directory], flush=True)


def _draw(setting: Setting, directory: Path, patients: int) -> None:
    setting.say(f"drawing the radiographs of {patients} patients")
    size = setting.size(_PIXELS, _QUICK_PIXELS)
    synthesize_chestxray14(
        directory, patients=patients, archives=_ARCHIVES, layout="folders", size=size
    )


def _pack(folders: Path, directory: Path, layout: ChestXray14Layout) -> None:
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for document in folders.iterdir():
        if document.is_file():
            shutil.copyfile(document, partial / document.name)
    for number, folder in enumerate(sorted(folders.glob("images_*")), 1):
        write_archive(partial, layout, number, _contents(folder))
    partial.replace(directory)


def _contents(folder: Path) -> Iterator[NamedFile]:
    for path in sorted(folder.glob("images/*.png")):
        yield path.name, path.read_bytes()


def _warm(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(_CHUNK):
                    pass
