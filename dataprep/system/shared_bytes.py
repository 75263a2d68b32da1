"""A few bytes that processes of a run on this machine share.

They are in an open file of the launcher's without a name, in memory if possible: it ends with the
launcher, however that ends, and other processes find it through the launcher's descriptor. By then
that number may be another process's, and this any file; so they are known by a nonce before them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dataprep.errors import PipelineError

_MEMORY = "/dev/shm"  # noqa: S108  # not for a file that anybody could find there
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Where another process finds them.

    Attributes:
        path: where the launcher has the file open, as long as there is a launcher.
        nonce: what the file begins with, in hexadecimal digits.
    """

    path: str
    nonce: str

    def open(self) -> SharedBytes | None:
        """The bytes, for this process; None if the launcher is gone."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return None
        shared = SharedBytes(descriptor, self)
        # Anything else is not even to be read further, as it would be written to.
        return shared if os.pread(descriptor, _NONCE_BYTES, 0).hex() == self.nonce else None


class SharedBytes:
    """The bytes, in one process. What is inside `locked` is safe between threads and processes.

    Args:
        descriptor: of the file, which is closed with the last reference: threads of a run that was
            cut short may still use it.
        place: where others find it.
    """

    def __init__(self, descriptor: int, place: Place) -> None:
        self.place = place
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def new(cls, content: bytes) -> SharedBytes:
        """Bytes that begin as these.

        Raises:
            PipelineError: there is no room for them.
        """
        nonce = secrets.token_bytes(_NONCE_BYTES)
        directory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        try:
            with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
                file.write(nonce + content)
                descriptor = os.dup(file.fileno())
        except OSError as error:
            raise PipelineError(
                f"{error.filename or directory or '$TMPDIR'}: {error.strerror}; expected room for "
                "a few bytes in memory or in $TMPDIR"
            ) from error
        return cls(descriptor, Place(f"/proc/{os.getpid()}/fd/{descriptor}", nonce.hex()))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else comes between."""
        with self._lock:  # flock does not tell threads apart
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def read(self, count: int, offset: int = 0) -> bytes:
        """So many, from there on, or as many as there are."""
        return os.pread(self._descriptor, count, _NONCE_BYTES + offset)

    def write(self, content: bytes, offset: int = 0) -> None:
        """Put these there."""
        os.pwrite(self._descriptor, content, _NONCE_BYTES + offset)
