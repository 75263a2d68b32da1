"""Raw data in a bucket, laid out as a directory for whoever looks for names, sizes and changes.

Beside the directory is a file that says what it stands for, with a proof that a run of this user's
has put it there, which no archive of somebody else's can have. Lists and other small files that
people write are in it as they are. Of all else there is an empty file of the object's size, whose
time of modification is made of the ETag: what is in it is read from the bucket, by ranges.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dataprep.errors import SourceError
from dataprep.remote.process import requests
from dataprep.remote.store import RemoteObject, Store
from dataprep.system.durable_files import is_partial, make_durably, partial_path
from dataprep.system.messages import printable, refusal, sized, some_of
from dataprep.system.ownership import is_proven, proof_of, require_own
from dataprep.system.regular_files import read_regular

_FILES: Final = "files"
_MARK: Final = "dataprep-bucket.json"  # beside the directory that is called so
_PURPOSE: Final = b"raw "  # of what is proven
_OWN: Final = "choose an --index_dir of your own"
_MOST: Final = 100_000  # objects; more are images one by one, each of which is a request
_MOST_COPIED: Final = 1 << 29  # bytes, as of any list
_COPIED: Final = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".xml", ".lst", ".idx", ".toml", ".yaml"),
)
_AT_ONCE: Final = 16
_SECONDS: Final = (1 << 31) - 1  # what all file systems can say
_ABANDONED_SECONDS: Final = 86_400

_Objects = dict[str, RemoteObject]


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a directory stands for."""

    address: str  # of the bucket
    objects: Mapping[str, RemoteObject]  # those that are not in the directory, by path

    def read(self, path: str, start: int, size: int) -> bytes:
        """Bytes of an object, which must be what was listed.

        Raises:
            RemoteError: it is another one, or the store does not answer.
            FileNotFoundError: it is gone.
        """
        etag = self.objects[path].etag
        return requests().ask("read", self.address, path=path, start=start, size=size, etag=etag)


def bucket_at(directory: str) -> Bucket | None:
    """The bucket that a directory stands for; None if it is one like any other.

    Raises:
        SourceError: there is a file that says so, which this user's runs have not put there.
    """
    home, _, name = directory.rpartition("/")
    mark = Path(home, _MARK)
    if name != _FILES or not os.path.lexists(mark):
        return None
    with suppress(OSError, ValueError):
        proof, said = msgspec.json.decode(read_regular(mark), type=tuple[str, msgspec.Raw])
        if is_proven(_PURPOSE + bytes(said), proof):
            address, objects, _ = msgspec.json.decode(said, type=tuple[str, _Objects, _Objects])
            return Bucket(address, objects)
    raise SourceError(
        f"{printable(str(mark))} says that {_FILES}/ beside it stands for a bucket, and no run of "
        "this user has put it there; move that file away, or give the bucket as --raw"
    )


def laid_out(address: str, place: Path) -> Path:
    """Lay out what is in a bucket now, in a directory below `place`, and return its path.

    Where that is there already it stays, since another run may be reading it.

    Raises:
        SourceError: there is nothing, or what cannot be read so.
        DatasetError: somebody else has put a directory there.
        RemoteError: the store does not answer, or refuses.
    """
    found = msgspec.json.decode(requests().ask("list", address), type=_Objects)
    # Some consoles make an empty object for a folder.
    listed = {path: entry for path, entry in found.items() if path and not path.endswith("/")}
    _check(address, listed)
    lists = {path: entry for path, entry in listed.items() if _is_copied(path)}
    rest = {path: entry for path, entry in listed.items() if path not in lists}
    said = msgspec.json.encode((address, rest, lists))
    mark = msgspec.json.encode((proof_of(_PURPOSE + said), msgspec.Raw(said)))
    home = place / f"raw-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    require_own(place, _OWN, linked=True, root=True)
    require_own(home, _OWN, writers=0o022)
    try:
        if not _stands_for(home, mark):
            make_durably(place)
            _sweep(home)
            _replace(home, Bucket(address, listed), lists, mark)
    except OSError as error:
        raise SourceError(
            f"{error.filename or place}: what is in {address} cannot be laid out: "
            f"{refusal(error)}; make room, or choose another place with --index_dir"
        ) from error
    return home / _FILES


def list_objects(store: Store) -> bytes:
    """Every object by its path; for `laid_out`, which asks for it."""
    return msgspec.json.encode(dict(store.list(_MOST + 1)))


def _stands_for(home: Path, mark: bytes) -> bool:
    try:
        return (home / _MARK).read_bytes() == mark
    except FileNotFoundError:
        return False


def _replace(home: Path, bucket: Bucket, lists: Mapping[str, RemoteObject], mark: bytes) -> None:
    """Put all of it there, as of now, at once."""
    new, old = partial_path(home), partial_path(home)
    try:
        new.mkdir(mode=0o700)
        _fill(bucket, new / _FILES, lists)
        (new / _MARK).write_bytes(mark)
        with suppress(FileNotFoundError):
            home.replace(old)
        try:
            new.replace(home)
        except OSError:
            if not _stands_for(home, mark):  # nor has another run been sooner
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _sweep(home: Path) -> None:
    """Delete what runs have left there that were killed."""
    for left in home.parent.glob(f".{home.name}.*"):
        with suppress(FileNotFoundError):
            age = time.time() - left.stat().st_mtime
            if is_partial(left.name) and age > _ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _check(address: str, listed: Mapping[str, RemoteObject]) -> None:
    """Refuse what cannot be laid out."""
    if not listed:
        raise SourceError(f"{address} has no objects; check the address")
    if len(listed) > _MOST:
        raise SourceError(
            f"{address} has more than {_MOST:,} objects, which is the most that are read in a "
            "bucket; pack its images, as tar archives or WebDataset shards, say"
        )
    if bad := [path for path in listed if not _is_clean(path)]:
        raise SourceError(f"{address}: {some_of(bad)} cannot be the path of a file; rename it")
    folders = {str(above) for path in listed for above in PurePosixPath(path).parents}
    if both := folders & listed.keys():
        raise SourceError(f"{address}: {some_of(both)} is an object and a folder; rename one")


def _is_clean(path: str) -> bool:
    parts = path.split("/")
    good = all(part not in ("", ".", "..") and len(part.encode()) < 256 for part in parts)
    return good and "\0" not in path


def _is_copied(path: str) -> bool:
    """Whether it is a list, or a table beside images, as Hugging Face's ``metadata.parquet``."""
    return path.lower().endswith(_COPIED) or path.rpartition("/")[2].startswith("metadata.")


def _fill(bucket: Bucket, new: Path, lists: Mapping[str, RemoteObject]) -> None:
    for path, entry in bucket.objects.items():
        place = new / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.truncate(entry.bytes)

    def copy(path: str) -> None:
        size = lists[path].bytes
        if size > _MOST_COPIED:
            raise SourceError(
                f"{bucket.address}/{printable(path)} has {sized(size)}; lists may have "
                f"{sized(_MOST_COPIED)}"
            )
        (new / path).write_bytes(bucket.read(path, 0, size))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(copy, lists):
            pass
    for path, entry in bucket.objects.items():
        # Others if the object is another, most likely.
        second = int.from_bytes(hashlib.sha256(entry.etag.encode()).digest()[:8]) % _SECONDS
        os.utime(new / path, (second, second))
