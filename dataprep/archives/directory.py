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
    for place, files, left_out in _search(raw, folder, deep=deep):
        above = _joined(place[len(folder) :].lstrip("/"), "")
        ignored += [Ignored(folder, above + name, reason) for name, reason in left_out]
        # Files are looked up in directory order: parallel file systems prefetch in that order.
        for entry in files:
            container = _joined(place, entry.name)
            try:
                status = entry.stat()
            except OSError as error:
                raise unreadable(container, error) from error
            if stat.S_ISREG(status.st_mode):
                size, modified = status.st_size, status.st_mtime_ns
                seconds = int(status.st_mtime)
                image = StoredImage(above + entry.name, container, 0, size, seconds, (), modified)
                images.append(image)
            else:
                ignored.append(Ignored(folder, above + entry.name, "not a regular file"))
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
    for place, *_ in _search(raw, folder, deep=True):
        try:
            status = (raw / place).stat()
        except OSError as error:
            raise unreadable(place, error) from error
        seen.append(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0")
    return hashlib.sha256("".join(sorted(seen)).encode("utf-8", "surrogateescape")).hexdigest()


def _search(
    raw: Path, folder: str, *, deep: bool
) -> Iterator[tuple[str, list[os.DirEntry[str]], list[tuple[str, str]]]]:
    """Each directory that is searched: its path, files named like images, and why not the rest."""
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        files, left_out = [], []
        try:
            with os.scandir(raw / place) as entries:
                for entry in entries:
                    # Asked of the listing alone, but for links that are not named like images.
                    follow = deep and entry.is_symlink() and not is_image_name(entry.name)
                    if not entry.is_dir(follow_symlinks=follow):
                        reason = refusal(entry.name)
                        files += [] if reason else [entry]
                    elif not deep:
                        reason = "folder, not searched for images"
                    elif is_clutter_folder(entry.name):
                        reason = "hidden or system folder, not searched for images"
                    elif follow and _leads_back(entry, raw / place):
                        reason = "symbolic link to a folder that it is in"
                    else:
                        reason = ""
                        waiting.append(_joined(place, entry.name))
                    left_out += [(entry.name, reason)] if reason else []
        except OSError as error:
            raise unreadable(place, error) from error
        yield place, files, left_out


def _leads_back(link: os.DirEntry[str], place: Path) -> bool:
    """Whether a link is to a directory on the way to the one that it is in."""
    above = (place, *place.absolute().parents)
    return any(os.path.samestat(link.stat(), each.stat()) for each in above)


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
