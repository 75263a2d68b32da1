"""A target directory that nobody else can put a foot into."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from typing_extensions import Self

from dataprep.errors import StagingError
from dataprep.staging.private import PRIVATE
from dataprep.staging.target.descent import Descent, descend, for_everybody, owner_name, remove_made
from dataprep.staging.target.partials import partials_of
from dataprep.staging.target.refusals import refused
from dataprep.system.durable_files import partial_path
from dataprep.system.messages import printable
from dataprep.system.state_files import to_json

_MADE = "made"  # notes of the directories that were created; one file a process that created some
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_BYTES = 1 << 30  # of a file that is read as a whole, such as the paths of many millions
_LONGEST_NAME = 80


class StageDirectory:
    """An open target directory; everything is reached through its descriptor. A context manager.

    Attributes:
        path: for messages.
        descriptor: of the directory.
        private: descriptor of `PRIVATE` in it, mode 0700.
    """

    path: Path
    descriptor: int
    private: int

    def __init__(self, path: Path, descriptor: int, private: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.private = private

    @classmethod
    def make(cls, path: Path) -> Self:
        """Create what is missing of ``path``, mode 0700, and open it.

        Raises:
            NoRoomError: what is missing has no room.
            StagingError: it or what it is in belongs to somebody else, is or contains somebody
                else's symbolic link, may be written by everybody, is no directory, is on a
                read-only file system, and the like.
        """
        walk = descend(path, make=True)
        assert walk is not None  # noqa: S101 - what is missing was made
        try:
            with suppress(FileExistsError):
                _check_own(path, walk.descriptor)
                os.mkdir(PRIVATE, 0o700, dir_fd=walk.descriptor)
            opened = cls(path, walk.descriptor, _open_private(path, walk))
        except BaseException as error:
            os.close(walk.descriptor)
            remove_made(walk.made)
            if isinstance(error, OSError):
                raise refused(path, error, copied=False) from None
            raise
        try:
            if walk.made:
                note = to_json(walk.made)
                name = private_name(_MADE, secrets.token_hex(4))
                opened.write_private(name, note, copied=False)
        except BaseException:
            with suppress(OSError):
                os.rmdir(PRIVATE, dir_fd=walk.descriptor)
            opened.close()
            remove_made(walk.made)
            raise
        return opened

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """The same of one that is there already; None if nothing was ever staged into it."""
        walk = descend(path, make=False)
        if walk is None:
            return None
        try:
            os.stat(PRIVATE, dir_fd=walk.descriptor, follow_symlinks=False)
            _check_own(path, walk.descriptor)
            return cls(path, walk.descriptor, _open_private(path, walk))
        except BaseException as error:
            os.close(walk.descriptor)
            if isinstance(error, FileNotFoundError):
                return None
            if isinstance(error, OSError):
                raise refused(path, error) from None
            raise

    def is_current(self) -> bool:
        """Whether the path still leads here: not if an epilog has removed it meanwhile."""
        try:
            target = self.path.stat()
            private = os.stat(PRIVATE, dir_fd=self.descriptor, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(target, os.fstat(self.descriptor)) and os.path.samestat(
            private, os.fstat(self.private)
        )

    def made(self) -> list[str]:
        """The directories that `make` created for this path, by this or other processes.

        Absolute, without links, outermost first.
        """
        places: set[str] = set()
        for name in self.private_names(_MADE):
            places.update(_strings(self.read_private(name)))
        return sorted(places, key=lambda place: place.count("/"))

    def private_names(self, kind: str = "") -> list[str]:
        """The names in the private directory that `private_name` made of ``kind``, or all."""
        try:
            names = os.listdir(self.private)  # noqa: PTH208 - Path knows no descriptors
        except OSError as error:
            raise refused(self.path / PRIVATE, error) from None
        return sorted(name for name in names if name.startswith(f"{kind}-") or not kind)

    def read_private(self, name: str) -> bytes | None:
        """What is in a private file; None if there is none that is a plain file of ours.

        Raises:
            StagingError: the storage is damaged.
        """
        return self._read(self.private, name, self.path / PRIVATE / name)

    def open_private(self, name: str) -> AbstractContextManager[BinaryIO | None]:
        """The same of one that may be large: open for reading, with no limit to its size."""
        return self._opened(self.private, name, self.path / PRIVATE / name)

    def read(self, name: str) -> bytes | None:
        """What is in a file directly in the target, like `read_private`."""
        return self._read(self.descriptor, name, self.path / name)

    def _read(self, directory: int, name: str, place: Path) -> bytes | None:
        with self._opened(directory, name, place) as file:
            if file is None or os.fstat(file.fileno()).st_size > _MOST_BYTES:
                return None
            return file.read(_MOST_BYTES)

    @contextmanager
    def _opened(self, directory: int, name: str, place: Path) -> Iterator[BinaryIO | None]:
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
        except OSError:
            yield None
            return
        try:
            status = os.fstat(descriptor)
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            with os.fdopen(descriptor, "rb", closefd=False) if ours else nullcontext() as file:
                yield file
        except OSError as error:
            raise refused(place, error, "reading it") from None
        finally:
            os.close(descriptor)

    def write_private(
        self, name: str, data: bytes | Iterable[bytes], *, copied: bool = True
    ) -> None:
        """Put ``data`` into a private file: whole or not at all, even after a power cut.

        Args:
            name: the file's.
            data: what goes into it, as a whole or in pieces.
            copied: whether something may have been copied already; see `refused`.

        Raises:
            NoRoomError: the storage is full, and nothing has been copied.
            StagingError: the storage is full, read-only, damaged, or gone.
        """
        try:
            _write(self.private, name, data, 0o600)
        except OSError as error:
            doing = f"writing {PRIVATE}/{name}"
            raise refused(self.path, error, doing, copied=copied) from None

    def remove_private(self, name: str) -> None:
        """Remove a private file, durably; nothing if there is none.

        Raises:
            StagingError: the storage is read-only or damaged.
        """
        try:
            _remove(self.private, name)
        except OSError as error:
            raise refused(self.path, error, f"removing {PRIVATE}/{name}") from None

    def remove_unfinished(self, names: Collection[str]) -> None:
        """Remove what killed processes left half-written of private files; hold the lock.

        Raises:
            StagingError: the storage is read-only or damaged.
        """
        for left in filter(partials_of(names), self.private_names()):
            self.remove_private(left)

    def write(self, name: str, data: bytes) -> None:
        """Put ``data`` into a file directly in the target, like `write_private`; mode 0644."""
        try:
            _write(self.descriptor, name, data, 0o644)
        except OSError as error:
            raise refused(self.path, error, f"writing {name}") from None

    def remove(self, name: str) -> None:
        """Remove a file directly in the target, like `remove_private`."""
        try:
            _remove(self.descriptor, name)
        except OSError as error:
            raise refused(self.path, error, f"removing {name}") from None

    def close(self) -> None:
        """Close both descriptors; what is in the directory stays."""
        os.close(self.private)
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def private_name(kind: str, name: str) -> str:
    """A file name ``KIND-NAME.json`` of any ``name``; different names never make the same."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_LONGEST_NAME]
    if plain != name:
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        plain = f"{plain}~{digest[:16]}"
    return f"{kind}-{plain}.json"


def _write(directory: int, name: str, data: bytes | Iterable[bytes], mode: int) -> None:
    temporary = partial_path(Path(name)).name
    descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)


def _remove(directory: int, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)


def _check_own(path: Path, descriptor: int) -> None:
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        what = f"belongs to {owner_name(status.st_uid)}"
    elif for_everybody(status.st_mode):
        what = "may be written by everybody"
    else:
        return
    way_out = "name one of your own"
    if os.access(".", os.W_OK, dir_fd=descriptor, effective_ids=True):
        way_out = f"name a directory in it, e.g. {printable(str(path / 'imagenet'))}"
    raise StagingError(f"{printable(str(path))} {what}; {way_out}")


def _open_private(path: Path, walk: Descent) -> int:
    """Open `PRIVATE`, which must be ours alone."""
    place = printable(str(path / PRIVATE))
    found = os.open(PRIVATE, _LOOK, dir_fd=walk.descriptor)
    try:
        status = os.fstat(found)
        if not stat.S_ISDIR(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no directory"
            raise StagingError(f"{place} is {kind}, so staging did not make it; remove it")
        if status.st_uid != os.geteuid():
            raise StagingError(
                f"{place} belongs to {owner_name(status.st_uid)}; name another directory with --to"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise StagingError(
                f"{place} may be written by others, so nothing in it can be trusted; remove "
                f"{printable(str(path))} and stage again"
            )
        if stat.S_IMODE(status.st_mode) != 0o700:  # a umask, or an ACL to be inherited
            Path(f"/proc/self/fd/{found}").chmod(0o700)
        return os.open(".", _DIRECTORY, dir_fd=found)
    finally:
        os.close(found)


def _strings(data: bytes | None) -> Sequence[str]:
    import json

    try:
        found = json.loads(data or b"[]")
    except ValueError:
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
