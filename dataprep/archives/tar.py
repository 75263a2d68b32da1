"""Lists a tar archive where it lies, on its own, nested or compressed, without trusting it.

`tarfile` parses the headers (GNU, PAX, base-256 sizes, long names); this module adds what it
leaves out: a nested archive is never read past its end, a damaged header or a missing end mark
is an error instead of a silent end, and a forged length cannot claim memory.
"""

from __future__ import annotations

import struct
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dataprep.archives.open_files import ByteStream, FileRange, open_container
from dataprep.errors import SourceError
from dataprep.rows import Packing
from dataprep.system.messages import printable, unreadable

# What to do about an archive that is damaged, for messages.
AGAIN: Final = "copy or download it again"
_BLOCK: Final = tarfile.BLOCKSIZE
_RECORD: Final = tarfile.RECORDSIZE
_MOST_AT_ONCE: Final = 1 << 20
_LARGEST_RECORD: Final = 1 << 21  # tar -b 4096
# Name, size, modification time, checksum, kind, magic, and the first byte of the name's prefix.
_HEADER: Final = struct.Struct("100s24x12s12s8ss100x5s83xc166x")
# Python's patterns look at some bytes once for every byte before them (CVE-2024-6232).
_LONGEST_PAX: Final = 8 << 10
_ADLER: Final = 65521  # RFC 1950: what its sums are taken modulo

# What tarfile raises on hostile or damaged headers: its own errors, and what its parsing of
# numbers, sparse maps and chained extension headers lets through.
_DAMAGE: Final = (
    *(tarfile.TarError, ValueError, ArithmeticError),
    *(LookupError, RecursionError, MemoryError),
)


@dataclass(frozen=True, slots=True)
class Archive:
    """Where a tar archive lies."""

    container: str  # the file that holds it, relative to the raw directory
    offset: int = 0  # in the container, in bytes
    size: int | None = None  # in bytes; None for all the container has
    inner: str = ""  # its name inside the container; empty when it is the container

    @property
    def place(self) -> str:
        """The archive as messages name it."""
        inner = f" (inner archive {self.inner})" if self.inner else ""
        return printable(self.container + inner)


class ArchiveMember(NamedTuple):
    """One archive member that is not a directory."""

    name: str  # in the archive; data, never a path
    offset: int  # in the container, in bytes
    size: int  # in bytes
    modified: int  # in whole seconds since 1970
    refusal: str  # why it cannot be read as a file; empty for a regular file
    packing: Packing = ()  # as in `Row`


def members(raw: Path, archive: Archive) -> Iterator[ArchiveMember]:
    """Yield the members of an archive in archive order, in bounded memory.

    Raises:
        SourceError: the archive is unreadable, compressed, damaged, truncated, or does not end
            in an end-of-archive mark. It may be raised after members were yielded.
    """
    try:
        file = open_container(raw, archive.container, ahead=True)
        whole = file.size
        size = whole - archive.offset if archive.size is None else archive.size
        if archive.offset + size > whole:
            end = archive.offset + size
            raise _faulty(
                archive, f"is truncated: its file has {whole} bytes, but it ends at byte {end}"
            )
        if size == 0:
            raise _faulty(archive, "has 0 bytes; expected a tar archive")
        yield from walk(FileRange(file, archive.offset, size), archive)
    except EOFError as error:
        raise _faulty(archive, "became shorter while it was read") from error
    except OSError as error:
        raise unreadable(archive.place, error) from error


def walk(stream: ByteStream, archive: Archive) -> Iterator[ArchiveMember]:
    """Yield the members of an archive that a stream has, and read the stream to its end.

    Args:
        stream: the archive, from its start.
        archive: what it is; offsets of members count from `Archive.offset`.

    Raises:
        SourceError: as `members`.
    """
    try:
        with _Tar.open(
            fileobj=stream, mode="r:", tarinfo=_Info, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            while True:
                found: ArchiveMember | tarfile.TarInfo | None = None
                if tar.firstmember is None and not tar.pax_headers:
                    found = _plain_member(stream, archive, tar.offset)
                if isinstance(found, ArchiveMember):
                    tar.offset = found.offset - archive.offset + -(-found.size // _BLOCK) * _BLOCK
                elif (found := tar.next()) is None:
                    break
                tar.members.clear()  # or every header ever read stays in memory
                if (reached := stream.reach(tar.offset)) < tar.offset:
                    raise _faulty(
                        archive,
                        f"is truncated: it has {reached} bytes, but its member "
                        f"{printable(found.name)} ends at byte {tar.offset}",
                    )
                if isinstance(found, ArchiveMember):
                    yield found
                elif not found.isdir():
                    yield _member(found, archive, tar.offset)
            _require_end(stream, archive, tar.offset)
    except _DAMAGE as error:
        reason = printable(str(error)) or type(error).__name__
        names = "a compressed one must be called .tar.gz, .tar.zst or .tar.xz"
        kind = f"is damaged or not a tar archive ({names})"
        raise _faulty(archive, f"{kind}: {reason}") from error


def _plain_member(stream: ByteStream, archive: Archive, offset: int) -> ArchiveMember | None:
    """The member at an offset, if it is a regular file with a plain ustar or GNU header.

    Nearly all are; in a third of the time that `tarfile` takes, which does the rest.
    """
    stream.seek(offset)
    header = stream.read(_BLOCK)
    if len(header) < _BLOCK:
        return None
    name, size, modified, checksum, kind, magic, prefix = _HEADER.unpack(header)
    # Kind 0, a magic, and no prefix to the name: POSIX.1-1988, and GNU tar's own.
    if kind != b"0" or magic != b"ustar" or prefix != b"\0":
        return None
    try:
        length = int(size.rstrip(b"\0 "), 8)
        time = int(modified.rstrip(b"\0 "), 8)
        expected = int(checksum.rstrip(b"\0 "), 8)
    except ValueError:  # base 256
        return None
    # The sum of all bytes, the checksum's own taken for blanks. Adler-32 adds in C, from 1.
    found = (zlib.adler32(header) & 0xFFFF) - 1 - sum(checksum) + 8 * 32
    if (found - expected) % _ADLER or length < 0:
        return None
    text = name.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    return ArchiveMember(text, archive.offset + offset + _BLOCK, length, time, "")


def _member(info: tarfile.TarInfo, archive: Archive, end: int) -> ArchiveMember:
    refusal = _refusal(info)
    # A global extension header can give a size which tarfile does not use to find the next header.
    if info.size < 0 or (not refusal and info.offset_data + info.size > end):
        raise tarfile.ReadError(f"impossible size of {printable(info.name)}")
    offset = archive.offset + info.offset_data
    return ArchiveMember(info.name, offset, info.size, int(info.mtime), refusal)


def _refusal(info: tarfile.TarInfo) -> str:
    if info.issparse():
        return "sparse file: its bytes are not stored in one piece"
    if info.isreg():
        return ""
    if info.issym() or info.islnk():
        return "symbolic or hard link, never followed"
    return "not a regular file"


def _require_end(stream: ByteStream, archive: Archive, offset: int) -> None:
    """Check that listing stopped at an end mark: tarfile also stops at a damaged header.

    POSIX ends an archive with two zero blocks and leaves the rest of that 10,240-byte record
    undefined. One zero block is accepted when nothing but zeros follows. Anything else after the
    mark means that headers were lost: a hole left by an unfinished download, or joined archives.
    So do more zeros than fill a record of 10,240 bytes, or of a larger power of two (`tar -b`) of
    which the archive has a whole number.
    """
    stream.seek(offset)
    mark = stream.read(2 * _BLOCK)
    if len(mark) < _BLOCK:
        raise _faulty(
            archive,
            f"is truncated: it ends at byte {offset + len(mark)} without an end-of-archive mark",
        )
    if any(mark[:_BLOCK]):
        raise _faulty(
            archive, f"is damaged: expected a tar header at byte {offset}, found something else"
        )
    if not any(mark):
        record = -(-(offset + 2 * _BLOCK) // _RECORD) * _RECORD
        stream.seek(stream.reach(record))
    rest = mark[_BLOCK:] if any(mark[_BLOCK:]) else stream.read(_MOST_AT_ONCE)
    while rest and stream.tell() - offset <= 2 * _LARGEST_RECORD:
        if rest.strip(b"\0"):
            raise _faulty(
                archive,
                f"has an end-of-archive mark at byte {offset} but goes on; expected padding only: "
                "an unfinished download or joined archives",
            )
        rest = stream.read(_MOST_AT_ONCE)
    zeros = (size := stream.tell()) - offset
    if zeros - 2 * _BLOCK > max(_RECORD, min(size & -size, _LARGEST_RECORD)):
        raise _faulty(
            archive,
            f"has {zeros} bytes of zeros or more after its last member, from byte {offset} on; "
            f"expected less than {_RECORD + 2 * _BLOCK}: the transfer was probably cut off",
        )


def _faulty(archive: Archive, finding: str) -> SourceError:
    return SourceError(f"{archive.place} {finding}; {AGAIN}")


class _Info(tarfile.TarInfo):
    """A header; one of pax is parsed only where that takes no endless time."""

    def _proc_pax(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size > _LONGEST_PAX:
            raise tarfile.ReadError(f"pax header of {self.size} bytes")
        info: tarfile.TarInfo = super()._proc_pax(tar)  # type: ignore[misc]  # not declared
        return info


class _Tar(tarfile.TarFile):
    """A `tarfile.TarFile` with the types of what it does not declare."""

    members: list[tarfile.TarInfo]
    firstmember: tarfile.TarInfo | None
