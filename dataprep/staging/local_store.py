"""A directory that a data set is pushed into, with the calls that a place in a bucket has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.errors import UsageError
from dataprep.remote.store import RemoteObject
from dataprep.system.durable_files import (
    make_durably,
    storage_error,
    sync_directory,
    write_durably,
    write_once,
)
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import file_sha256


class LocalStore:
    """A directory of this machine, or of a disk to carry away; see `Store` for what each does.

    Args:
        place: of the directory; made when something is put there.

    Raises:
        UsageError: there is something else.
    """

    def __init__(self, place: Path) -> None:
        if place.exists() and not place.is_dir():
            raise UsageError(
                f"{place} is a file; expected a directory, a name that ends in .tar, or a bucket"
            )
        self.address = str(place)
        self._place = place

    def __str__(self) -> str:
        return self.address

    def find(self, path: str) -> RemoteObject | None:
        """What is there, of that hash: it is read."""
        with self._explained():
            try:
                sha256 = file_sha256(self._place / path)
                return RemoteObject((self._place / path).stat().st_size, sha256, sha256)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read(self, path: str) -> bytes | None:
        """All of a small file; None if there is none."""
        with self._explained():
            try:
                return read_regular(self._place / path)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def list(self) -> Iterator[tuple[str, RemoteObject]]:
        """Every file below, without hashes."""
        for folder, _, names in os.walk(self._place):
            for name in names:
                path = Path(folder, name)
                size = path.lstat().st_size
                yield path.relative_to(self._place).as_posix(), RemoteObject(size, "", "")

    def put(self, path: str, pieces: Callable[[], Iterator[bytes]], _sha256: str) -> None:
        """A file of these pieces, whole or not at all; it and its name are durable."""
        final = self._place / path
        # One name for all tries: who pushes has said so, and what a killed one left is replaced.
        temporary = final.with_name(f".{final.name}.part")
        with self._explained(f"writing {path}"):
            make_durably(final.parent)
            try:
                with temporary.open("wb") as file:
                    file.writelines(pieces())
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(final)
                sync_directory(final.parent)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

    def commit(self, path: str, data: bytes, _sha256: str, before: RemoteObject | None) -> bool:
        """Put a small file where ``before`` is; False if something else is there."""
        with self._explained(f"writing {path}"):
            make_durably(self._place)
            if before is None:
                return write_once(self._place / path, data)
            if self.find(path) != before:
                return False
            write_durably(self._place / path, data)
            sync_directory(self._place)
            return True

    def delete(self, paths: Sequence[str]) -> None:
        """Delete these, and directories that become empty by it."""
        with self._explained():
            for path in paths:
                (self._place / path).unlink(missing_ok=True)
                for above in Path(path).parents[:-1]:
                    with suppress(OSError):  # it holds something else
                        (self._place / above).rmdir()

    @contextmanager
    def _explained(self, doing: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise storage_error(error, self._place, doing) from error
