"""Thumbnails, made when they are seen, and kept in the user's cache directory, never in a set."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Final

from dataprep.errors import DataprepError, DatasetError
from dataprep.review.pictures import small_picture
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.system.durable_files import write_durably
from dataprep.system.job_limits import usable_cores
from dataprep.system.ownership import require_own

SIDE: Final = 176  # pixels of the longer side
LARGE: Final = 1024  # the same of one that is looked at alone
_QUALITY: Final = 75
_END: Final = b"\xff\xd9"  # of a whole JPEG: a power cut may leave a part
_MOST: Final = 1_000_000_000  # bytes of all sets' thumbnails
_TOGETHER: Final = 1000  # rows whose thumbnails are in one directory, and go together
_LOOKED: Final = 20_000_000  # bytes that are written between two looks at how many there are


def tag(key: str) -> str:
    """What tells in a thumbnail's address which key it is of."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class Thumbnails:
    """Those of one data set, from any thread; made by as many threads as there are cores.

    Args:
        sealed: the whole set.
        top: where those of all sets are; None: they are not kept.
    """

    def __init__(self, sealed: SealedSet, top: Path | None) -> None:
        self._splits = {name: FinishedSplit(sealed, name) for name in sealed.splits}
        starts = ((rows[0], name) for name, rows in first_rows(sealed.manifest).items() if rows)
        self._starts = sorted(starts, reverse=True)
        self._pool = ThreadPoolExecutor(usable_cores(), "thumbnails")
        self._top = top and _private(top)
        self._place = self._top and self._top / sealed.manifest.sha256[:32]
        self._written, self._lock = _LOOKED, Lock()

    def picture(self, row: int, named: str, side: int = SIDE) -> bytes:
        """A JPEG of the image in this row of the table of records.

        Args:
            row: of a stored image.
            named: the `tag` of its key.
            side: pixels of its longer side.

        Raises:
            DataprepError: the image is damaged, or another.
            LookupError: there is no such image.
        """
        path = None
        if self._place is not None and side == SIDE:
            path = self._place / str(row // _TOGETHER) / f"{row}-{named}.jpg"
            try:
                data = path.read_bytes()
            except OSError:
                data = b""
            if data.endswith(_END):
                return data
        data = self._pool.submit(self._made, row, named, side).result()
        if path is not None:
            self._keep(path, data)
        return data

    def close(self) -> None:
        """Begin no more of them."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _made(self, row: int, named: str, side: int) -> bytes:
        start, name = next(it for it in self._starts if it[0] <= row)
        example = self._splits[name][row - start]
        if tag(example.key) != named:
            raise DatasetError("the shard has another image there; `dataprep verify` names it")
        buffer = io.BytesIO()
        small_picture(example, (side, side), quick=True).save(buffer, "JPEG", quality=_QUALITY)
        return buffer.getvalue()

    def _keep(self, path: Path, data: bytes) -> None:
        try:
            for place in (path.parent.parent, path.parent):
                place.mkdir(mode=0o700, exist_ok=True)
            write_durably(path, data, flush=False, mode=0o600)
        except OSError:  # no room, say: it is made again
            return
        with self._lock:
            self._written += len(data)
            if self._written >= _LOOKED and self._top is not None:
                self._written = 0
                make_room(self._top, _MOST)


def cache_directory() -> Path | None:
    """Where thumbnails are kept; None if there is no home directory."""
    home = Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache"))  # noqa: PTH111  # never fails
    return home / "dataprep" / "thumbnails" if home.is_absolute() else None


def make_room(top: Path, most: int) -> None:
    """Delete the thumbnails that were made first, of any set, until there are at most so many."""
    found = []
    for place in top.glob("*/*"):
        try:
            found.append((place.lstat().st_mtime_ns, _size(place), place))
        except OSError:  # another process has deleted it
            continue
    spare = sum(size for _, size, _ in found) - most
    for _, size, place in sorted(found):
        if spare <= 0:
            break
        shutil.rmtree(place, ignore_errors=True)
        spare -= size


def _size(directory: Path) -> int:
    with os.scandir(directory) as found:
        return sum(each.stat(follow_symlinks=False).st_size for each in found)


def _private(top: Path) -> Path | None:
    """A directory that only this user reads; None if there cannot be one: then nothing is kept."""
    try:
        top.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_own(top, "nothing is kept there")
        if stat.S_IMODE(top.stat().st_mode) & 0o077:
            top.chmod(0o700)
    except (OSError, DataprepError):
        return None
    return top
