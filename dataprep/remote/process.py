"""A process that makes the requests of others, which may then fork as they like.

obstore's runtime hangs in a forked child, and DataLoader and Beam fork. So whoever reads from a
bucket in a process that may fork has one of these beside it: it is started anew, not forked, is
asked through a socket that only its starter and its children know the key of, and ends with the
last of them.
"""

from __future__ import annotations

import atexit
import json
import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Client, Connection
from typing import Any, Final

from dataprep import errors
from dataprep.errors import DataprepError, RemoteError

_SERVER: Final = "dataprep.remote.server"
_ENDING_SECONDS: Final = 1.0
_NAMING: Final = ("AWS_", "AZURE_", "GOOGLE_", "HOME", "HTTP_", "HTTPS_", "ALL_PROXY")


class Requests:
    """Makes requests in a process of its own, which is started at the first one.

    For any number of threads, and for the children of this process.
    """

    def __init__(self) -> None:
        self._local = threading.local()
        self._turn = threading.Lock()
        self._place = self._key = ""
        os.register_at_fork(after_in_child=self._forked)

    def ask(self, kind: str, address: str, **words: Any) -> bytes:
        """What comes of a request: ``read``, a range; ``fetch``, a file into a cache.

        Raises:
            DataprepError: as the store and the cache do.
            FileNotFoundError: there is no such object.
        """
        question = json.dumps({"kind": kind, "address": address, **words}).encode()
        for last in (False, True):
            place = self._place
            try:
                status, answer = self._exchange(question)
                break
            except (OSError, EOFError) as error:  # somebody has killed it
                if last:
                    raise RemoteError(
                        f"{address}: the process that asks the store has ended twice; see that it "
                        "has memory, and run the same command again"
                    ) from error
                with self._turn:
                    if self._place == place:
                        self._place = ""
        if status == b"absent":
            raise FileNotFoundError(answer.decode())
        if status:
            raise getattr(errors, status.decode(), DataprepError)(answer.decode())
        return answer

    def _exchange(self, question: bytes) -> tuple[bytes, bytes]:
        connection = self._connection()
        try:
            connection.send_bytes(question)
            return connection.recv_bytes(), connection.recv_bytes()
        except BaseException:  # an interrupt, too, after which an answer may be under way
            self._local.connection = None
            connection.close()
            raise

    def _connection(self) -> Connection:
        """Of this thread and process."""
        found: Connection | None = getattr(self._local, "connection", None)
        if found is None:
            with self._turn:
                if not self._place:
                    self._start()
            found = Client(
                socket_address(self._place), family="AF_UNIX", authkey=self._key.encode()
            )
            self._local.connection = found
        return found

    def _start(self) -> None:
        self._key = secrets.token_hex(32)
        process = subprocess.Popen(  # noqa: S603  # ourselves
            [sys.executable, "-P", "-m", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for those who ask
        )
        assert process.stdin is not None  # noqa: S101  # they are pipes
        assert process.stdout is not None  # noqa: S101
        process.stdin.write(f"{self._key}\n")
        process.stdin.flush()
        self._place = process.stdout.readline().strip()
        atexit.register(_end, process)
        if not self._place:
            raise RemoteError(
                "the process that asks the store has not started; see the lines above"
            )

    def _forked(self) -> None:
        """The child asks the same process, by connections of its own."""
        self._local, self._turn = threading.local(), threading.Lock()


def _end(process: subprocess.Popen[str]) -> None:
    """Let it end with this one, unless children of this one still need it."""
    assert process.stdin is not None  # noqa: S101  # it is a pipe
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_ENDING_SECONDS)


def requests() -> Requests:
    """Those of this process, with the credentials and servers that its environment names now."""
    return _requests(tuple(it for it in os.environ.items() if it[0].startswith(_NAMING)))


@cache
def _requests(_named: tuple[tuple[str, str], ...]) -> Requests:
    return Requests()


def socket_address(place: str) -> str:
    """Abstract, so of no file system: paths of sockets have 107 bytes at most."""
    return f"\0dataprep-{place}"
