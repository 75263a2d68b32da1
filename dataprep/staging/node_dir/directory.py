"""A target directory that no other user can tamper with."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self, TypeVar

from dataprep.errors import StagingError
from dataprep.staging.node_dir.paths import PRIVATE, place_of, target_error
from dataprep.system.durable_files import write_durably
from dataprep.system.messages import printable
from dataprep.system.ownership import flaw_of, owner_name
from dataprep.system.state_files import encode, read_state
from dataprep_schemas.state import State

AnyState = TypeVar("AnyState", bound=State)

_ATTEMPTS = 5
_LONGEST_NAME = 80

# Search permission is all that a directory on the way must grant; O_DIRECTORY wakes automounts.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class StageDirectory:
    """An open target directory; everything is reached through its descriptor. A context manager.

    Attributes:
        path: for messages.
        descriptor: of the directory.
        private: descriptor of `PRIVATE` in it, mode 0700.
    """

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
        try:
            names = os.listdir(self.private)  # noqa: PTH208 - Path knows no descriptors
        except OSError as error:
            raise target_error(error, self.path, f"listing {PRIVATE}") from None
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
        try:
            write_durably(self._private_path(name), encode(state), mode=0o600)
            os.fsync(self.private)
        except OSError as error:
            place = place_of(self.private)
            raise target_error(error, place, f"writing {name}", copied=copied) from None

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
            above, here = here, _enter(here, name, make)
            try:
                _check_step(os.fstat(above), here)
            finally:
                os.close(above)
        return os.open(".", _DIRECTORY, dir_fd=here)
    finally:
        os.close(here)


def _enter(here: int, name: str, make: bool) -> int:
    with suppress(FileNotFoundError):
        return os.open(name, _STEP, dir_fd=here)
    if make:
        with suppress(FileExistsError):  # another process of this node was faster
            os.mkdir(name, 0o700, dir_fd=here)
    return os.open(name, _STEP, dir_fd=here)


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
    try:
        os.unlink(name, dir_fd=directory)
        os.fsync(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise target_error(error, place_of(directory), f"removing {name}") from None
