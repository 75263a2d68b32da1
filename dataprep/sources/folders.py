"""Lists a directory of images: one pass over the directory, one stat a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.sources.listing import Listing, StoredImage
from dataprep.sources.names import refusal
from dataprep.wording import printable, unreadable


def list_folder(raw: Path, folder: str) -> Listing:
    """List the images directly in a directory, in no particular order.

    Symbolic links are the user's own arrangement of the tree and are followed. Sub-directories
    are not entered: the data set has none.

    Args:
        raw: the raw directory.
        folder: the directory, relative to `raw`.

    Raises:
        SourceError: the directory or a file in it cannot be read, or a link leads nowhere.
    """
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    try:
        # Files are looked up in directory order: parallel file systems prefetch in that order.
        with os.scandir(raw / folder) as entries:
            for entry in entries:
                reason = _refusal(entry) or _take(entry, folder, images)
                if reason:
                    ignored.append(Ignored(folder, entry.name, reason))
    except OSError as error:
        raise unreadable(folder, error) from error
    if not images and not ignored:
        ignored.append(Ignored(folder, "", "empty folder"))
    return Listing(images, ignored)


def _refusal(entry: os.DirEntry[str]) -> str:
    # The directory listing says what is a directory, without asking for the file's status.
    if entry.is_dir(follow_symlinks=False):
        return "folder, not searched for images"
    return refusal(entry.name)


def _take(entry: os.DirEntry[str], folder: str, images: list[StoredImage]) -> str:
    container = f"{folder}/{entry.name}"
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
    images.append(StoredImage(entry.name, container, 0, status.st_size, int(status.st_mtime)))
    return ""
