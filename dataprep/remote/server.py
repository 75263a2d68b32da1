"""The process that makes requests for others; see `dataprep.remote.process`."""

from __future__ import annotations

import json
import os
import resource
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Connection,
    Listener,
    answer_challenge,
    deliver_challenge,
)
from typing import Any, Final

from dataprep.remote.cache import MANIFEST, fetch, fill, look
from dataprep.remote.process import socket_address
from dataprep.remote.raw import list_objects
from dataprep.remote.store import Store
from dataprep.system.regular_files import MOST_BYTES

_BACKLOG: Final = 256
_MOST: Final = 2048  # connections: one a thread that asks
_HANDSHAKE_SECONDS: Final = 10
_PAUSE_SECONDS: Final = 0.1
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred of unix(7): pid, uid, gid
_LATER: Final = 4  # files that are fetched ahead at a time
_STACK: Final = 1 << 20  # bytes of a thread; a store's answers are not on it
_MEMORY: Final = 1 << 30  # bytes of data, besides large pieces that are asked for
_LARGE: Final = 16 << 20
_Answer = Callable[..., bytes | memoryview]


def serve(answers: dict[str, _Answer]) -> None:
    """Answer until nobody is left who could ask: the standard input ends.

    Args:
        answers: by the kind of request; given the words of one, and the store, as ``store``.
    """
    threading.stack_size(_STACK)
    _bound.change(0)
    key, place = sys.stdin.readline().strip().encode(), secrets.token_hex(16)
    with Listener(socket_address(place), family="AF_UNIX", backlog=_BACKLOG) as listener:
        print(place, flush=True)  # noqa: T201  # for its starter
        threading.Thread(target=_accept, args=(listener, key, answers), daemon=True).start()
        sys.stdin.read()
    os._exit(0)  # nobody waits for what is under way


def _accept(listener: Listener, key: bytes, answers: dict[str, _Answer]) -> None:
    """Have a thread for each connection of this user; anybody may come, as there is no file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2 * _MOST, hard), hard))
    while True:
        try:
            connection = listener.accept()
        except OSError:  # somebody who has gone; or no descriptor is left
            time.sleep(_PAUSE_SECONDS)
            continue
        greet = threading.Thread(target=_greet, args=(connection, key, answers), daemon=True)
        if _is_own(connection) and threading.active_count() <= min(_MOST, hard // 2):
            with suppress(RuntimeError):  # no thread is left
                greet.start()
                continue
        connection.close()


def _is_own(connection: Connection) -> bool:
    """Whether the other end was opened by this user."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        found = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1]) == os.geteuid()


def _wait_at_most(connection: Connection, seconds: int) -> None:
    """Have what is heard on a connection fail after so long a silence; 0: never."""
    with socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", seconds, 0))


def _greet(connection: Connection, key: bytes, answers: dict[str, _Answer]) -> None:
    """Answer who proves to know the key."""
    with connection:
        try:
            _wait_at_most(connection, _HANDSHAKE_SECONDS)
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
            _wait_at_most(connection, 0)
        except (OSError, EOFError, AuthenticationError):
            return
        _answer(connection, answers)


def _answer(connection: Connection, answers: dict[str, _Answer]) -> None:
    while True:
        try:
            words = json.loads(connection.recv_bytes())
        except (OSError, EOFError):
            return
        status, answer = b"", memoryview(b"")
        asked = f"{words['address']}/{words.get('path', MANIFEST)}"
        try:
            store = _store(words.pop("address"))
            answer = memoryview(answers[words.pop("kind")](store, **words))
        except FileNotFoundError:  # the store's own words have many lines
            status, answer = b"absent", memoryview(f"{asked} is not there (404)".encode())
        except Exception as error:  # noqa: BLE001  # for whoever asks
            status, answer = type(error).__name__.encode(), memoryview(str(error).encode())
        try:
            connection.send_bytes(status)
            connection.send_bytes(answer)
        except OSError:
            return


class _Bound:
    """Of this process's memory: obstore holds a list's page, or an error's text, however long."""

    def __init__(self) -> None:
        self._turn, self._asked = threading.Lock(), 0

    def change(self, size: int) -> None:
        """Have room for so much more; or less, if it is negative."""
        with self._turn:
            self._asked += size
            _, hard = resource.getrlimit(resource.RLIMIT_DATA)
            most = _MEMORY + self._asked
            limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))

    @contextmanager
    def raised(self, size: int) -> Iterator[None]:
        """Have room for something large meanwhile."""
        if size < _LARGE:
            yield
            return
        self.change(size)
        try:
            yield
        finally:
            self.change(-size)


_bound: Final = _Bound()


_store = lru_cache(64)(Store)


def _read(store: Store, path: str, start: int, size: int, etag: str) -> memoryview:
    with _bound.raised(size):
        return store.read_range(path, start, size, etag)


if __name__ == "__main__":
    later = ThreadPoolExecutor(_LATER)

    def _prefetch(store: Store, **words: Any) -> bytes:
        later.submit(fetch, store, **words)  # whoever needs it will hear of what fails
        return b""

    def _manifest(store: Store) -> bytes:
        with _bound.raised(2 * MOST_BYTES):  # as it came, and as it is handed on
            found = store.read(MANIFEST)
        if found is None:
            raise FileNotFoundError(MANIFEST)
        return found

    looking: dict[str, _Answer] = {"list": list_objects, "look": look, "manifest": _manifest}
    serve({**looking, "read": _read, "fetch": fetch, "fill": fill, "prefetch": _prefetch})
