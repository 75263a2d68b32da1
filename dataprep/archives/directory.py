"""Lists a directory of images, with or without those below, and tells whether it has changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from dataprep.archives.listing import (
    Listing,
    StoredImage,
    is_clutter_folder,
    is_image_name,
    refusal,
)
from dataprep.rows import Ignored
from dataprep.system.messages import unreadable

_Identity = tuple[int, int]
"""Device and inode: the same for a directory and all links to it."""


def list_folder(
    raw: Path, folder: str, *, deep: bool = False, gone: list[str] | None = None
) -> Listing:
    """List the images in a directory.

    Symbolic links are the user's own arrangement of the tree and are followed, except those that
    lead back to a directory they are in.

    Args:
        raw: the raw directory.
        folder: the directory, relative to `raw`; empty for `raw` itself.
        deep: whether its sub-directories are searched as well, but for hidden and system ones;
            then images are sorted by path. Otherwise they are in no particular order.

    Raises:
        SourceError: a directory or a file in it cannot be read, or a link leads nowhere.
    """
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    # Files are looked up in directory order: parallel file systems prefetch in that order.
    for place, entry, reason in _walk(raw, folder, deep=deep):
        if entry is not None:
            path = "/".join(filter(None, (place[len(folder) :].lstrip("/"), entry.name)))
            lost = not reason and entry.is_symlink() and not Path(entry).exists()
            if lost and gone is not None:
                gone.append(f"{place}/{entry.name}")
            elif reason := reason or _take(entry, place, path, images):
                ignored.append(Ignored(folder, path, reason))
    if deep:
        images.sort(key=lambda image: image.path)
        ignored.sort(key=lambda entry: entry.name)
    if not images and not ignored:
        ignored.append(Ignored(folder, "", "empty class folder"))
    return Listing(images, ignored)


def folder_fingerprint(raw: Path, folder: str) -> str:
    """A hash of the name, size and modification time of every directory that is searched.

    An image that is added, removed or renamed anywhere below is noticed. It costs one listing and
    one stat a directory; no file's status is asked for.

    Raises:
        SourceError: one of the directories is gone or cannot be read.
    """
    seen = []
    for place, entry, _ in _walk(raw, folder, deep=True):
        if entry is not None:
            continue
        try:
            status = (raw / place).stat()
        except OSError as error:
            raise unreadable(place, error) from error
        seen.append(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0")
    return hashlib.sha256("".join(sorted(seen)).encode("utf-8", "surrogateescape")).hexdigest()


def _walk(
    raw: Path, folder: str, *, deep: bool
) -> Iterator[tuple[str, os.DirEntry[str] | None, str]]:
    """Each directory that is searched, then its other entries and why they are no images."""
    waiting: list[tuple[str, tuple[_Identity, ...]]] = [(folder, ())]
    while waiting:
        place, above = waiting.pop()
        yield place, None, ""
        try:
            if deep:
                above = (*above, _identity((raw / place).stat()))
            with os.scandir(raw / place) as entries:
                for entry in entries:
                    # Asked of the listing alone, but for links that are not named like images.
                    follow = deep and entry.is_symlink() and not is_image_name(entry.name)
                    if not entry.is_dir(follow_symlinks=follow):
                        yield place, entry, refusal(entry.name)
                    elif not deep:
                        yield place, entry, "folder, not searched for images"
                    elif is_clutter_folder(entry.name):
                        yield place, entry, "hidden or system folder, not searched for images"
                    elif follow and _identity(entry.stat()) in above:
                        yield place, entry, "symbolic link to a folder that it is in"
                    else:
                        waiting.append((f"{place}/{entry.name}" if place else entry.name, above))
        except OSError as error:
            raise unreadable(place, error) from error


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino


def _take(entry: os.DirEntry[str], folder: str, path: str, images: list[StoredImage]) -> str:
    """Add a file to the images; says why not if it is no regular one."""
    container = f"{folder}/{entry.name}" if folder else entry.name
    try:
        status = entry.stat()
    except OSError as error:
        raise unreadable(container, error) from error
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    place = (container, 0, status.st_size, int(status.st_mtime))
    images.append(StoredImage(path, *place, container_mtime=status.st_mtime_ns))
    return ""
