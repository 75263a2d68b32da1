"""The process that makes requests: who may ask it, how many, and how long they may say nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Client, Connection
from typing import Any

import pytest

from dataprep.remote.process import requests, socket_address
from tests.faults.conftest import eventually

KEY = b"the key"
MOST = 40
_LONG = 60.0

# With bounds that a test reaches; it says nothing to those who ask but how many threads it has.
SERVER = """
import sys, threading
from dataprep.remote import server
server._HANDSHAKE_SECONDS, server._MOST = map(int, sys.argv[1:])
server._store = str
server.serve({"threads": lambda _: str(threading.active_count()).encode()})
"""
# Of another user: comes many times, says nothing, and counts who hangs up on it.
STRANGER = """
import os, socket, sys
os.setgroups([]), os.setgid(65534), os.setuid(65534)
count, ends = 0, []
for _ in range(200):
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(60)
    end.connect(sys.argv[1].replace("@", "\\0"))
    ends.append(end)
for end in ends:
    try:
        count += end.recv(100) == b""
    except ConnectionResetError:
        count += 1
print(count)
"""


@contextmanager
def asking(place: str) -> Iterator[Connection[Any, Any]]:
    with Client(place, family="AF_UNIX", authkey=KEY) as connection:
        yield connection


def threads(connection: Connection[Any, Any]) -> int:
    connection.send_bytes(b'{"kind": "threads", "address": "s3://b/p"}')
    assert connection.recv_bytes() == b""
    return int(connection.recv_bytes())


@contextmanager
def serving(seconds: float) -> Iterator[str]:
    """A server of this test's own, which lets nobody be silent longer, and its place."""
    pytest.importorskip("obstore", reason="needs obstore: make readers")
    words = [sys.executable, "-c", SERVER, str(seconds), str(MOST)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{KEY.decode()}\n")
        process.stdin.flush()
        yield socket_address(process.stdout.readline().strip())
        process.stdin.close()


def silent(place: str) -> socket.socket:
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(_LONG)
    end.connect(place)
    return end


def heard(end: socket.socket) -> int:
    """How many bytes, until it is hung up on."""
    with suppress(ConnectionResetError):
        return len(end.recv(100)) and 1 + heard(end)
    return 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_gets_no_thread() -> None:
    with serving(60) as place, asking(place) as ours:
        before = threads(ours)
        word = place.replace("\0", "@")
        told = subprocess.check_output([sys.executable, "-c", STRANGER, word], timeout=_LONG)
        assert (int(told), threads(ours)) == (200, before)


def test_who_says_nothing_is_hung_up_on_and_who_has_the_key_is_not() -> None:
    with serving(1) as place, asking(place) as ours, silent(place) as mute:
        assert heard(mute)
        with asking(place) as other:
            assert threads(other)
        assert threads(ours)


def test_connections_are_bounded_and_who_has_one_keeps_it() -> None:
    with serving(60) as place, asking(place) as ours:
        with ExitStack() as stack:
            ends = [stack.enter_context(silent(place)) for _ in range(3 * MOST)]
            assert not heard(ends[-1])
            assert MOST <= threads(ours) <= MOST + 1
        eventually(lambda: threads(ours) < MOST)
        with asking(place) as other:
            assert threads(other)


def test_what_is_not_there_is_said_in_a_line(bucket: Any) -> None:
    where = f"s3://{bucket.name}/raw"
    words: dict[str, Any] = {"path": "list.csv", "start": 0, "size": 9, "etag": ""}
    with pytest.raises(FileNotFoundError) as raised:
        requests().ask("read", where, **words)
    assert str(raised.value) == f"{where}/list.csv is not there (404)"


def test_its_memory_is_bounded_but_for_what_is_asked_for() -> None:
    """obstore holds whole what a store says of an error, and a page of a list."""
    words = (
        "import resource; from dataprep.remote import server as s; s._MEMORY = 300 << 20\n"
        "s._bound.change(0)\n"
        "with s._bound.raised(400 << 20): kept = bytearray(400 << 20)\n"
        "del kept\n"
        "try: bytearray(400 << 20)\n"
        "except MemoryError: print(resource.getrlimit(resource.RLIMIT_DATA)[0] >> 20)\n"
    )
    command = [sys.executable, "-c", words]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "300\n"
