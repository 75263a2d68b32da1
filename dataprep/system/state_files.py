"""The files that dataprep keeps and believes: JSON of a frozen type, with a hash of itself.

One way in, `parse`, and one way out, `encode`: what is read is of its type, and has the hash that
it says. All else is a stranger's, or damaged. Where a run can find out again what
a file told, `read_state` gives None for that; where only a person can help, `read_document` says
the file, the place in it and what to do, such as to take the version that wrote it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from dataprep.errors import DatasetError
from dataprep.system.durable_files import write_durably
from dataprep.system.messages import cannot_be_read, printable
from dataprep.system.regular_files import open_descriptor, read_regular
from dataprep.version import __version__
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import State

Document = TypeVar("Document", bound=Manifest | State)

_READ = 1 << 20  # a stripe of Lustre, and small enough for the processor's cache
_LONGEST = 500  # characters of a finding


def encode(document: Manifest | State) -> bytes:
    """A document's file, with its own hash: equal documents are equal bytes."""
    return _canonical(hashed(document))


def hashed(document: Document) -> Document:
    """The document with its hash."""
    bare = msgspec.structs.replace(document, sha256="")
    return msgspec.structs.replace(bare, sha256=hashlib.sha256(_canonical(bare)).hexdigest())


def _canonical(document: object) -> bytes:
    try:
        data = msgspec.json.encode(document, order="deterministic")
    except UnicodeEncodeError as error:
        raise DatasetError(
            f"{ascii(error.object)[:_LONGEST]} is not UTF-8, and cannot be written down; rename it"
        ) from error
    return msgspec.json.format(data, indent=1) + b"\n"


def digest_of(value: object) -> str:
    """SHA-256 of any value as JSON: equal values give equal digests."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def parse(data: bytes, kind: type[Document], place: object, remedy: str) -> Document:
    """A document from its bytes.

    Args:
        place: where they are; for the message.
        remedy: what to do if they are not what dataprep wrote; for the message.

    Raises:
        DatasetError: they are not.
    """
    try:
        document = msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise _refused(data, kind, place, remedy, error) from error
    if _digest(data, document.sha256) != document.sha256:
        raise DatasetError(
            f"{place} was changed after it was written: its hash is another; {remedy}"
        )
    return document


def _digest(data: bytes, sha256: str) -> str:
    """The hash of a file without the line of its hash, which may be its last."""
    line = b'\n "sha256": "%b"' % sha256.encode()
    before, found, behind = data.partition(line + b",")
    if not found:
        before, _, behind = data.partition(b"," + line)
    digest = hashlib.sha256(before)
    digest.update(behind)
    return digest.hexdigest()


def _refused(
    data: bytes, kind: type[msgspec.Struct], place: object, remedy: str, error: Exception
) -> DatasetError:
    """What to tell of bytes that are no document: the first thing that is wrong, and where."""
    named, expected = _Named("dataprep-"), str(kind.__struct_config__.tag)
    with suppress(ValueError, RecursionError):  # which is told below
        named = msgspec.json.decode(data, type=_Named)
    found = named.format
    if not found.startswith("dataprep-"):
        return DatasetError(f"{place} is not dataprep's; give a directory that dataprep made")
    if (way_out := upgrade(named.versions)) and _digest(data, str(named.sha256)) == named.sha256:
        return DatasetError(f"{place}: {way_out}")
    what = str(error)
    if found not in ("dataprep-", expected):
        what = f"its format is {found[:100]!r}, this version reads {expected!r}"
    return DatasetError(f"{place}: {printable(what)[:_LONGEST]}; {remedy}")


class _Named(msgspec.Struct):
    """What a file of any version says of itself, whatever else is in it."""

    format: str = ""
    versions: object = None
    sha256: object = None


def read_document(path: Path, kind: type[Document], remedy: str) -> Document:
    """What is in a file, which must be there.

    Raises:
        DatasetError: it is not there, cannot be read, or is not what was written.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise DatasetError(f"{path} {cannot_be_read(error, remedy)}") from error
    return parse(data, kind, path, remedy)


def read_state(path: Path, kind: type[Document]) -> Document | None:
    """What was written; None if not exactly that is there, by its own name."""
    try:
        return parse(read_regular(path, link=False), kind, path, "")
    except (OSError, DatasetError):
        return None


def write_state(
    path: Path,
    document: Manifest | State,
    *,
    flush: bool = False,
    check: Callable[[], object] = lambda: None,
) -> None:
    """Put a document where `read_state` finds it: whole or not at all.

    Args:
        flush: whether it must outlive a power cut; after one, a torn one counts as not there.
        check: as for `write_durably`.
    """
    write_durably(path, encode(document), flush=flush, check=check)


def file_sha256(path: Path, told: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, in hex.

    Args:
        told: how many bytes were read since the last call.
    """
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(_READ))  # one for all: a new one is pages to be cleared
    with open(open_descriptor(path), "rb", buffering=0) as file:
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
            if told is not None:
                told(size)
    return digest.hexdigest()


def is_intact(path: Path, sha256: str) -> bool:
    """Whether a regular file is there and has this hash."""
    try:
        return file_sha256(path) == sha256
    except OSError:
        return False


def differing(theirs: Mapping[str, str], ours: Mapping[str, str], between: str) -> tuple[str, ...]:
    """Of what both name, what has another version: ``pillow 11.3.0, now 12.0.0``.

    Args:
        between: what stands between two versions: ``, now``.
    """
    return tuple(
        printable(f"{name} {theirs[name]}{between} {ours[name]}")
        for name in sorted(theirs.keys() & ours.keys())
        if theirs[name] != ours[name]
    )


def upgrade(versions: object) -> str:
    """What to do about a data set that a later version of dataprep wrote; empty of any other.

    Args:
        versions: what its manifest names, or anything else that stands in that place.
    """
    theirs = str(versions.get("dataprep")) if isinstance(versions, dict) else ""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){1,3}[a-z0-9.+]{0,40}", theirs):
        return ""
    if release(theirs) <= release(__version__):
        return ""
    return (
        f"dataprep {theirs} wrote it, and this is {__version__}: "
        f"pip install --upgrade 'dataprep-shards>={theirs}'"
    )


def release(version: str) -> list[int]:
    """The numbers of a version: 1, 2 and 3 of 1.2.3rc1."""
    return [int(number) for number in re.findall(r"^[0-9]+|(?<=\.)[0-9]+", version)][:3]
