"""A target directory that no other user can tamper with."""

from __future__ import annotations

import errno
import hashlib
import os
import pwd
import re
import stat
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Self

from dataprep.errors import StagingError
from dataprep.staging.target.paths import PRIVATE, partial_name, partials_of, place_of, target_error
from dataprep.system.messages import printable

_ATTEMPTS = 5
_MOST_LINKS = 40  # the kernel's own limit
_LONGEST_NAME = 80

# Search permission is all that a directory on the way must grant; O_DIRECTORY wakes automounts.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe must not block
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


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
            StagingError: it, or what leads there, could be changed by another user; it is no
                directory, is on a read-only file system, and the like.
        """
        for _ in range(_ATTEMPTS):
            with suppress(FileNotFoundError):  # somebody cleans up here at this moment
                opened = cls._open(path, make=True)
                assert opened is not None  # noqa: S101 - what is missing was made
                return opened
        raise target_error(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), path)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """The same of one that is there already; None if nothing was ever staged into it."""
        try:
            return cls._open(path, make=False)
        except FileNotFoundError:
            return None

    @classmethod
    def _open(cls, path: Path, *, make: bool) -> Self | None:
        try:
            directory = open_directory(path, make=make)
            if directory is None:
                return None
            try:
                if not make:
                    os.stat(PRIVATE, dir_fd=directory, follow_symlinks=False)
                _check_own(path, directory)
                with suppress(FileExistsError):
                    os.mkdir(PRIVATE, 0o700, dir_fd=directory)
                return cls(path, directory, _open_private(path, directory))
            except BaseException:
                os.close(directory)
                raise
        except FileNotFoundError:
            raise
        except OSError as error:
            raise target_error(error, path, copied=False) from None

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

    def private_names(self, kind: str = "") -> list[str]:
        """The names in the private directory that `private_name` made of ``kind``, or all."""
        try:
            names = os.listdir(self.private)  # noqa: PTH208 - Path knows no descriptors
        except OSError as error:
            raise target_error(error, self.path, f"listing {PRIVATE}") from None
        return sorted(name for name in names if name.startswith(f"{kind}-") or not kind)

    def read_private(self, name: str) -> bytes | None:
        """What is in a private file; None if there is none that is a plain file of ours.

        Raises:
            StagingError: the storage is damaged.
        """
        return _read(self.private, name, self.path / PRIVATE / name)

    def write_private(self, name: str, data: bytes, *, copied: bool = True) -> None:
        """Put ``data`` into a private file: whole or not at all, even after a power cut.

        Args:
            name: the file's.
            data: what goes into it.
            copied: whether something may have been copied already; see `target_error`.

        Raises:
            NoRoomError: the storage is full, and nothing has been copied.
            StagingError: the storage is full, read-only, damaged, or gone.
        """
        try:
            _write(self.private, name, data, 0o600)
        except OSError as error:
            doing = f"writing {PRIVATE}/{name}"
            raise target_error(error, self.path, doing, copied=copied) from None

    def remove_private(self, name: str) -> None:
        """Remove a private file, durably; nothing if there is none.

        Raises:
            StagingError: the storage is read-only or damaged.
        """
        self._remove(self.private, name, f"{PRIVATE}/{name}")

    def remove_unfinished(self, names: Collection[str]) -> None:
        """Remove what killed processes left half-written of private files; hold the lock."""
        for left in filter(partials_of(names), self.private_names()):
            self.remove_private(left)

    def read(self, name: str) -> bytes | None:
        """What is in a file directly in the target, like `read_private`."""
        return _read(self.descriptor, name, self.path / name)

    def write(self, name: str, data: bytes) -> None:
        """Put ``data`` into a file directly in the target, like `write_private`; mode 0644."""
        try:
            _write(self.descriptor, name, data, 0o644)
        except OSError as error:
            raise target_error(error, self.path, f"writing {name}") from None

    def remove(self, name: str) -> None:
        """Remove a file directly in the target, like `remove_private`."""
        self._remove(self.descriptor, name, name)

    def _remove(self, directory: int, name: str, shown: str) -> None:
        try:
            os.unlink(name, dir_fd=directory)
            os.fsync(directory)
        except FileNotFoundError:
            return
        except OSError as error:
            raise target_error(error, self.path, f"removing {shown}") from None

    def close(self) -> None:
        """Close both descriptors; what is in the directory stays."""
        os.close(self.private)
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def private_name(kind: str, name: str) -> str:
    """A file name ``KIND-NAME.json`` of any ``name``; different names never make the same."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:_LONGEST_NAME]
    if plain != name:
        digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
        plain = f"{plain}~{digest[:16]}"
    return f"{kind}-{plain}.json"


def open_directory(path: Path, *, make: bool) -> int | None:
    """Open a directory step by step, so that no link planted on the way leads elsewhere.

    In a directory that everybody may write, only what is root's or this user's is entered or
    followed, and only if that directory is sticky, so that nobody else can replace it.

    Args:
        path: of the directory.
        make: create what is missing, mode 0700.

    Returns:
        An open descriptor, for the caller to close; None if the directory is not there.

    Raises:
        StagingError: the rule is broken.
        OSError: the system refuses.
    """
    if "\0" in str(path):
        raise StagingError(f"{printable(str(path))} cannot be a path: it holds a NUL character")
    pending, links = deque((Path.cwd() / path).parts[1:]), 0
    here = os.open("/", _STEP)
    try:
        while pending:
            name = pending.popleft()
            above = os.fstat(here)
            if name != "..":
                _check_parent(here, above)
            found = _open_entry(here, name, make)
            if found is None:
                return None
            try:
                status = os.fstat(found)
                if name != "..":
                    _check_entry(here, name, status, above)
                if not stat.S_ISLNK(status.st_mode):
                    here, found = found, here
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "too many symbolic links")
                target = os.readlink("", dir_fd=found)
                if target.startswith("/"):
                    os.dup2(root := os.open("/", _STEP), here, inheritable=False)
                    os.close(root)
                words = [part for part in target.split("/") if part not in ("", ".")]
                pending.extendleft(reversed(words))
            finally:
                os.close(found)
        return os.open(".", _DIRECTORY, dir_fd=here)
    finally:
        os.close(here)


def _open_entry(parent: int, name: str, make: bool) -> int | None:
    """A directory, or whatever else has the name, made if need be; None if there is nothing."""
    try:
        return os.open(name, _STEP, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            return None
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        return os.open(name, _LINK, dir_fd=parent)
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:  # another process of this node was faster
        return os.open(name, _LINK, dir_fd=parent)
    found = os.open(name, _STEP, dir_fd=parent)
    _make_private(found)
    return found


def _check_parent(parent: int, status: os.stat_result) -> None:
    open_to_all = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    if open_to_all and status.st_uid != os.geteuid():
        raise StagingError(
            f"{printable(place_of(parent))}: everybody may write it and it is not sticky, so "
            "anybody could replace what is in it; choose another place (--to)"
        )


def _check_entry(parent: int, name: str, status: os.stat_result, above: os.stat_result) -> None:
    place = printable(os.path.join(place_of(parent), name))  # noqa: PTH118
    kind = stat.S_IFMT(status.st_mode)
    if kind not in (stat.S_IFDIR, stat.S_IFLNK):
        raise StagingError(f"{place} is not a directory; choose another place (--to)")
    if above.st_mode & stat.S_IWOTH and status.st_uid not in (0, os.geteuid()):
        what = "is a symbolic link of" if kind == stat.S_IFLNK else "belongs to"
        raise StagingError(
            f"{place} {what} {_owner_name(status.st_uid)}, in a directory that everybody may "
            "write; choose another name (--to)"
        )


def _check_own(path: Path, descriptor: int, writers: int = stat.S_IWOTH) -> None:
    """Refuse a directory that is not this user's, or that others may write."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        what = f"belongs to {_owner_name(status.st_uid)}"
    elif status.st_mode & writers:
        what = "may be written by others"
    else:
        return
    inside = printable(str(path / "imagenet"))
    raise StagingError(
        f"{printable(str(path))} {what}; choose a directory of your own, e.g. --to {inside}"
    )


def _open_private(path: Path, directory: int) -> int:
    """Open `PRIVATE`, which must be ours alone."""
    try:
        found = os.open(PRIVATE, _LINK | os.O_DIRECTORY, dir_fd=directory)
    except NotADirectoryError:
        place = printable(str(path / PRIVATE))
        raise StagingError(
            f"{place} is no directory, so staging did not make it; remove it"
        ) from None
    try:
        _check_own(path / PRIVATE, found, stat.S_IWGRP | stat.S_IWOTH)
        _make_private(found)
        return os.open(".", _DIRECTORY, dir_fd=found)
    finally:
        os.close(found)


def _make_private(directory: int) -> None:
    if stat.S_IMODE(os.fstat(directory).st_mode) != 0o700:  # a umask, or an ACL to be inherited
        Path(f"/proc/self/fd/{directory}").chmod(0o700)


def _owner_name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _read(directory: int, name: str, place: Path) -> bytes | None:
    try:
        descriptor = os.open(name, _READ, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    except OSError as error:
        raise target_error(error, place, "reading") from None
    finally:
        os.close(descriptor)


def _write(directory: int, name: str, data: bytes, mode: int) -> None:
    temporary = partial_name(name)
    descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)  # whatever the umask
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=directory)
        raise
    os.fsync(directory)
