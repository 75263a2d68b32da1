"""A secret that only one user's processes know, and how those of other nodes come by it.

Three ways, and node 0 says which one counts: the environment, which `dataprep stage SRC -- COMMAND`
fills; MUNGE, whose daemons say which user has made a credential, and show it to nobody else; a
file of the home directory, where nodes share that.
"""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import StagingError
from dataprep.system.durable_files import write_once
from dataprep.system.messages import printable

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name

_FILE = Path(".config", "dataprep", "rendezvous")  # in the home directory
_FORM = re.compile(rb"[0-9a-f]{64}\n?")
_LONGEST = 1 << 10  # bytes of the file
_SECONDS = 10.0  # a munged that hangs
_REPLAYED = 17  # unmunge's exit code: a process of this node has decoded the credential before


class Offer(NamedTuple):
    """What node 0 goes by.

    Attributes:
        secret: known to this user's processes only.
        way: how another node comes by it: ``environment``, ``munge`` or ``file``.
        credential: MUNGE's, which holds the secret; else empty.
        told: what is worth telling the user; empty if the secret was given.
    """

    secret: bytes
    way: str
    credential: str = ""
    told: str = ""


def offer(seconds: float) -> Offer:
    """The best secret that node 0 can share with the others.

    Args:
        seconds: how long others may come.

    Raises:
        StagingError: there is none.
    """
    if given := os.environ.get(SECRET):
        return Offer(given.encode(errors="surrogateescape"), "environment")
    made = secrets.token_hex(32)
    # Without a daemon the programs are of no use.
    if shutil.which("munge") and (credential := _sealed(made, seconds)):
        return Offer(made.encode(), "munge", credential, "nodes know each other by munge")
    path = Path.home() / _FILE
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.lexists(path):
            write_once(path, f"{made}\n".encode(), mode=0o600)
        secret = _read(path)
    except (OSError, ValueError) as error:
        raise StagingError(
            f"nodes have no secret by which they know each other: ${SECRET} is not set, munge does "
            f"not answer, and {printable(str(path))} cannot be used ({error}); export {SECRET}="
            "$(openssl rand -hex 32) before the nodes are started"
        ) from error
    return Offer(secret, "file", told=f"nodes know each other by {printable(str(path))}")


def accept(way: str, credential: str) -> bytes:
    """The secret that node 0 goes by; what it says is not to be trusted yet.

    Raises:
        ValueError: it is not known here, which is said.
    """
    given = os.environ.get(SECRET, "")
    if (way == "environment") != bool(given):
        where = "on node 0, but not here" if way == "environment" else "here, but not on node 0"
        raise ValueError(f"${SECRET} is set {where}")
    if way == "environment":
        return given.encode(errors="surrogateescape")
    if way == "munge":
        return _unsealed(credential)
    path = Path.home() / _FILE
    try:
        return _read(path)
    except OSError as error:
        raise ValueError(
            f"node 0 goes by {printable(str(path))}, which cannot be read here ({error.strerror}); "
            f"export {SECRET}=$(openssl rand -hex 32) before the nodes are started"
        ) from error


def _sealed(secret: str, seconds: float) -> str | None:
    """A credential that only this user's processes can open; None if there is no daemon."""
    words = [f"--restrict-uid={os.getuid()}", f"--ttl={int(seconds) + 60}"]
    done = _run("munge", *words, given=secret)
    return done.stdout.strip() if done is not None and done.returncode == 0 else None


@functools.lru_cache(maxsize=16)  # who comes too late for node 0 comes again, and then at once
def _unsealed(credential: str) -> bytes:
    done = _run("unmunge", "--numeric", "--keys=UID", given=credential)
    if done is None or done.returncode not in (0, _REPLAYED):
        reason = "it is not there" if done is None else printable(done.stderr.strip())
        raise ValueError(f"node 0 goes by munge, but unmunge fails here: {reason}")
    uid, _, secret = done.stdout.partition("\n\n")
    if uid.split() != ["UID:", str(os.getuid())]:
        raise ValueError("another user's process answers")
    return secret.encode()


def _run(program: str, *words: str, given: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(  # noqa: S603  # MUNGE's own
            [program, *words],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        is_ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not (stat.S_ISREG(found.st_mode) and is_ours):
            raise ValueError(f"{printable(str(path))} is not a file of yours alone (mode 0600)")
        text = file.read(_LONGEST)
    if not _FORM.fullmatch(text):
        raise ValueError(f"{printable(str(path))} is not 64 hexadecimal digits; delete it")
    return text.strip()
