"""Tells whether a class folder is as it was: from its directories alone, however many images."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from dataprep.archives.names import is_clutter_folder, is_image_name
from dataprep.system.messages import unreadable

_Identity = tuple[int, int]
"""Device and inode: the same for a directory and all links to it."""


def witness_folder(raw: Path, folder: str) -> str:
    """A hash of the name, size and modification time of every directory that is searched.

    These are the directories that `dataprep.archives.folders.list_folder` lists, so an
    image that is added, removed or renamed anywhere below is noticed. It costs one listing and one
    stat a directory. No file's status is asked for: the listing says what is a directory. Of a
    symbolic link it does not say so; one that is named like an image is taken for one.

    Args:
        raw: the raw directory.
        folder: a directory, relative to `raw`.

    Raises:
        SourceError: one of the directories is gone or cannot be read.
    """
    digest = hashlib.sha256()
    waiting: list[tuple[str, tuple[_Identity, ...]]] = [(folder, ())]
    while waiting:
        place, above = waiting.pop()
        try:
            status = (raw / place).stat()
            above = (*above, (status.st_dev, status.st_ino))
            below = _directories_in(raw / place, above)
        except OSError as error:
            raise unreadable(place, error) from error
        seen = f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0"
        digest.update(seen.encode("utf-8", "surrogateescape"))
        waiting += [(f"{place}/{name}", above) for name in below]
    return digest.hexdigest()


def _directories_in(directory: Path, above: tuple[_Identity, ...]) -> list[str]:
    """The names of the directories that are searched as well, sorted."""
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries if _is_searched(entry, above))


def _is_searched(entry: os.DirEntry[str], above: tuple[_Identity, ...]) -> bool:
    if entry.is_dir(follow_symlinks=False):
        return not is_clutter_folder(entry.name)
    if not entry.is_symlink() or is_image_name(entry.name) or is_clutter_folder(entry.name):
        return False
    if not entry.is_dir():
        return False
    status = entry.stat()
    return (status.st_dev, status.st_ino) not in above  # a link to where it is in has no end
