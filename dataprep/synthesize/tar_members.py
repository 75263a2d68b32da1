"""Tars written front to back, equal from run to run."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable
from typing import Protocol

NamedFile = tuple[str, bytes]

MODIFIED = 1_339_200_000  # June 2012; any constant keeps the tars equal from run to run
_TAR_END = b"\0" * (2 * tarfile.BLOCKSIZE)


class Writable(Protocol):
    """What a tar is written to: a file, or a compressor in front of one."""

    def write(self, data: bytes, /) -> int:
        """Take in the next bytes."""

    def tell(self) -> int:
        """Number of bytes before the next one."""


def write_tar(stream: Writable, files: Iterable[NamedFile]) -> None:
    """Write a whole tar, from where the stream is.

    Args:
        stream: gets the tar.
        files: the members, one at a time; none is kept.
    """
    begin = stream.tell()
    for name, content in files:
        stream.write(tar_header(name, len(content)))
        stream.write(content)
        stream.write(b"\0" * (-len(content) % tarfile.BLOCKSIZE))
    end_tar(stream, begin)


def end_tar(stream: Writable, begin: int) -> None:
    """End the tar that began there, padded to whole records as ``tar`` does."""
    stream.write(_TAR_END)
    stream.write(b"\0" * ((begin - stream.tell()) % tarfile.RECORDSIZE))


def tar_header(name: str, size: int) -> bytes:
    """The header of a regular file of so many bytes."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, MODIFIED, 0o644
    return member.tobuf(tarfile.GNU_FORMAT)
