"""A data set in a ``.tar``, as ``push`` writes it: checked where it lies, without unpacking it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from dataprep.archives.tar import Archive, ArchiveMember, members
from dataprep.errors import DatasetError, SourceError, UsageError
from dataprep.sealed.set import NAME
from dataprep.sealed.verify import Level, Problem, Verified
from dataprep.system.messages import printable
from dataprep.system.regular_files import MOST_BYTES, open_descriptor
from dataprep.system.state_files import parse
from dataprep.system.throttle import pay
from dataprep_schemas.manifest import File, Manifest, RecordsFile

SUMS: Final = "SHA256SUMS"
"""The table of hashes of an archive, beside its manifest."""

_PIECE: Final = 1 << 20


def manifest_in(path: Path) -> Manifest | None:
    """The manifest of the data set in an archive; None if it holds none, or is no archive."""
    try:
        return _opened(path)[0]
    except (DatasetError, SourceError):
        return None


def verify_tar(
    path: Path, level: Level, *, threads: int, progress: Callable[[int], object] | None = None
) -> Verified:
    """Check the files of a data set in an archive against its manifest.

    Args:
        level: ``size`` or ``hash``; see `dataprep.sealed.verify.verify`.
        progress: told the bytes of each file when it is done.

    Raises:
        DatasetError: no intact manifest is in it.
        SourceError: it is no archive, or ends too early.
        UsageError: the level asks for more.
    """
    if level not in ("size", "hash"):
        raise UsageError(f"{path} is an archive; unpack it for --level {level}: tar -xf {path}")
    manifest, folder, found = _opened(path)
    files = [*manifest.files(), manifest.records_table]
    known = {file.path for file in files} | {NAME, SUMS}
    problems = [
        Problem(printable(name), "is not in the manifest", foreign=True)
        for name in found
        if name.removeprefix(folder) not in known or not name.startswith(folder)
    ]
    descriptor = open_descriptor(path)
    try:

        def look(file: File | RecordsFile) -> Problem | None:
            here = found.get(folder + file.path)
            problem = _judged(descriptor, file, here, hashed=level == "hash")
            if progress is not None:
                progress(file.bytes)
            return problem

        with ThreadPoolExecutor(threads) as pool:
            problems += filter(None, pool.map(look, files))
    finally:
        os.close(descriptor)
    size = sum(file.bytes for file in files)
    return Verified(len(files), size, manifest.totals.records, tuple(problems))


def _opened(path: Path) -> tuple[Manifest, str, dict[str, ArchiveMember]]:
    """The manifest, the folder that it is in, with a slash, and all members by name."""
    found = {each.name: each for each in members(path.absolute().parent, Archive(path.name))}
    names = [name for name in found if name.removeprefix("./").rpartition("/")[2] == NAME]
    if len(names) != 1:
        raise DatasetError(
            f"{path}: {len(names)} files {NAME} in it, expected one, of a whole data set as "
            "`dataprep push` packs it"
        )
    member = found[names[0]]
    if member.refusal or member.size > MOST_BYTES:
        raise DatasetError(f"{path}: its {NAME} is no file of a usual size; push it again")
    descriptor = open_descriptor(path)
    try:
        data = os.pread(descriptor, member.size, member.offset)
    finally:
        os.close(descriptor)
    place = f"{path}, {printable(member.name)}"
    manifest = parse(data, Manifest, place, "push the data set again")
    return manifest, member.name.removesuffix(NAME), found


def _judged(
    descriptor: int, file: File | RecordsFile, here: ArchiveMember | None, *, hashed: bool
) -> Problem | None:
    if here is None:
        return Problem(file.path, "is missing", missing=True)
    if here.refusal or here.size != file.bytes:
        what = here.refusal or f"has {here.size} bytes, the manifest says {file.bytes}"
        return Problem(file.path, what)
    if hashed and _sha256(descriptor, here) != file.sha256:
        return Problem(file.path, "its SHA-256 is not the manifest's: it was damaged or changed")
    return None


def _sha256(descriptor: int, member: ArchiveMember) -> str:
    digest, at, end = hashlib.sha256(), member.offset, member.offset + member.size
    while at < end and (piece := os.pread(descriptor, min(_PIECE, end - at), at)):
        digest.update(piece)
        pay(len(piece))
        at += len(piece)
    return digest.hexdigest()
