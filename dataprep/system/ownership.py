"""Who owns what a run believes: nobody else may have put it there."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from dataprep.errors import DatasetError


def flaw_of(status: os.stat_result, *, writers: int = stat.S_IWOTH, root: bool = False) -> str:
    """Why a directory cannot be trusted; empty if it can.

    Args:
        writers: the bits of its mode that it must not have.
        root: whether it may be root's.
    """
    if status.st_uid not in (os.geteuid(), 0 if root else os.geteuid()):
        return f"belongs to {owner_name(status.st_uid)}"
    return "may be written by others" if status.st_mode & writers else ""


def owner_name(user: int) -> str:
    """The name of a user, as far as it is known."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def require_own(
    directory: Path, remedy: str, *, writers: int = 0, linked: bool = False, root: bool = False
) -> None:
    """Refuse a directory that somebody else has put there; one that is not there is none.

    Args:
        writers: the bits of its mode that it must not have.
        linked: whether it may be a link of this user's.
        root: whether it may be root's.

    Raises:
        DatasetError: it is somebody else's, or a symbolic link.
    """
    try:
        status = directory.lstat()
        flaw = flaw_of(status, writers=0, root=root)
        if stat.S_ISLNK(status.st_mode) and not linked:
            flaw = "is a symbolic link"
        flaw = flaw or flaw_of(directory.stat(), writers=writers, root=root)
    except FileNotFoundError:
        return
    if flaw:
        raise DatasetError(
            f"{directory} {flaw}, so somebody could exchange what is in it; {remedy}"
        )
