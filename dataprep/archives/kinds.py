"""What images lie in: directories, and archives that are read in place."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.archives import list_archive, list_gzip, list_zip
from dataprep.archives.descriptors import read_some
from dataprep.archives.folders import list_folder
from dataprep.archives.listing import Listing
from dataprep.archives.tars import Archive
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable

Kind = Literal["tar", "gzip", "zip"]

SUPPORTED: Final = "a folder, .tar, .tar.gz, .tgz or .zip"
"""What images may lie in, for messages."""

_SUFFIXES: Final[dict[str, Kind]] = {
    ".tar": "tar",
    ".tar.gz": "gzip",
    ".tgz": "gzip",
    ".zip": "zip",
}
_STARTS: Final[dict[bytes, Kind]] = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",  # without members
}
_TAR_MAGIC: Final = (257, b"ustar")


def container_kind(name: str) -> Kind | None:
    """Which archive a file of this name should be; None for any other file."""
    name = name.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)), None)


def list_container(
    raw: Path, container: str, *, deep: bool = False, restarts_name: str = ""
) -> Listing:
    """List the images in a directory or archive; nothing is unpacked to disk.

    What an archive is, its content says; its name only counts where the content does not tell.

    Args:
        raw: the raw directory.
        container: the directory or archive, relative to `raw`.
        deep: whether a directory's sub-directories are searched as well.
        restarts_name: under which name `Listing.restarts` will be kept in the index. The images of
            a gzip archive refer to it.

    Raises:
        SourceError: it is unreadable, damaged, truncated, or no directory or archive; or it is a
            gzip archive by its content only, and there is no `restarts_name`.
        ValueError: it is a gzip archive by its name too, and there is no `restarts_name`.
    """
    kind = _kind(raw, container)
    if kind == "folder":
        return list_folder(raw, container, deep=deep)
    if kind == "tar":
        return list_archive(raw, Archive(container))
    if kind == "zip":
        return list_zip(raw, container)
    if not restarts_name and container_kind(container) != "gzip":
        raise SourceError(
            f"{printable(container)} is compressed with gzip, which its name does not say; "
            "expected a name that ends in .tar.gz or .tgz; rename it"
        )
    if not restarts_name:
        raise ValueError(f"{container} is a gzip archive: restarts_name is needed")
    return list_gzip(raw, container, restarts_name)


def witness(raw: Path, container: str) -> list[int]:
    """Size and modification time in nanoseconds of a file or directory; for fingerprints.

    Raises:
        SourceError: it is gone or unreadable.
    """
    try:
        status = (raw / container).stat()
    except OSError as error:
        raise unreadable(container, error) from error
    return [status.st_size, status.st_mtime_ns]


def _kind(raw: Path, container: str) -> Kind | Literal["folder"]:
    try:
        mode = (raw / container).stat().st_mode
        if stat.S_ISDIR(mode):
            return "folder"
        if not stat.S_ISREG(mode):
            raise _unsupported(container, "not a regular file")
        with open(raw / container, "rb", buffering=0) as file:
            start = read_some(file.fileno(), 0, 512)
    except OSError as error:
        raise unreadable(container, error) from error
    kind = next((kind for magic, kind in _STARTS.items() if start.startswith(magic)), None)
    place, magic = _TAR_MAGIC
    if kind is None and start[place:].startswith(magic):
        kind = "tar"
    named = container_kind(container)
    if kind is None and named == "gzip":
        raise _unsupported(container, "not compressed with gzip, as its name says")
    if (kind := kind or named) is None:
        raise _unsupported(container, "no archive that can be read in place")
    return kind


def _unsupported(container: str, finding: str) -> SourceError:
    return SourceError(
        f"{printable(container)} is {finding}; expected {SUPPORTED}; pack its images again as one "
        "of these, or move it away"
    )
