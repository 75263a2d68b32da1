"""Lists the images of an archive: of a tar, a tar compressed with gzip, or a zip."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from dataprep.archives.forward import ForwardStream
from dataprep.archives.gzip_points import find_restarts, spacing_for
from dataprep.archives.inflating import unpack
from dataprep.archives.listing import Listing, StoredImage
from dataprep.archives.names import refusal
from dataprep.archives.relative_paths import clean_path, in_clutter
from dataprep.archives.tars import Archive, Member, members, walk
from dataprep.archives.zips import zip_members
from dataprep.errors import SourceError
from dataprep.index import Ignored, Packing
from dataprep.system.messages import printable, unreadable


def basename(member_name: str) -> str:
    """The last component of a member's name."""
    return member_name.rpartition("/")[2]


def list_archive(raw: Path, archive: Archive) -> Listing:
    """List the images of a tar archive, in archive order; nothing is unpacked.

    Member names are data: ``./`` and ``/`` at their start mean nothing, and those with ``..`` are
    left out. So are links, devices and sparse files, and say why.

    Args:
        raw: the raw directory.
        archive: the archive under it.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated.
    """
    return _listing(members(raw, archive), archive, _mtime(raw, archive.container))


def list_zip(raw: Path, container: str) -> Listing:
    """List the images of a zip archive, as `list_archive` does.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated.
    """
    return _listing(zip_members(raw, container), Archive(container), _mtime(raw, container))


def list_gzip(raw: Path, container: str, restarts_name: str) -> Listing:
    """List the images of a tar archive compressed with gzip, as `list_archive` does.

    The archive is unpacked twice, in memory and piece by piece: to list and check it, and to find
    the points where unpacking can start later.

    Args:
        raw: the raw directory.
        container: the archive under it.
        restarts_name: the name under which `Listing.restarts` will be in the index.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated, or something follows it.
    """
    archive = Archive(container)
    try:
        with open(raw / container, "rb", buffering=0) as file:
            stream = ForwardStream(_checked(file.fileno(), container))
            found = walk(stream, archive)
            mtime = os.fstat(file.fileno()).st_mtime_ns
            listing = _listing(found, archive, mtime, ("gzip", restarts_name))
            unpacked = stream.produced
            spacing = spacing_for(unpacked, len(listing.images))
            restarts = find_restarts(file.fileno(), container, unpacked, spacing=spacing)
    except OSError as error:
        raise unreadable(container, error) from error
    return Listing(listing.images, listing.ignored, restarts)


def _mtime(raw: Path, container: str) -> int:
    try:
        return (raw / container).stat().st_mtime_ns
    except OSError as error:
        raise unreadable(container, error) from error


def _listing(
    found: Iterable[Member], archive: Archive, mtime: int, packing: Packing = ()
) -> Listing:
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    container = archive.container
    prefix = f"{archive.inner}/" if archive.inner else ""
    for member in found:
        path, reason = _path_of(member.name)
        reason = member.refusal or reason
        if reason:
            ignored.append(Ignored(container, prefix + member.name, reason))
        else:
            place = (container, member.offset, member.size, member.modified)
            images.append(StoredImage(path, *place, packing or member.packing, mtime))
    if not images and not ignored:
        ignored.append(Ignored(container, archive.inner, "empty archive"))
    return Listing(images, ignored)


def _path_of(member_name: str) -> tuple[str, str]:
    """The path of a member, and why it is left out; that is empty for an image."""
    if ".." in member_name.split("/"):
        return "", "its name leads out of the archive"
    try:
        path = clean_path(member_name)
    except ValueError as error:
        return "", str(error)
    if in_clutter(path):
        return path, "in a hidden or system folder"
    return path, refusal(basename(path))


def _checked(descriptor: int, container: str) -> Iterator[bytes]:
    """What a gzip file unpacks to."""
    try:
        yield from unpack(descriptor)
    except EOFError as error:
        size = os.fstat(descriptor).st_size
        raise SourceError(
            f"{printable(container)} is truncated: its compressed data do not end with the file at "
            f"byte {size}; copy or download it again"
        ) from error
    except zlib.error as error:
        raise SourceError(
            f"{printable(container)} is damaged: {printable(str(error))}; copy or download it again"
        ) from error
