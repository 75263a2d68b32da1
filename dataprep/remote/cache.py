"""What has been read of a data set in a bucket, kept on this node for all processes of a user.

``CACHE/DIGEST/`` has the data set's manifest and table, and its shards as they are needed, each
whole and of the hash that the manifest says, under their own names: so it is a data set, in which
shards may be missing. Locks on bytes of one file, a byte a shard, which the kernel lifts from who
is killed: who reads a shard shares its byte, who downloads or evicts it has it alone. So a shard is
downloaded once a node, and none is taken from under a reader. Lock files are never deleted.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from dataprep.errors import DatasetError, NoRoomError, RemoteError, UsageError
from dataprep.remote.process import requests
from dataprep.remote.store import Store, no_data_set
from dataprep.system.durable_files import PARTIAL, make_durably, sync_directory, write_durably
from dataprep.system.messages import printable, refusal, sized
from dataprep.system.ownership import is_proven, proof_of, require_own
from dataprep.system.state_files import parse
from dataprep_schemas.manifest import File, Manifest, RecordsFile

MANIFEST: Final = "manifest.json"
TABLE: Final = "records.parquet"
_VARIABLE: Final = "DATAPREP_CACHE"
_ORIGIN: Final = ".dataprep-bucket.json"  # of a directory: which data set it is of
_LOCKS: Final = ".dataprep-locks"
_ROOM: Final = ".dataprep-room"  # of a cache; locked by who makes room in it
_DIGEST: Final = re.compile("[0-9a-f]{32}")  # names of the directories in it
_MARGIN: Final = 1 << 28  # bytes that stay free on the disk
_PIECE: Final = 8 << 20
_SPARSE: Final = ".ranges"
_NEAR: Final = 1 << 18  # bytes between two ranges that are downloaded together
_AT_ONCE: Final = 16  # ranges
_TRIES: Final = 2  # of a shard whose hash is another

_Wanted: TypeAlias = File | RecordsFile  # of a data set, as its manifest has it


@dataclass(frozen=True, slots=True)
class Cache:
    """The directory of one data set in a cache.

    Raises:
        RemoteError: of each method: the store does not answer, or a file is damaged there.
        NoRoomError: likewise: the cache is full of what is being read.
    """

    place: Path  # the directory
    address: str  # where the data set is
    # Bytes that all data sets of the cache may have; None: what the disk has room for.
    most: int | None

    @contextmanager
    def held(self, files: Sequence[_Wanted], *, sparse: bool = False) -> Iterator[list[Path]]:
        """Have files there, until this is left.

        Args:
            sparse: of the first one nothing is downloaded now: see `fill`.

        Yields:
            Where they are: the first one is whole, or is sparse, with holes in it.
        """
        locks, places = _open_locks(self.place), []
        try:
            for number, file in enumerate(files):
                places.append(self.place / file.path)
                while True:
                    _lock(locks, file.path, fcntl.F_RDLCK)  # behind whoever downloads it
                    if _is_there(places[-1], file.bytes):
                        break
                    if sparse and number == 0:
                        places[-1] = _beside(places[-1], _SPARSE)
                        _make_sparse(places[-1], file.bytes)
                        break
                    _lock(locks, file.path, fcntl.F_UNLCK)
                    self.fetch(file)
                os.utime(places[-1])
            yield places
        finally:
            os.close(locks)

    def fill(self, file: _Wanted, ranges: Sequence[tuple[int, int]]) -> None:
        """Download ranges, each of a start and a size, into a file that is held as a sparse one.

        Whoever reads them has to check them, and may fill what is no hole again.
        """
        words = {"path": file.path, "ranges": ranges, "most": self.most}
        requests().ask("fill", self.address, place=str(self.place), **words)

    def fetch(self, file: _Wanted, *, ahead: bool = False) -> None:
        """Have a file there; it may be evicted at once.

        Args:
            ahead: do not wait for it.
        """
        words = {"path": file.path, "size": file.bytes, "sha256": file.sha256}
        kind = "prefetch" if ahead else "fetch"
        requests().ask(kind, self.address, place=str(self.place), most=self.most, **words)

    def look(self, file: _Wanted, *, hashed: bool) -> tuple[int, str]:
        """The size of a file in the bucket, and if asked for its SHA-256, of bytes read there.

        Raises:
            FileNotFoundError: there is none.
        """
        words = {"path": file.path, "sha256": file.sha256, "hashed": hashed}
        found = requests().ask("look", self.address, **words)
        return msgspec.json.decode(found, type=tuple[int, str])


@lru_cache(maxsize=64)
def cache_at(place: Path) -> Cache | None:
    """The data set's cache whose directory this is; None if it is none.

    A stranger may have put the same files there: they count with a proof that `cached` of this
    user has made them.
    """
    if not _DIGEST.fullmatch(place.name):
        return None
    try:
        found = (place / _ORIGIN).read_bytes()
        proof, address, most = msgspec.json.decode(found, type=tuple[str, str, int | None])
    except (OSError, ValueError):
        return None
    is_ours = is_proven(_proven(place, address, most), proof)
    return Cache(place, address, most) if is_ours else None


def _proven(place: Path, address: str, most: int | None) -> bytes:
    return f"cache {place.name} {most} {address}".encode()


def cached(address: str, top: Path | None = None, most: int | None = None) -> Path:
    """The directory in a cache of a data set in a bucket: its manifest and table are there.

    Args:
        top: the cache; None: ``$DATAPREP_CACHE``, or ``dataprep`` in ``$XDG_CACHE_HOME`` or
            ``~/.cache``.
        most: see `Cache`.

    Raises:
        DatasetError: no whole data set is there, or it is not intact.
        RemoteError: the store does not answer, or refuses.
        UsageError: a shard has more than `most` bytes.
    """
    try:
        data = requests().ask("manifest", address)
    except FileNotFoundError:
        raise no_data_set(address) from None
    manifest = parse(data, Manifest, f"{address}/{MANIFEST}", "push the data set again")
    shards = (sum(file.bytes for file in shard.files) for shard in manifest.shards())
    if most is not None and (largest := max(shards, default=0)) > most:
        raise UsageError(
            f"cache_bytes is {sized(most)}, and the largest shard of {address} has "
            f"{sized(largest)}; give several times as much"
        )
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dataprep"
    top = (top or Path(os.environ.get(_VARIABLE) or home)).absolute()
    place = top / manifest.sha256[:32]
    try:
        make_durably(top)
        require_own(top, "choose a cache of your own", writers=0o022, linked=True)
        place.mkdir(mode=0o700, exist_ok=True)
        (top / _ROOM).touch(mode=0o600)
        origin = proof_of(_proven(place, address, most)), address, most
        with _alone(place):
            write_durably(place / _ORIGIN, msgspec.json.encode(origin), flush=False)
            with Cache(place, address, most).held([manifest.records_table]):
                write_durably(place / MANIFEST, data)
    except OSError as error:
        raise DatasetError(
            f"{printable(str(error.filename or top))}: {refusal(error)}; choose another cache, "
            f"with cache= or ${_VARIABLE}"
        ) from error
    cache_at.cache_clear()
    return place


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Be the only one that writes what says of what the cache is; what killed ones left goes."""
    locks = _open_locks(place)
    try:
        _lock(locks, MANIFEST, fcntl.F_WRLCK)
        for left in chain(*(place.glob(f".{it}.*{PARTIAL}") for it in (MANIFEST, _ORIGIN))):
            left.unlink(missing_ok=True)
        yield
    finally:
        os.close(locks)


def look(store: Store, *, path: str, sha256: str, hashed: bool) -> bytes:
    """Look at a file in a bucket; see `Cache.look`."""
    found = store.find(path)
    if found is None:
        raise FileNotFoundError(path)
    if found.sha256 != sha256 and path == TABLE:
        path = store.table_at(path, sha256)
        found = store.find(path) or found
    digest = hashlib.sha256()
    for piece in store.pieces(path, found.bytes, _PIECE) if hashed else ():
        digest.update(piece)
    return msgspec.json.encode((found.bytes, digest.hexdigest()))


def fill(
    store: Store, *, place: str, most: int | None, path: str, ranges: list[tuple[int, int]]
) -> bytes:
    """Download ranges into a sparse file; see `Cache.fill`."""
    merged: list[list[int]] = []
    for start, size in sorted(ranges):
        if merged and start - merged[-1][1] <= _NEAR:
            merged[-1][1] = max(merged[-1][1], start + size)
        else:
            merged.append([start, start + size])
    with _room(Path(place).parent) as make_room:
        make_room(sum(end - start for start, end in merged), most)
    sparse = _beside(Path(place, path), _SPARSE)
    with sparse.open("r+b", buffering=0) as file, ThreadPoolExecutor(_AT_ONCE) as pool:
        pieces = [pool.submit(store.read_range, path, start, end - start) for start, end in merged]
        for (start, _), piece in zip(merged, pieces, strict=True):
            _write(file.fileno(), piece.result(), start)
    return b""


def fetch(
    store: Store, *, place: str, most: int | None, path: str, size: int, sha256: str
) -> bytes:
    """Download a file into a cache, unless it is there by now; see `Cache.fetch`."""
    final = Path(place, path)
    locks = _open_locks(Path(place))
    try:
        _lock(locks, path, fcntl.F_WRLCK)
        if _is_there(final, size):
            return b""
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = _beside(final, PARTIAL)
        for tried in range(1, _TRIES + 1):
            try:
                with _room(Path(place).parent) as make_room, unfinished.open("wb") as file:
                    make_room(size, most)
                    if size:  # all of it at once, so that whoever counts sees it
                        os.posix_fallocate(file.fileno(), 0, size)
                there = store.table_at(path, sha256) if path == TABLE else path
                found = _download(store, there, size, unfinished)
                if found == sha256:
                    unfinished.replace(final)
                    sync_directory(final.parent)
                    return b""
                if tried == _TRIES:
                    raise RemoteError(
                        f"{store}/{printable(path)} has SHA-256 {found}, expected {sha256}: it is "
                        "damaged or was changed; push the data set again"
                    )
            finally:
                unfinished.unlink(missing_ok=True)
    except FileNotFoundError as error:
        raise RemoteError(
            f"{store}/{printable(path)} is missing; push the data set again"
        ) from error
    except OSError as error:
        raise RemoteError(
            f"{printable(str(error.filename or final))}: {refusal(error)}; make room, or choose "
            f"another cache, with cache= or ${_VARIABLE}"
        ) from error
    finally:
        os.close(locks)
    return b""


def _download(store: Store, path: str, size: int, place: Path) -> str:
    """Write a file, durably; returns its hash."""
    digest = hashlib.sha256()
    with place.open("r+b", buffering=0) as file:
        at = 0
        for piece in store.pieces(path, size, _PIECE):
            digest.update(piece)
            _write(file.fileno(), piece, at)
            at += len(piece)
        os.fsync(file.fileno())
    return digest.hexdigest()


def _write(descriptor: int, piece: memoryview, at: int) -> None:
    while piece:
        done = os.pwrite(descriptor, piece, at)
        piece, at = piece[done:], at + done


@contextmanager
def _room(top: Path) -> Iterator[Callable[[int, int | None], None]]:
    """Be the only one who counts what a cache has, and makes room for so many bytes."""
    with (top / _ROOM).open("r+b") as room:
        fcntl.flock(room, fcntl.LOCK_EX)
        yield partial(_make_room, top)


def _make_room(top: Path, size: int, most: int | None) -> None:
    """Evict shards that nobody reads, those first that were opened the longest ago.

    Raises:
        NoRoomError: too many are being read.
    """
    there = sorted(_evictable(top), key=lambda each: each[1].st_mtime_ns)
    excess = size + _MARGIN - shutil.disk_usage(top).free
    if most is not None:
        excess = max(excess, size + sum(status.st_blocks for _, status in there) * 512 - most)
    for path, status in there:
        if excess > 0 and _evict(top, path):
            excess -= status.st_blocks * 512
    if excess > 0:
        bound = "the disk is full" if most is None else f"cache_bytes is {sized(most)}"
        raise NoRoomError(
            f"{printable(str(top))}: no room for {sized(size)}: {bound}, and what is there is "
            f"being read; {sized(excess)} more are needed: give more, or let fewer read at a time"
        )


def _make_sparse(place: Path, size: int) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with place.open("ab") as file:
        file.truncate(size)


def _evictable(top: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Files of shards, of the directories that are data sets' here, and of no others."""
    for place in top.iterdir():
        if not (_DIGEST.fullmatch(place.name) and (place / _ORIGIN).is_file()):
            continue
        for path in place.rglob("*"):
            first = path.relative_to(place).parts[0]
            if first.startswith(".dataprep") or first in (MANIFEST, TABLE):
                continue
            with suppress(FileNotFoundError):  # it has just got its name
                if stat.S_ISREG((status := path.lstat()).st_mode):
                    yield path, status


def _evict(top: Path, path: Path) -> bool:
    digest, *names = path.relative_to(top).parts
    if names[-1].startswith(".") and names[-1].endswith((PARTIAL, _SPARSE)):
        names[-1] = names[-1][1:].removesuffix(PARTIAL).removesuffix(_SPARSE)
    locks = _open_locks(top / digest)
    try:
        _lock(locks, "/".join(names), fcntl.F_WRLCK, wait=False)
        path.unlink(missing_ok=True)
    except BlockingIOError:
        return False
    finally:
        os.close(locks)
    return True


def _beside(final: Path, suffix: str) -> Path:
    return final.with_name(f".{final.name}{suffix}")


def _is_there(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


def _open_locks(place: Path) -> int:
    return os.open(place / _LOCKS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock(locks: int, path: str, kind: int, *, wait: bool = True) -> None:
    """Lock a file's byte, shared or alone, or unlock it, for all that has this open.

    Raises:
        BlockingIOError: somebody else has it, and this is not to wait.
    """
    start = int.from_bytes(hashlib.sha256(path.encode()).digest()[:7])
    asked = struct.pack("hhqqi4x", kind, os.SEEK_SET, start, 1, 0)
    fcntl.fcntl(locks, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, asked)
