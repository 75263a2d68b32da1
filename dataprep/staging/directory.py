"""A target directory that no other user can tamper with, and the files below it.

All is reached through descriptors, and no link is followed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self, TypeVar

from dataprep.errors import NoRoomError, StagingError
from dataprep.system.durable_files import PARTIAL, write_durably
from dataprep.system.messages import printable, refusal, shortage
from dataprep.system.ownership import flaw_of, owner_name
from dataprep.system.state_files import encode, read_state
from dataprep_schemas.state import State

_ATTEMPTS = 5
_LONGEST_NAME = 80

# Search permission is all that a directory on the way must grant; O_DIRECTORY wakes automounts.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTIAL = re.compile(rf"\.([0-9a-f]{{16}})\.[0-9a-f]{{8}}{re.escape(PARTIAL)}")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})

PRIVATE = ".dataprep-stage"  # staging's own directory in a target

AnyState = TypeVar("AnyState", bound=State)


def place_of(directory: int) -> str:
    """The absolute path of an open directory, without links; for messages and notes."""
    try:
        return str(Path(f"/proc/self/fd/{directory}").readlink())
    except OSError:
        return "the target"


@contextmanager
def opened_parent(directory: int, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Open the directory that a file is in, one component after the other.

    Args:
        directory: an open descriptor.
        path: of the file, relative, with ``/``.
        create: make what is missing, durably.

    Yields:
        The descriptor of the file's directory, and the file's own name.

    Raises:
        StagingError: the path leads out of the directory.
        OSError: a component is missing, a link (ENOTDIR, ELOOP), or cannot be opened.
    """
    *above, name = path.split("/")
    if any(part in ("", ".", "..") for part in (*above, name)):
        raise StagingError(f"{printable(path)!r} is no path below a directory; check the source")
    here = os.dup(directory)
    try:
        for part in above:
            below = _enter(here, part, _DIRECTORY, 0o755 if create else None)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def sync_folders(directory: int, paths: Iterable[str]) -> None:
    """Make the names of files durable, one flush for each directory that they are in.

    Raises:
        StagingError: a directory is not there any more, or cannot be flushed.
    """
    with target_errors(directory, "flushing a directory"):
        for path in {path.rpartition("/")[0]: path for path in paths}.values():
            with opened_parent(directory, path) as (parent, _):
                os.fsync(parent)


def _enter(here: int, name: str, flags: int, mode: int | None) -> int:
    """Open a directory in another one; with a mode, make it if it is missing."""
    with suppress(FileNotFoundError):
        return os.open(name, flags, dir_fd=here)
    if mode is not None:
        with suppress(FileExistsError):  # another process or stream was faster
            os.mkdir(name, mode, dir_fd=here)
            if not flags & os.O_PATH:
                os.fsync(here)
    return os.open(name, flags, dir_fd=here)


def partial_name(name: str) -> str:
    """A new temporary name for a file; of the same length for any ``name``."""
    return f".{_mark(name)}.{secrets.token_hex(4)}{PARTIAL}"


def _mark(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()[:16]


def remove_empty_folders(target: int, paths: Iterable[str]) -> None:
    """Delete the directories above files of a target that hold nothing any more."""
    folders = {str(above) for path in paths for above in PurePosixPath(path).parents} - {"."}
    for folder in sorted(folders, key=lambda each: each.count("/"), reverse=True):
        with suppress(OSError), opened_parent(target, folder) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def remove_files(target: int, paths: Iterable[str], *, finished: bool) -> tuple[int, int]:
    """Delete what killed copiers left half-done of files, and if ``finished`` those files, too.

    Durably: once it is forgotten that they are staging's, none may come back.

    The node's lock must be held. Only plain files of this user go; no link is followed.

    Args:
        target: an open descriptor of the directory.
        paths: of what was, or will be, copied into it.
        finished: whether the files themselves are removed.

    Returns:
        How many were removed, and their bytes.

    Raises:
        StagingError: one cannot be deleted; a directory cannot be looked into.
    """
    count = size = 0
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        folder, _, name = path.rpartition("/")
        folders[folder].add(name)
    for folder, names in folders.items():
        inside = f"{folder}/x".lstrip("/")  # any name will do: only its directory is opened
        marks = frozenset(map(_mark, names))
        gone = suppress(FileNotFoundError, NotADirectoryError)  # or a link in its place
        with (
            target_errors(target, f"removing from {folder or '.'}"),
            gone,
            opened_parent(target, inside) as (directory, _),
        ):
            before = count
            for name in os.listdir(directory):  # noqa: PTH208 - a descriptor
                partial = _PARTIAL.fullmatch(name)
                if not (partial and partial[1] in marks) and not (finished and name in names):
                    continue
                found = os.stat(name, dir_fd=directory, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                    os.unlink(name, dir_fd=directory)
                    count, size = count + 1, size + found.st_size
            if count > before:
                os.fsync(directory)
    return count, size


def target_error(
    error: OSError, place: Path | str, doing: str = "", *, copied: bool = True
) -> StagingError:
    """What to tell the user when the system refuses something in a target directory.

    Args:
        doing: what was being done, e.g. ``writing complete.json``.
        copied: whether something may have been copied already; if not, no space is `NoRoomError`.
    """
    where = f"{printable(str(place))}: cannot go on{f' {printable(doing)}' if doing else ''}"
    if error.errno in _FULL:
        what, remedy = shortage(error, Path(place))
        kind = StagingError if copied else NoRoomError
        return kind(
            f"{where}: {what}; {remedy} and run the same command again, or choose another place "
            "(--to)"
        )
    return StagingError(
        f"{where}: {refusal(error)}; mend that, or choose another place (--to), and run the same "
        "command again"
    )


class target_errors:  # noqa: N801  # like `suppress`; a generator takes microseconds a file
    """Tell what the system refuses meanwhile as `target_error` does.

    Args:
        place: the directory, or an open descriptor of it.
    """

    __slots__ = ("_copied", "_doing", "_place")

    def __init__(self, place: Path | int, doing: str, *, copied: bool = True) -> None:
        self._place, self._doing, self._copied = place, doing, copied

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, OSError):
            where = place_of(self._place) if isinstance(self._place, int) else self._place
            raise target_error(error, where, self._doing, copied=self._copied) from error


@dataclass(frozen=True, eq=False)
class StageDirectory:
    """An open target directory; everything is reached through its descriptor. A context manager."""

    path: Path  # for messages
    descriptor: int  # of the directory
    private: int  # descriptor of `PRIVATE` in it, mode 0700

    @classmethod
    def make(cls, path: Path) -> Self:
        """Create what is missing of ``path``, mode 0700, and open it.

        Raises:
            NoRoomError: what is missing has no room.
            StagingError: it, or what leads there, could be changed by another user; it is no
                directory, is on a read-only file system, and the like.
        """
        for _ in range(_ATTEMPTS):
            if (opened := cls._open(path, make=True)) is not None:
                return opened  # else somebody cleans up here at this moment
        raise target_error(FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)), path)

    @classmethod
    def existing(cls, path: Path) -> Self | None:
        """The same of one that is there already; None if nothing was ever staged into it."""
        return cls._open(path, make=False)

    @classmethod
    def _open(cls, path: Path, *, make: bool) -> Self | None:
        try:
            with ExitStack() as undo:
                directory = open_directory(path, make=make)
                undo.callback(os.close, directory)
                if make:
                    _check_own(path, directory)
                    with suppress(FileExistsError):
                        os.mkdir(PRIVATE, 0o700, dir_fd=directory)
                        # Without it, what will lie beside it would be taken for somebody else's.
                        os.fsync(directory)
                private = os.open(PRIVATE, _DIRECTORY, dir_fd=directory)
                undo.callback(os.close, private)
                _check_own(path, directory)
                _check_own(path / PRIVATE, private)
                undo.pop_all()
                return cls(path, directory, private)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise target_error(error, path, copied=False) from None

    def is_current(self) -> bool:
        """Whether the path still leads here: not if an epilog has removed it meanwhile."""
        try:
            return os.path.samestat((self.path / PRIVATE).stat(), os.fstat(self.private))
        except OSError:
            return False

    def check_current(self) -> None:
        """Raise `StagingError` unless `is_current`."""
        if not self.is_current():
            raise StagingError(
                f"{printable(str(self.path))} was removed or replaced by somebody meanwhile; see "
                "that no epilog cleans up too early, and run the same command again"
            )

    def private_names(self, kind: str = "") -> list[str]:
        """The names in the private directory that `private_name` made of ``kind``, or all."""
        with target_errors(self.path, f"listing {PRIVATE}"):
            names = os.listdir(self.private)  # noqa: PTH208 - Path knows no descriptors
        return sorted(name for name in names if name.startswith(f"{kind}-") or not kind)

    def read_private(self, name: str, kind: type[AnyState]) -> AnyState | None:
        """What was written to a private file; None if not exactly that is there."""
        return read_state(self._private_path(name), kind)

    def write_private(self, name: str, state: State, *, copied: bool = True) -> None:
        """Put a state into a private file: whole or not at all, even after a power cut.

        Args:
            copied: whether something may have been copied already; see `target_error`.

        Raises:
            NoRoomError: the storage is full, and nothing has been copied.
            StagingError: the storage is full, read-only, damaged, or gone.
        """
        with target_errors(self.private, f"writing {name}", copied=copied):
            write_durably(self._private_path(name), encode(state), mode=0o600)
            os.fsync(self.private)

    def remove_private(self, name: str) -> None:
        """Remove a private file, see `remove_file`."""
        remove_file(self.private, name)

    def _private_path(self, name: str) -> Path:
        """By which a private file is reached wherever the directory is now."""
        return Path(f"/proc/self/fd/{self.private}") / name

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


def open_directory(path: Path, *, make: bool) -> int:
    """Open a directory so that nothing that another user planted on the way leads elsewhere.

    Links are resolved first; below, none is followed. In a directory that everybody may write,
    only what is root's or this user's is entered or followed, and only if that directory is
    sticky, so that nobody else can replace it.

    Args:
        make: create what is missing, mode 0700.

    Returns:
        An open descriptor, for the caller to close.

    Raises:
        StagingError: the rule is broken.
        OSError: the system refuses; FileNotFoundError if the directory is not there.
    """
    given = Path.cwd() / path
    for place in (given, *given.parents):
        if place.is_symlink() and place.parent.stat().st_mode & stat.S_IWOTH:
            _check_owner(place, place.lstat())
    here = os.open("/", _STEP)
    try:
        for name in Path(os.path.realpath(given)).parts[1:]:
            above, here = here, _enter(here, name, _STEP, 0o700 if make else None)
            try:
                _check_step(os.fstat(above), here)
            finally:
                os.close(above)
        return os.open(".", _DIRECTORY, dir_fd=here)
    finally:
        os.close(here)


def _check_step(above: os.stat_result, here: int) -> None:
    """Refuse a directory that another user could have put there, or could replace."""
    if not above.st_mode & stat.S_IWOTH:
        return
    place = Path(place_of(here))
    if not above.st_mode & stat.S_ISVTX and above.st_uid != os.geteuid():
        raise StagingError(
            f"{printable(str(place.parent))}: everybody may write it and it is not sticky, so "
            "anybody could replace what is in it; choose another place (--to)"
        )
    _check_owner(place, os.fstat(here))


def _check_owner(place: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise StagingError(
            f"{printable(str(place))} belongs to {owner_name(status.st_uid)}, in a directory that "
            "everybody may write; choose another name (--to)"
        )


def _check_own(path: Path, descriptor: int) -> None:
    """Refuse a directory that is not this user's, or that others may write."""
    what = flaw_of(os.fstat(descriptor))
    if not what:
        return
    inside = printable(str(path / "imagenet"))
    raise StagingError(
        f"{printable(str(path))} {what}; choose a directory of your own, e.g. --to {inside}"
    )


def remove_file(directory: int, name: str) -> None:
    """Remove a file of an open directory, durably; nothing if there is none.

    Raises:
        StagingError: the storage is read-only or damaged.
    """
    with target_errors(directory, f"removing {name}"), suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)
