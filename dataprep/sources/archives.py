"""Lists the images of a tar archive and the class archives of an archive of archives."""

from __future__ import annotations

from pathlib import Path

from dataprep.index import Ignored
from dataprep.sources.listing import Listing, StoredImage
from dataprep.sources.names import refusal
from dataprep.sources.tars import Archive, members


def basename(member_name: str) -> str:
    """The last component of a member's name: all that is ever used of it."""
    return member_name.rpartition("/")[2]


def list_archive(raw: Path, archive: Archive) -> Listing:
    """List the images of a tar archive, in archive order; nothing is unpacked.

    Member names are data: only their last component is used, so ``../`` and absolute names lead
    nowhere. Links, devices and sparse files are left out and say why.

    Args:
        raw: the raw directory.
        archive: the archive under it.

    Raises:
        SourceError: the archive is unreadable, damaged or truncated.
    """
    images: list[StoredImage] = []
    ignored: list[Ignored] = []
    container = archive.container
    prefix = f"{archive.inner}/" if archive.inner else ""
    for member in members(raw, archive):
        name = basename(member.name)
        reason = member.refusal or refusal(name)
        if reason:
            ignored.append(Ignored(container, prefix + member.name, reason))
        else:
            images.append(StoredImage(name, container, member.offset, member.size, member.modified))
    if not images and not ignored:
        ignored.append(Ignored(container, archive.inner, "empty archive"))
    return Listing(images, ignored)
