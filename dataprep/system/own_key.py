"""Keys of this user's, in the home directory: by them dataprep knows again what it wrote itself.

What lies beside data is written by anybody: a name, an owner or a mode prove nothing of a file that
came out of an archive. A proof does, which only who has the key can make.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import secrets
import stat
from pathlib import Path
from typing import Final

from dataprep.system.durable_files import write_once
from dataprep.system.regular_files import open_regular

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
