"""What directories and archives hold: images, by their names, and what was left out.

Names and paths that come from archives and lists are data until they were looked at here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dataprep.rows import Ignored, Packing, Row

_IMAGES: Final = (
    *(".jpeg", ".jpg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"),
    *(".avif", ".heic", ".heif", ".jp2", ".j2k", ".jxl", ".dcm", ".dicom", ".dic"),
)
# Images that are not read: they count for --max_bad, where leaving them out would be silent.
_UNREAD_IMAGES: Final = (*(".cr2", ".dng", ".jfif", ".jpe", ".nef", ".pbm", ".pgm", ".ppm"),)
_ALL: Final = (*_IMAGES, *_UNREAD_IMAGES)
# Left behind by macOS archivers, ext4's fsck and Synology's indexer.
_CLUTTER_FOLDERS: Final = frozenset({"__MACOSX", "lost+found", "@eaDir"})


class StoredImage(NamedTuple):
    """An image's path and where its bytes are; the other fields mean what they do in `Row`."""

    # Its name in the directory or archive, with forward slashes; data, never a path to open.
    path: str
    container: str
    offset: int
    size: int
    modified: int
    packing: Packing = ()
    container_mtime: int = 0

    @property
    def name(self) -> str:
        """The last component of the path."""
        return basename(self.path)

    def row(self, key: str, labels: tuple[int, ...], **known: Any) -> Row:
        """The image as a row of the index; `known` are further fields of `Row`."""
        _, container, offset, size, modified, packing, mtime = self
        place = (key, container, offset, size, modified)
        return Row(*place, labels, packing=packing, container_mtime=mtime, **known)


@dataclass(frozen=True, slots=True)
class Listing:
    """The images of one directory or archive, in the order they were met, and what is not one."""

    images: list[StoredImage]
    ignored: list[Ignored]
    restarts: bytes = b""  # the restart points of a gzip archive, for the index


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image, in directories and in archives."""
    return not name.startswith(".") and name.lower().endswith(_ALL)


def refusal(name: str) -> str:
    """Why a file of this name is left out; empty for an image's name.

    The TPU script takes ``*.JPEG`` only, and so ignores hidden files such as macOS's ``._x.JPEG``.
    """
    if is_image_name(name):
        return ""
    return "hidden file" if name.startswith(".") else "not an image name"


def is_clutter_folder(name: str) -> bool:
    """Whether a folder of this name belongs to the system and not to a data set."""
    return name.startswith(".") or name in _CLUTTER_FOLDERS


def in_clutter(path: str) -> bool:
    """Whether a hidden folder or one of the system's is on the way to a file."""
    return "/" in path and any(map(is_clutter_folder, folder_of(path).split("/")))


def basename(path: str) -> str:
    """The last component of a path."""
    return path.rpartition("/")[2]


def stem_of(path: str) -> str:
    """A path without the suffix of its last component, if that has one."""
    stem, dot, suffix = path.rpartition(".")
    return stem if dot and "/" not in suffix else path


def folder_of(path: str) -> str:
    """All but the last component of a path; empty if there is only one."""
    return path.rpartition("/")[0]


def clean_path(path: str) -> str:
    """A path below some root, without what says nothing: ``./a//x.jpg`` and ``/a/x.jpg`` alike.

    Raises:
        ValueError: it is empty, leads out of the root, or has a NUL character in it.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise ValueError("empty path")
    if ".." in parts:
        raise ValueError("path with .. in it, which may lead elsewhere")
    if "\0" in path:
        raise ValueError("path with a NUL character in it")
    return "/".join(parts)


def below(path: str, prefix: str) -> str:
    """What of a clean path is below another; empty if it is not. Everything is below ``""``."""
    if not prefix:
        return path
    return path[len(prefix) + 1 :] if path.startswith(f"{prefix}/") else ""
