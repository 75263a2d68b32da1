"""Who owns what a run believes: nobody else may have put it there.

What lies beside data is written by anybody: a name, an owner or a mode prove nothing of a file that
came out of an archive. A proof does, which only who has this user's key can make; keys are in the
home directory.
"""

from __future__ import annotations

import errno
import hmac
import os
import pwd
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from dataprep.errors import DatasetError
from dataprep.system.durable_files import write_once
from dataprep.system.regular_files import open_regular


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


_MARKS: Final = "marks"  # the key of proofs
_VARIABLE: Final = "DATAPREP_MARKS"  # of a run that can keep no key; its workers inherit it


def key_file(name: str) -> Path:
    """Where a key is, in the home directory, which the nodes of a job share."""
    return Path(os.path.expanduser("~"), ".config", "dataprep", name)  # noqa: PTH111 - never fails


def make_key(name: str) -> None:
    """Make a key, unless there is one.

    Raises:
        OSError: it cannot be kept.
    """
    path = key_file(name)
    if not path.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "no home directory")
    if not os.path.lexists(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_once(path, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)


def read_key(name: str) -> bytes:
    """A key, which nobody else can have put there or read.

    Raises:
        OSError: it cannot be read.
        ValueError: it is none; says why.
    """
    path = key_file(name)
    with open_regular(path, link=False) as file:
        found, text = os.fstat(file.fileno()), file.read(100)
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ValueError("is not a file of yours alone (mode 0600)")
    if not re.fullmatch(rb"[0-9a-f]{64}\n?", text):
        raise ValueError("is not 64 hexadecimal digits; delete it")
    return text.strip()


def proof_of(data: bytes) -> str:
    """What proves later that this user wrote these bytes.

    Without a home directory that can be written it holds for this process and those that it starts.
    """
    if _VARIABLE not in os.environ:
        try:
            make_key(_MARKS)
            return _digest(read_key(_MARKS), data)
        except (OSError, ValueError):
            os.environ[_VARIABLE] = secrets.token_hex(32)
    return _digest(os.environ[_VARIABLE].encode(), data)


def is_proven(data: bytes, proof: str) -> bool:
    """Whether `proof_of` was given these bytes by this user."""
    try:
        given = os.environ.get(_VARIABLE)
        key = given.encode() if given else read_key(_MARKS)
    except (OSError, ValueError):
        return False
    return hmac.compare_digest(_digest(key, data).encode(), proof.encode())


def _digest(key: bytes, data: bytes) -> str:
    return hmac.digest(key, data, "sha256").hex()
