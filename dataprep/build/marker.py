"""The file that says who works in an output directory, and how anybody can tell if they live.

Two lines, process and host, for whoever looks into it, and four for us::

    4711
    node-0815
    machine=6a8f2f5e-….4026531836   boot and process namespace: where process numbers mean the same
    start=1893345                   when the process started, so that a reused number is not it
    token=9f86d081884c7d65…         of this one claim
    since=1700000000.123            when it was made, by the clock of the file system

The text never changes while the claim lasts. Its holder touches the file every few seconds.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_STATE, _START_TIME = 0, 19  # fields of /proc/PID/stat after the name, which may hold anything
_ENDED = {b"Z", b"X"}  # a killed process that nobody waits for, as in a container without an init
_LARGEST_PROCESS = 2**31 - 1
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Marker:
    """What a marker says.

    Attributes:
        machine: where its process number can be looked up; empty if that is not known.
        start: when the process started, in no unit that matters; empty if that is not known.
        token: unlike that of any other claim.
        since: when it was made, in seconds since 1970; None if it does not say.
    """

    process: int
    host: str
    machine: str = ""
    start: str = ""
    token: str = ""
    since: float | None = None

    @classmethod
    def of_this_process(cls, since: float) -> Marker:
        """A new claim."""
        process = os.getpid()
        return cls(
            process,
            socket.gethostname(),
            _machine(),
            _look_up(process)[1],
            secrets.token_hex(16),
            since,
        )

    @classmethod
    def parse(cls, text: str) -> Marker | None:
        """What is in the file; None if that is no marker, or a part of one."""
        lines = text.splitlines()
        if not text.endswith("\n") or len(lines) < 2 or not lines[1]:
            return None
        known = dict(line.split("=", 1) for line in lines[2:] if "=" in line)
        try:
            process = int(lines[0])
            since = float(known["since"]) if "since" in known else None
        except ValueError:
            return None
        if not 1 <= process <= _LARGEST_PROCESS:
            return None
        machine, start, token = (known.get(name, "") for name in ("machine", "start", "token"))
        return cls(process, lines[1], machine, start, token, since)

    def text(self) -> str:
        """What is in the file."""
        return (
            f"{self.process}\n{self.host}\nmachine={self.machine}\nstart={self.start}\n"
            f"token={self.token}\nsince={self.since}\n"
        )

    def is_alive(self) -> bool | None:
        """Whether the process runs; None if that cannot be told from here."""
        # A marker of an earlier version has no machine; its host must do.
        if self.host != socket.gethostname() or self.machine not in {"", _machine()}:
            return None
        if not _exists(self.process):
            return False
        state, start = _look_up(self.process)
        if state in _ENDED:
            return False
        return start == self.start if start and self.start else None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker file at one moment. Two are equal if nothing happened in between.

    Attributes:
        modified: seconds since 1970, by the clock of the file system or of the holder's host.
    """

    text: str
    times: tuple[int, int]
    modified: float = field(compare=False)

    @property
    def marker(self) -> Marker | None:
        """What it says; None if that is no marker."""
        return Marker.parse(self.text)


def sight(path: Path) -> Sighting | None:
    """Look at a marker file; None if there is none.

    Opens it, because only then NFS asks its server how the file is now.

    Raises:
        OSError: the file system has some other trouble.
    """
    try:
        return _open_and_look(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != errno.ESTALE:
            raise
    try:
        return _open_and_look(path)  # on NFS another had taken its place after it was opened
    except FileNotFoundError:
        return None


def _open_and_look(path: Path) -> Sighting:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _sight(descriptor)
    finally:
        os.close(descriptor)


def touch(path: Path, text: str) -> bool:
    """Show that the holder lives, if the marker is still its own; returns whether it is.

    Never touches another's: file and time are those of one descriptor.

    Raises:
        OSError: the file system has some trouble.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        if _sight(descriptor).text != text:
            return False
        os.utime(descriptor)
    finally:
        os.close(descriptor)
    return True


def _sight(descriptor: int) -> Sighting:
    status = os.fstat(descriptor)
    text = os.read(descriptor, _MOST_BYTES).decode(errors="replace")
    return Sighting(text, (status.st_mtime_ns, status.st_ctime_ns), status.st_mtime)


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@cache
def _machine() -> str:
    # Containers may share a host's name and boot, but not its processes; a namesake, only its name.
    try:
        return f"{_BOOT_ID.read_text().strip()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def _look_up(process: int) -> tuple[bytes, str]:
    """Its state, and when it started; empty if that cannot be told."""
    try:
        status = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return b"", ""
    fields = status.rpartition(b")")[2].split()
    return fields[_STATE], fields[_START_TIME].decode()
