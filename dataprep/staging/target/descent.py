"""Opening a directory step by step, so that no link planted on the way leads elsewhere."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.target.refusals import refused
from dataprep.system.messages import printable

_MOST_LINKS = 40  # the kernel's own limit
_OVERFLOW = 65534  # whom a user namespace shows for owners that it does not know
_UID_MAP = Path("/proc/self/uid_map")

# Search permission is all a directory on the way must grant; O_DIRECTORY wakes automounts.
_STEP = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FINAL = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Descent:
    """Where a path has led so far.

    Attributes:
        path: what is to be opened, for messages.
        descriptor: of the directory reached.
        place: its components, without links.
        pending: the components to come; those of links are put in front.
        links: how many were followed.
        made: the directories created on the way, outermost first, absolute and without links.
    """

    path: Path
    descriptor: int
    place: list[str] = field(default_factory=list)
    pending: deque[str] = field(default_factory=deque)
    links: int = 0
    made: list[str] = field(default_factory=list)

    @property
    def here(self) -> str:
        """The directory reached, for messages."""
        return "/" + "/".join(map(printable, self.place))


def descend(path: Path, *, make: bool) -> Descent | None:
    """Open the directory ``path``; with ``make``, create what is missing of it, mode 0700.

    Followed are links of root and of this user, but none as the last component. What stands in a
    directory that everybody may write must be root's or this user's, and that directory sticky.

    Returns:
        The open directory, for the caller to close; None if it is not there.

    Raises:
        StagingError: a rule is broken, or the system refuses; what was created is gone again.
    """
    if "\0" in str(path):
        raise StagingError(f"{printable(str(path))} cannot be a path: it holds a NUL character")
    try:
        components = (Path.cwd() / path).parts[1:]
        walk = Descent(path, os.open("/", _STEP), pending=deque(components))
    except OSError as error:
        raise refused(path, error, copied=not make) from None
    try:
        while walk.pending:
            if not _step(walk, make=make):
                os.close(walk.descriptor)
                return None
        _replace(walk, os.open(".", _FINAL, dir_fd=walk.descriptor))
    except BaseException as error:
        os.close(walk.descriptor)
        remove_made(walk.made)
        if isinstance(error, OSError):
            raise refused(path, error, copied=not make) from None
        raise
    return walk


def remove_made(made: Sequence[str]) -> bool:
    """Remove directories that `descend` created, as far as they are empty; outermost first given.

    Returns:
        Whether all are gone.
    """
    for place in map(Path, reversed(made)):
        try:
            parent = descend(place.parent, make=False)
        except StagingError:
            return False
        if parent is None:
            continue
        try:
            os.rmdir(place.name, dir_fd=parent.descriptor)
        except FileNotFoundError:
            continue
        except OSError:
            return False
        finally:
            os.close(parent.descriptor)
    return True


def owner_name(user: int) -> str:
    """A user's name, or the number if nobody knows one."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def for_everybody(mode: int) -> bool:
    """Whether everybody may write a directory of this mode."""
    return bool(mode & stat.S_IWOTH)


def _step(walk: Descent, *, make: bool) -> bool:
    """Go one component further; False if it is not there and must not be made."""
    parent = os.fstat(walk.descriptor)
    name = walk.pending.popleft()
    if name == "..":
        _replace(walk, os.open("..", _STEP, dir_fd=walk.descriptor))
        del walk.place[-1:]
        return True
    _check_parent(walk, parent)
    created = False
    try:
        found = _open_entry(walk.descriptor, name)
    except FileNotFoundError:
        if not make:
            return False
        created = _make(walk, name)
        found = _open_entry(walk.descriptor, name)
    try:
        status = os.fstat(found)
        if stat.S_ISLNK(status.st_mode):
            _follow(walk, name, os.readlink("", dir_fd=found), status.st_uid, parent)
            return True
        _check_entry(walk, name, status, parent)
        if created and stat.S_IMODE(status.st_mode) != 0o700:  # a umask, or an ACL to be inherited
            Path(f"/proc/self/fd/{found}").chmod(0o700)
        _replace(walk, os.dup(found))
        walk.place.append(name)
    finally:
        os.close(found)
    return True


def _open_entry(parent: int, name: str) -> int:
    try:
        return os.open(name, _STEP, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    return os.open(name, _LINK, dir_fd=parent)


def _make(walk: Descent, name: str) -> bool:
    try:
        os.mkdir(name, 0o700, dir_fd=walk.descriptor)
    except FileExistsError:  # another process of this node was faster
        return False
    walk.made.append("/" + "/".join([*walk.place, name]))
    return True


def _replace(walk: Descent, descriptor: int) -> None:
    os.close(walk.descriptor)
    walk.descriptor = descriptor


def _check_parent(walk: Descent, parent: os.stat_result) -> None:
    if (
        for_everybody(parent.st_mode)
        and not parent.st_mode & stat.S_ISVTX
        and parent.st_uid != os.geteuid()
    ):
        raise StagingError(
            f"{walk.here}, on the way to {printable(str(walk.path))}, may be written by everybody "
            "and is not sticky, so anybody could put something else there; choose another place "
            "with --to, or have its mode set to 1777"
        )


def _check_entry(walk: Descent, name: str, status: os.stat_result, parent: os.stat_result) -> None:
    place = f"{walk.here.rstrip('/')}/{printable(name)}"
    if not stat.S_ISDIR(status.st_mode):
        raise StagingError(f"{place} is not a directory; choose another place with --to")
    if for_everybody(parent.st_mode) and status.st_uid not in (0, os.geteuid()):
        raise StagingError(
            f"{place} belongs to {owner_name(status.st_uid)}, in a directory that everybody may "
            "write; choose another name with --to"
        )


def _follow(walk: Descent, name: str, target: str, owner: int, parent: os.stat_result) -> None:
    place = f"{walk.here.rstrip('/')}/{printable(name)}"
    if not walk.pending:
        raise StagingError(
            f"{place} is a symbolic link; name the directory it leads to, {printable(target)}"
        )
    if owner != os.geteuid() and not _is_root(owner, parent):
        raise StagingError(
            f"{place} is a symbolic link of {owner_name(owner)}, which is not followed; name the "
            f"directory it leads to, {printable(target)}, if you trust it"
        )
    walk.links += 1
    if walk.links > _MOST_LINKS:
        raise StagingError(f"{printable(str(walk.path))}: too many symbolic links on the way")
    if target.startswith("/"):
        _replace(walk, os.open("/", _STEP))
        walk.place.clear()
    walk.pending.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))


def _is_root(owner: int, parent: os.stat_result) -> bool:
    """Whether a link is root's, also in a user namespace, which cannot name root.

    There the rule of the kernel's ``protected_symlinks`` is as far as one can see: the link stands
    where not everybody may write, and is of whoever owns that directory.
    """
    if owner == 0:
        return True
    unnamed = owner == parent.st_uid == _OVERFLOW and not for_everybody(parent.st_mode)
    return unnamed and not _knows_everybody()


def _knows_everybody() -> bool:
    try:
        return sum(int(line.split()[2]) for line in _UID_MAP.read_text().splitlines()) > _OVERFLOW
    except (OSError, ValueError, IndexError):
        return True
