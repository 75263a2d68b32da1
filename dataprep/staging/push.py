"""A data set into a bucket or a directory: its files first, each checked, and its manifest last.

Without a manifest there is no data set, so one in a bucket is whole or is none. Shards of a set
that grew have other names than before (``-of-00008``), so that who reads the old manifest loses no
shard; its table is put under a name of its own before the manifest, and under its usual one after.
In a directory the table goes before the manifest, and shards that it no longer names go at the end.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from dataprep.errors import DatasetError, UsageError
from dataprep.remote.store import RemoteObject, Store, own_name
from dataprep.sealed.set import NAME, SealedSet
from dataprep.staging.local_store import LocalStore
from dataprep.system.messages import REMEDY, counted, printable, sized, some_of, unreadable
from dataprep.system.regular_files import open_regular, read_regular
from dataprep.system.state_files import parse
from dataprep.tables.records import NAME as TABLE
from dataprep_schemas.manifest import File, Manifest, RecordsFile

_Named: TypeAlias = File | RecordsFile  # by the manifest
_Store: TypeAlias = Store | LocalStore

_AT_ONCE: Final = 8  # files
_PIECE: Final = 1 << 20
_CLAIM: Final = ".dataprep-push"  # says whose files are on their way
_MEANWHILE: Final = (
    f"{{}}: somebody else put another {NAME} there meanwhile; what is there now is theirs: push to "
    "another place, or run the same command again"
)


@dataclass(frozen=True, slots=True)
class Pushed:
    """What is in a bucket, a directory or an archive now.

    Attributes:
        address: where.
        files: of the data set, its manifest among them.
        bytes: of all of them.
        uploaded: how many of the files had to be, or would have to be.
        uploaded_bytes: of these.
        deleted: other objects that were, or would be, deleted; 0 if that was not asked for.
        dry_run: whether nothing was done.
    """

    address: str
    files: int
    bytes: int
    uploaded: int
    uploaded_bytes: int
    deleted: int
    dry_run: bool

    def __str__(self) -> str:
        """One line."""
        upload, delete = "uploaded", "deleted"
        if self.dry_run:
            upload, delete = "would upload", "would delete"
        return (
            f"{self.address}: {counted(self.files, 'file')}, {sized(self.bytes)}; {upload} "
            f"{self.uploaded:,} of them, {sized(self.uploaded_bytes)}"
            + f"; {delete} {counted(self.deleted, 'other object')}"
            * (self.deleted > 0)
        )


def push(
    out: Path,
    address: str,
    *,
    overwrite: bool,
    delete_others: bool,
    dry_run: bool,
    begin: Callable[[int], None],
    advance: Callable[[int], None],
) -> Pushed:
    """Upload what is not there yet.

    Args:
        overwrite: whether a data set that this one does not descend from may be replaced.
        delete_others: whether all that this data set does not name is deleted at the end; who
            reads an older generation of it loses shards.
        dry_run: only find out what would be uploaded.
        begin: is told how many bytes will be.
        advance: is told how many more were; from any thread.

    Raises:
        DatasetError: there is no whole data set, a file of it is damaged, or another data set is
            in the bucket.
        RemoteError: the store does not answer, or refuses.
    """
    sealed = SealedSet.read(out)
    sealed.require_whole("pushed")
    shards, table = [*sealed.manifest.files()], sealed.manifest.records_table
    store, data = _store_at(address, out), read_regular(out / NAME)
    there, replaced = _manifest_there(store, sealed.manifest, overwrite=overwrite)
    missing = _missing(store, [*shards, table])
    total, size = (sum(file.bytes for file in files) for files in (missing, [*shards, table]))
    stale = there is None or there.sha256 != _sha256(data)
    others = _others(store, shards) if delete_others else []
    counts = len(missing) + stale, total + len(data) * stale, len(others)
    found = Pushed(address, len(shards) + 2, size + len(data), *counts, dry_run)
    if dry_run:
        return found
    if missing or stale:
        _claim(store, data, there, overwrite=overwrite)
        others.append(_CLAIM)
    begin(total)
    grows = replaced is not None and isinstance(store, Store)
    beside = own_name(table.path, table.sha256) if grows else table.path
    _upload_all(store, out, [(it, beside if it is table else it.path) for it in missing], advance)
    if stale and not store.commit(NAME, data, _sha256(data), there):
        raise DatasetError(_MEANWHILE.format(store))
    if grows and table in missing:
        _upload_all(store, out, [(table, table.path)], lambda _: None)
    if replaced is not None and isinstance(store, LocalStore):
        # Patterns of files find them, and readers of a directory go by patterns.
        ours = {file.path for file in shards}
        others += [file.path for file in replaced.files() if file.path not in ours]
    store.delete(others)
    return found


def _store_at(address: str, out: Path) -> _Store:
    if "://" in address:
        return Store(address)
    place = Path(address).resolve()
    if out.resolve() in (place, *place.parents) or place in out.resolve().parents:
        raise UsageError(f"{address} and {out} are in one another; choose another place")
    return LocalStore(Path(address))


def _missing(store: _Store, files: Sequence[_Named]) -> list[_Named]:
    """Those that the store does not have as the manifest says."""

    def is_there(file: _Named) -> bool:
        found = store.find(file.path)
        return found is not None and (found.bytes, found.sha256) == (file.bytes, file.sha256)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [
            file for file, known in zip(files, pool.map(is_there, files), strict=True) if not known
        ]


def _upload_all(
    store: _Store, out: Path, files: Sequence[tuple[_Named, str]], advance: Callable[[int], None]
) -> None:
    """Upload several at a time, by these names; with the first that fails the others end."""
    stop = threading.Event()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for each in [pool.submit(_upload, store, out, *file, advance, stop) for file in files]:
            try:
                each.result()
            except BaseException:
                stop.set()
                raise


def _claim(store: _Store, data: bytes, there: RemoteObject | None, *, overwrite: bool) -> None:
    """Be the only one who puts files there, until the manifest is there or another one replaces it.

    Args:
        data: the manifest that will be there.
        there: the one that was found.

    Raises:
        DatasetError: another data set is on its way there, or has come meanwhile.
    """
    ours, before = _sha256(data).encode(), store.find(_CLAIM)
    theirs = store.read(_CLAIM) if before is not None else None
    done = there is not None and there.sha256.encode() == theirs  # and killed before it was deleted
    if theirs not in (None, ours) and not (done or overwrite):
        raise DatasetError(
            f"{store}: a push of another data set has begun there and has not ended; run that one "
            "again, push to another place, or replace what is there with --overwrite"
        )
    if theirs != ours and not store.commit(_CLAIM, ours, _sha256(ours), before):
        raise DatasetError(f"{store}: somebody else began to push there; push to another place")
    if store.find(NAME) != there:
        store.delete([_CLAIM])
        raise DatasetError(_MEANWHILE.format(store))


def _others(store: _Store, files: Sequence[_Named]) -> list[str]:
    """What is there and is not this data set's.

    Raises:
        DatasetError: another data set is in a folder of it.
    """
    named = {NAME, TABLE, _CLAIM, *(file.path for file in files)}
    others = sorted(path for path, _ in store.list() if path not in named)
    if sets := [path for path in others if path.endswith(f"/{NAME}")]:
        raise DatasetError(
            f"{store} holds other data sets, {some_of(sets)}, which --delete_others would delete; "
            "push to a place of its own, or leave it out"
        )
    return others


def _manifest_there(
    store: _Store, ours: Manifest, *, overwrite: bool
) -> tuple[RemoteObject | None, Manifest | None]:
    """The manifest that is there, if there is one, and what it says if that is something else.

    Raises:
        DatasetError: it is another's, which may not be replaced.
    """
    there = store.find(NAME)
    data = store.read(NAME) if there is not None else None
    theirs = parse(data, Manifest, Path(NAME), REMEDY) if data is not None else ours
    if theirs.sha256 == ours.sha256:
        return there, None
    if not overwrite:
        _require_descent(ours, theirs, store.address)
    return there, theirs


def _require_descent(ours: Manifest, theirs: Manifest, address: str) -> None:
    """Refuse to replace what this data set is not a later generation of.

    Raises:
        DatasetError: it is not; or it has other files of the same names.
    """
    first = ours.generations[: max(1, len(theirs.generations))]
    if theirs.generations:
        grown = tuple(first) == theirs.generations
    else:
        grown = bool(first) and first[0].input == theirs.input
    advice = "push to another place, or replace what is there with --overwrite"
    if not grown:
        raise DatasetError(
            f"{address} has another data set ({theirs.dataset}, {theirs.totals.records:,} "
            f"records), which this one does not descend from; {advice}"
        )
    before = {file.path: file.sha256 for file in theirs.files()}
    new = {file.path: file.sha256 for file in ours.files()}
    other = [path for path, sha256 in new.items() if before.get(path, sha256) != sha256]
    if other:
        raise DatasetError(
            f"{address}: {some_of(other)} would become other files under the eyes of who reads "
            f"them; {advice}"
        )


def _upload(
    store: _Store,
    out: Path,
    file: _Named,
    name: str,
    advance: Callable[[int], None],
    stop: threading.Event,
) -> None:
    told = 0  # bytes, also of a try that failed

    def sent(position: int) -> None:
        nonlocal told
        if position > told:
            advance(position - told)
            told = position

    store.put(name, lambda: checked(out, file, sent, stop), file.sha256)


def checked(
    out: Path, file: _Named, sent: Callable[[int], None], stop: threading.Event
) -> Iterator[bytes]:
    """The pieces of a file; the last one only if all are what the manifest says.

    Args:
        sent: is told how many bytes were taken so far.

    Raises:
        DatasetError: they are not.
    """
    seen, size = hashlib.sha256(), 0
    held = b""
    try:
        with open_regular(out / file.path, buffering=0) as opened:
            while piece := opened.read(_PIECE):
                if stop.is_set():
                    raise DatasetError("stopped, since another file failed")
                seen.update(piece)
                size += len(piece)
                if held:
                    yield held
                    sent(size - len(piece))
                held = piece
    except OSError as error:
        raise unreadable(file.path, error) from error
    if (size, seen.hexdigest()) != (file.bytes, file.sha256):
        raise DatasetError(
            f"{out / printable(file.path)} is not what the manifest says; `dataprep verify` names "
            "all bad files, and nothing of this one was uploaded"
        )
    yield held
    sent(size)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
