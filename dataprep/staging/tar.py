"""A whole data set as one ``.tar``: plain, in order, its table of hashes in front.

Everything is in one folder that is called as the archive is. The manifest is its last file, so
that an unpacking that was stopped leaves no data set. ``SHA256SUMS`` is what sha256sum of GNU
coreutils writes and checks. There is nothing of the machine or the time in it: the same data set
makes the same bytes.
"""

from __future__ import annotations

import os
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from dataprep.errors import DatasetError, UsageError
from dataprep.sealed.set import NAME, SealedSet
from dataprep.sealed.tar import SUMS, manifest_in
from dataprep.staging.push import Pushed, checked
from dataprep.system.durable_files import make_durably, storage_error, sync_directory, whole
from dataprep.system.regular_files import read_regular

_MODE: Final = 0o644


def pack(
    out: Path,
    to: Path,
    *,
    overwrite: bool,
    dry_run: bool,
    begin: Callable[[int], None],
    advance: Callable[[int], None],
) -> Pushed:
    """Write the archive, or find that it is there already; the arguments are those of `push`.

    Raises:
        DatasetError: there is no whole data set, a file of it is damaged, or something else is at
            ``to``.
        SinkError: it cannot be written there.
        UsageError: it would be a part of the data set itself.
    """
    sealed = SealedSet.read(out)
    sealed.require_whole("pushed")
    if to.absolute().parent.resolve().is_relative_to(out.resolve()):
        raise UsageError(f"{to} is in {out} itself; choose another place")
    manifest, data = sealed.manifest, read_regular(out / NAME)
    files = [*manifest.files(), manifest.records_table]
    total = sum(file.bytes for file in files)
    there = (
        to.exists() and (found := manifest_in(to)) is not None and found.sha256 == manifest.sha256
    )
    if to.exists() and not there and not overwrite:
        raise DatasetError(
            f"{to} is there already and is not this data set; choose another name, or replace it "
            "with --overwrite"
        )
    size = total + len(data)
    new = (0, 0) if there else (len(files) + 1, size)
    if dry_run or there:
        return Pushed(str(to), len(files) + 1, size, *new, 0, dry_run)
    begin(total)
    sums = "".join(f"{file.sha256}  {file.path}\n" for file in files).encode()
    stop = threading.Event()
    folder = to.name.removesuffix(".tar")
    try:
        make_durably(to.absolute().parent)
        with whole(to) as temporary, temporary.open("xb") as archive:
            _add(archive, f"{folder}/{SUMS}", len(sums), iter([sums]))
            for file in files:
                pieces = _told(checked(out, file, lambda _: None, stop), advance)
                _add(archive, f"{folder}/{file.path}", file.bytes, pieces)
            _add(archive, f"{folder}/{NAME}", len(data), iter([data]))
            end = archive.tell() + 2 * tarfile.BLOCKSIZE
            archive.write(bytes(2 * tarfile.BLOCKSIZE + -end % tarfile.RECORDSIZE))
            archive.flush()
            os.fsync(archive.fileno())
        sync_directory(to.absolute().parent)
    except OSError as error:
        raise storage_error(error, to, "writing it") from error
    return Pushed(str(to), len(files) + 1, size, *new, 0, dry_run)


def _add(archive: BinaryIO, name: str, size: int, pieces: Iterator[bytes]) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, _MODE
    archive.write(info.tobuf(tarfile.PAX_FORMAT))
    archive.writelines(pieces)
    archive.write(bytes(-size % tarfile.BLOCKSIZE))


def _told(pieces: Iterator[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for piece in pieces:
        yield piece
        advance(len(piece))
