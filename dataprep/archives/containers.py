"""Lists what images lie in: directories, with or without those below, and archives, in place."""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from gzip import BadGzipFile
from pathlib import Path
from typing import Final, Literal

from dataprep.archives import listing
from dataprep.archives.listing import Listing, StoredImage
from dataprep.archives.open_files import ForwardStream, open_container
from dataprep.archives.packed import Codec, Copy, Unpacked, UnpackError
from dataprep.archives.tar import AGAIN, Archive, ArchiveMember, members, walk
from dataprep.archives.zip import zip_members
from dataprep.errors import SourceError
from dataprep.rows import Ignored, Packing
from dataprep.system.filesystems import walk as walk_folders
from dataprep.system.messages import printable, unreadable

Kind = Literal["tar", "gzip", "zip", "zstd", "xz"]

_SUFFIXES: Final[dict[str, Kind]] = {
    ".tar": "tar",
    ".tar.gz": "gzip",
    ".tgz": "gzip",
    ".zip": "zip",
    ".tar.zst": "zstd",
    ".tzst": "zstd",
    ".tar.xz": "xz",
    ".txz": "xz",
}


def container_kind(name: str) -> Kind | None:
    """Which archive a file of this name should be; None for any other file."""
    return _SUFFIXES.get(name[len(container_stem(name)) :].lower())


def container_stem(name: str) -> str:
    """The name of an archive without its suffix; any other name as it is."""
    suffix = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


def codec_of(name: str) -> Codec | None:
    """By what an archive is compressed that cannot be read in place; None for any other file."""
    kind = container_kind(name)
    return kind if kind in ("zstd", "xz") else None


def how_read(archives: Iterable[str]) -> str:
    """What is said of archives; of those that are unpacked it is said with their sizes."""
    return "" if any(map(codec_of, archives)) else ", read in place"


def is_alone(name: str) -> bool:
    """Whether an archive is a unit of its own, which has one file of restart points, or a copy."""
    return container_kind(name) in ("gzip", "zstd", "xz")


def list_container(
    raw: Path,
    container: str,
    *,
    deep: bool = False,
    restarts_name: str = "",
    gone: list[str] | None = None,
    copy: Copy | None = None,
) -> Listing:
    """List the images in a directory or archive; nothing is unpacked to disk but into `copy`.

    Args:
        container: the directory or archive, relative to `raw`.
        deep: whether a directory's sub-directories are searched as well.
        restarts_name: under which name `Listing.restarts` will be kept in the index. The images of
            a gzip archive refer to it.
        gone: gets the images, relative to `raw`, that are links which lead nowhere; None: refuse
            them.
        copy: what ``.tar.zst`` and ``.tar.xz`` are unpacked to; None: they are refused.

    Raises:
        SourceError: it is unreadable, damaged, truncated, or no directory or archive.
        SinkError: there is no room for the copy.
    """
    status = _status(raw, container)
    if stat.S_ISDIR(status.st_mode):
        return _list_folder(raw, container, deep=deep, gone=gone)
    kind = container_kind(container)
    unread = kind is None or (codec_of(container) and copy is None)
    if unread or not stat.S_ISREG(status.st_mode):
        raise SourceError(
            f"{printable(container)} cannot be read in place; expected a folder, .tar, .tar.gz, "
            ".tgz or .zip; pack its images again as one of these, or move it away"
        )
    archive = Archive(container)
    if kind == "gzip" or copy is not None:
        return _list_packed(raw, archive, restarts_name, copy)
    if kind == "zip":
        return _listing(zip_members(raw, container), archive, status.st_mtime_ns)
    return list_archive(raw, archive)


def list_archive(raw: Path, archive: Archive) -> Listing:
    """List the images of a tar archive, in archive order; nothing is unpacked.

    Member names are data: ``./`` and ``/`` at their start mean nothing, and those with ``..`` are
    left out. So are links, devices and sparse files, and say why.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated.
    """
    return _listing(members(raw, archive), archive, _status(raw, archive.container).st_mtime_ns)


def folder_fingerprint(raw: Path, folder: str) -> str:
    """A hash of the name, size and modification time of every directory that is searched.

    An image that is added, removed or renamed anywhere below is noticed. It costs one listing and
    one stat a directory; no file's status is asked for.

    Raises:
        SourceError: one of the directories is gone or cannot be read.
    """
    seen = []
    for below, *_ in _search(raw, folder, deep=True):
        place = _joined(folder, below)
        try:
            status = (raw / place).stat()
        except OSError as error:
            raise unreadable(place, error) from error
        seen.append(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\0")
    return hashlib.sha256("".join(sorted(seen)).encode("utf-8", "surrogateescape")).hexdigest()


def stat_fingerprint(raw: Path, container: str) -> list[int]:
    """Size and modification time in nanoseconds of a file or directory; for fingerprints.

    Raises:
        SourceError: it is gone or unreadable.
    """
    status = _status(raw, container)
    return [status.st_size, status.st_mtime_ns]


def _status(raw: Path, container: str) -> os.stat_result:
    try:
        return (raw / container).stat()
    except OSError as error:
        raise unreadable(container, error) from error


def _list_packed(raw: Path, archive: Archive, restarts_name: str, copy: Copy | None) -> Listing:
    """Unpacks it, piece by piece: into the copy; or gzip twice, to list it and for the points."""
    from dataprep.archives.gzip import find_restarts, unpack  # late: it loads numpy

    container = archive.container
    try:
        file = open_container(raw, container, ahead=True)
        if copy is not None:
            unpacked = walk(Unpacked(file, copy), archive)
            return _listing(unpacked, archive, file.mtime, ("copy", copy.name))
        stream = ForwardStream(unpack(file))
        found = _listing(walk(stream, archive), archive, file.mtime, ("gzip", restarts_name))
        restarts = find_restarts(file, stream.produced, len(found.images))
    except (zlib.error, BadGzipFile, EOFError, UnpackError) as error:
        raise SourceError(
            f"{printable(container)} is damaged or truncated: {printable(str(error))}; {AGAIN}"
        ) from error
    except OSError as error:
        raise unreadable(container, error) from error
    return replace(found, restarts=restarts)


def _listing(
    found: Iterable[ArchiveMember], archive: Archive, mtime: int, packing: Packing = ()
) -> Listing:
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    container = archive.container
    prefix = f"{archive.inner}/" if archive.inner else ""
    for member in found:
        name, offset, size, modified, unusable, packed = member
        path, reason = _path_of(name)
        if unusable or reason:
            ignored.append(Ignored(container, prefix + name, unusable or reason))
        else:
            packed = packing or packed
            images.append(StoredImage(path, container, offset, size, modified, packed, mtime))
    if not images and not ignored:
        ignored.append(Ignored(container, archive.inner, "empty archive"))
    return Listing(images, ignored)


def _path_of(member_name: str) -> tuple[str, str]:
    """The path of a member, and why it is left out; that is empty for an image."""
    if "/" not in member_name and "\0" not in member_name and listing.is_image_name(member_name):
        return member_name, ""  # by far the most: nothing to clean
    try:
        path = listing.clean_path(member_name)
    except ValueError as error:
        return "", str(error)
    if listing.in_clutter(path):
        return path, "in a hidden or system folder"
    return path, listing.refusal(listing.basename(path))


def _list_folder(
    raw: Path, folder: str, *, deep: bool = False, gone: list[str] | None = None
) -> Listing:
    """List the images in a directory; those of a deep search are sorted by path.

    Symbolic links are the user's own arrangement of the tree and are followed, except those that
    lead back to a directory they are in. A link that leads nowhere is refused, or put into `gone`.
    """
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    for below, files, left_out in _search(raw, folder, deep=deep):
        above = f"{below}/" if below else ""
        ignored += [Ignored(folder, above + name, reason) for name, reason in left_out]
        # Files are looked up in directory order: parallel file systems prefetch in that order.
        for entry in files:
            container = _joined(folder, above + entry.name)
            try:
                status = entry.stat()
            except OSError as error:
                if gone is None or not isinstance(error, FileNotFoundError):
                    raise unreadable(container, error) from error
                gone.append(container)
                continue
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


def _search(
    raw: Path, folder: str, *, deep: bool
) -> Iterator[tuple[str, list[os.DirEntry[str]], list[tuple[str, str]]]]:
    """Each directory that is searched: its path from there, files named like images, and the rest.

    Of the rest, why it is left out.
    """

    def is_folder(entry: os.DirEntry[str]) -> bool:
        # Asked of the listing alone, but for links that are not named like images.
        follow = deep and entry.is_symlink() and not listing.is_image_name(entry.name)
        return entry.is_dir(follow_symlinks=follow)

    def why_not(entry: os.DirEntry[str]) -> str:
        """Why a folder is not searched; empty if it is."""
        if not deep:
            return "folder, not searched for images"
        if listing.is_clutter_folder(entry.name):
            return "hidden or system folder, not searched for images"
        leads_back = entry.is_symlink() and _leads_back(entry)
        return "symbolic link to a folder that it is in" if leads_back else ""

    def refuse(below: str, error: OSError) -> None:
        raise unreadable(_joined(folder, below) if below else folder, error) from error

    for below, entries in walk_folders(
        raw / folder, lambda entry: is_folder(entry) and not why_not(entry), refuse
    ):
        files, left_out = [], []
        for entry in entries:
            folders = is_folder(entry)
            if reason := why_not(entry) if folders else listing.refusal(entry.name):
                left_out.append((entry.name, reason))
            elif not folders:
                files.append(entry)
        yield below, files, left_out


def _leads_back(link: os.DirEntry[str]) -> bool:
    """Whether a link is to a directory on the way to the one that it is in."""
    above = Path(link.path).absolute().parents
    return any(os.path.samestat(link.stat(), each.stat()) for each in above)


def _joined(above: str, name: str) -> str:
    return f"{above}/{name}" if above else name
