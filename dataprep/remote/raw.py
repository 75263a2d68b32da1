"""Raw data in a bucket, laid out as a directory for whoever looks for names, sizes and changes.

Beside the directory, in ``DIRECTORY.bucket``, is what it stands for. Lists and other small files
that people write are in it as they are. Of all else there is an empty file of the object's size,
whose time of modification is made of the ETag: what is in it is read from the bucket, by ranges.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from dataprep.errors import SourceError
from dataprep.remote.process import requests
from dataprep.remote.store import RemoteObject, Store
from dataprep.system.durable_files import make_durably, partial_path, write_durably
from dataprep.system.messages import printable, refusal, sized, some_of

_MARK: Final = ".bucket"
_MOST: Final = 100_000  # objects; more are images one by one, each of which is a request
_MOST_COPIED: Final = 1 << 29  # bytes, as of any list
_COPIED: Final = (
    *(".csv", ".tsv", ".txt", ".json", ".jsonl", ".xml", ".lst", ".idx", ".toml", ".yaml"),
)
_AT_ONCE: Final = 16
_SECONDS: Final = (1 << 31) - 1  # what all file systems can say


class Listed(msgspec.Struct, frozen=True):
    """An object as it was listed."""

    bytes: int
    etag: str

    @property
    def modified(self) -> int:
        """Seconds that are others if the object is another, most likely."""
        return int.from_bytes(hashlib.sha256(self.etag.encode()).digest()[:8]) % _SECONDS


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a directory stands for.

    Attributes:
        address: of the bucket.
        objects: those that are not in the directory, by path.
    """

    address: str
    objects: Mapping[str, Listed]

    def read(self, path: str, start: int, size: int) -> bytes:
        """Bytes of an object, which must be what was listed.

        Raises:
            RemoteError: it is another one, or the store does not answer.
            FileNotFoundError: it is gone.
        """
        etag = self.objects[path].etag
        return requests().ask("read", self.address, path=path, start=start, size=size, etag=etag)


def bucket_at(directory: str) -> Bucket | None:
    """The bucket that a directory stands for; None if it is one like any other."""
    try:
        data = Path(directory + _MARK).read_bytes()
        return Bucket(*msgspec.json.decode(data, type=tuple[str, dict[str, Listed]]))
    except (OSError, ValueError):
        return None


def laid_out(address: str, place: Path) -> Path:
    """Lay out what is in a bucket now, in a directory below `place`, and return its path.

    Raises:
        SourceError: there is nothing, or what cannot be read so.
        RemoteError: the store does not answer, or refuses.
    """
    listed = {path: Listed(size, etag) for path, size, etag in _list(address)}
    _check(address, listed)
    directory = place / f"raw-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    copied = [path for path in listed if path.lower().endswith(_COPIED) or _is_metadata(path)]
    rest = {path: entry for path, entry in listed.items() if path not in set(copied)}
    try:
        make_durably(place)
        new = partial_path(directory)
        try:
            _fill(address, new, listed, copied)
            shutil.rmtree(directory, ignore_errors=True)
            new.replace(directory)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        mark = directory.with_name(directory.name + _MARK)
        write_durably(mark, msgspec.json.encode((address, rest)), flush=False)
    except OSError as error:
        raise SourceError(
            f"{error.filename or place}: what is in {address} cannot be laid out: {refusal(error)}"
        ) from error
    return directory


def list_objects(store: Store) -> bytes:
    """Every object's path, size and ETag; for `laid_out`, which asks for it."""
    return msgspec.json.encode([_entry(*each) for each in store.list()])


def _entry(path: str, found: RemoteObject) -> tuple[str, int, str]:
    return path, found.bytes, found.etag


def _list(address: str) -> Iterator[tuple[str, int, str]]:
    found = requests().ask("list", address)
    for path, size, etag in msgspec.json.decode(found, type=list[tuple[str, int, str]]):
        # Some consoles make an empty object for a folder.
        if path and not path.endswith("/"):
            yield path, size, etag


def _check(address: str, listed: Mapping[str, Listed]) -> None:
    """Refuse what cannot be laid out."""
    if not listed:
        raise SourceError(f"{address} has no objects; check the address")
    if len(listed) > _MOST:
        raise SourceError(
            f"{address} has {len(listed):,} objects, and {_MOST:,} at most are read in a bucket; "
            "pack its images, as tar archives or WebDataset shards, say"
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


def _is_metadata(path: str) -> bool:
    """A table beside images, as Hugging Face's ``metadata.parquet``."""
    return path.rpartition("/")[2].startswith("metadata.")


def _fill(address: str, new: Path, listed: Mapping[str, Listed], copied: list[str]) -> None:
    for path, entry in listed.items():
        place = new / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.truncate(entry.bytes)
    bucket = Bucket(address, listed)

    def copy(path: str) -> None:
        size = listed[path].bytes
        if size > _MOST_COPIED:
            raise SourceError(
                f"{address}/{printable(path)} has {sized(size)}; lists may have "
                f"{sized(_MOST_COPIED)}"
            )
        (new / path).write_bytes(bucket.read(path, 0, size))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for _ in pool.map(copy, copied):
            pass
    for path, entry in listed.items():
        os.utime(new / path, (entry.modified, entry.modified))
