"""Lists a directory of images, with or without those below: one stat a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dataprep.archives.listing import Listing, StoredImage
from dataprep.archives.names import is_clutter_folder, refusal
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import printable, unreadable

_Identity = tuple[int, int]
"""Device and inode: the same for a directory and all links to it."""


def list_folder(raw: Path, folder: str, *, deep: bool = False) -> Listing:
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
    waiting: list[tuple[str, tuple[_Identity, ...]]] = [("", ())]
    while waiting:
        inside, above = waiting.pop()
        place = "/".join(filter(None, (folder, inside)))
        try:
            above = (*above, _identity(raw / place)) if deep else above
            # Files are looked up in directory order: parallel file systems prefetch in that order.
            with os.scandir(raw / place) as entries:
                for entry in entries:
                    path = f"{inside}/{entry.name}" if inside else entry.name
                    # The directory listing says what is a directory, without asking for its status.
                    if not entry.is_dir(follow_symlinks=deep):
                        reason = refusal(entry.name) or _take(entry, place, path, images)
                    elif reason := _closed(entry, above, deep):
                        pass
                    else:
                        waiting.append((path, above))
                    if reason:
                        ignored.append(Ignored(folder, path, reason))
        except OSError as error:
            raise unreadable(place, error) from error
    if deep:
        images.sort(key=lambda image: image.path)
        ignored.sort(key=lambda entry: entry.name)
    if not images and not ignored:
        ignored.append(Ignored(folder, "", "empty folder"))
    return Listing(images, ignored)


def _identity(directory: Path | os.DirEntry[str]) -> _Identity:
    status = directory.stat()
    return status.st_dev, status.st_ino


def _closed(entry: os.DirEntry[str], above: tuple[_Identity, ...], deep: bool) -> str:
    """Why a directory is not searched; empty if it is."""
    if not deep:
        return "folder, not searched for images"
    if is_clutter_folder(entry.name):
        return "hidden or system folder, not searched for images"
    if entry.is_symlink() and _identity(entry) in above:
        return "symbolic link to a folder that it is in"
    return ""


def _take(entry: os.DirEntry[str], folder: str, path: str, images: list[StoredImage]) -> str:
    container = f"{folder}/{entry.name}" if folder else entry.name
    try:
        status = entry.stat()
    except OSError as error:
        if entry.is_symlink():
            target = printable(str(Path(entry).readlink()))
            raise SourceError(
                f"{printable(container)} is a symbolic link to {target}, which cannot be read "
                f"({error.strerror}); restore the file or remove the link"
            ) from error
        raise unreadable(container, error) from error
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    place = (container, 0, status.st_size, int(status.st_mtime))
    images.append(StoredImage(path, *place, container_mtime=status.st_mtime_ns))
    return ""
