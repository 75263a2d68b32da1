"""How two nodes prove to each other that they know the same secret, and what they say then.

Every other user of the cluster can reach the port where nodes meet, so both ends prove first, by
the handshake of `multiprocessing.connection`, that they know a secret of this user's. Its key is
made of the secret and of all that the nodes must agree on, the port among it: who only passes on
what another port says proves nothing. Nothing that arrives is run or unpickled, and every length
is bounded.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from multiprocessing.context import AuthenticationError
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from dataprep.errors import StagingError
from dataprep.staging.agreement import Message
from dataprep.system.durable_files import write_once
from dataprep.system.messages import printable
from dataprep.system.regular_files import open_regular

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name

_FILE = Path(".config", "dataprep", "rendezvous")  # in the home directory, which nodes share
_LONGEST = 1 << 16  # bytes of a message
_MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

Link: TypeAlias = "Connection[Any, Any]"


def as_link(connection: socket.socket) -> Link:
    """The library's connection, on which the kernel notices within a minute who has gone."""
    connection.setblocking(True)
    with suppress(OSError):  # no TCP, in tests
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # between probes
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms unheard
    return Connection(connection.detach())


def hang_up(link: Link) -> None:
    """Say no more, and hear no more; what was said still arrives."""
    with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as connection:
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def bounded(link: Link, seconds: float) -> Iterator[None]:
    """Hang up if what is done inside takes longer, however slowly the other end goes on talking."""
    timer = threading.Timer(seconds, hang_up, [link])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it must not hang up on who gets the descriptor next


def key_of(secret: bytes, agreed: str, port: int) -> bytes:
    """What both ends must have; ``agreed`` is all that they must agree on but for the port."""
    return hmac.digest(secret, f"{agreed}\n{port}".encode(), "sha256")


def prove(link: Link, key: bytes, *, is_node_0: bool) -> None:
    """Let each end see that the other one has the key; raises OSError, ValueError if it has not."""
    steps = [deliver_challenge, answer_challenge]  # who listens does not answer to just anybody
    try:
        for step in steps if is_node_0 else reversed(steps):
            step(link, key)
    except (AssertionError, AuthenticationError, EOFError) as error:
        raise ValueError("it does not know the secret") from error


def send(link: Link, message: Message) -> None:
    """Say something; raises OSError if the connection has failed."""
    link.send_bytes(msgspec.json.encode(message))


def receive(link: Link) -> Message:
    """The next message of another node.

    Raises:
        OSError: the connection failed, or the message is too long.
        ValueError: the connection ended, or it is no message.
    """
    try:
        return _MESSAGES.decode(link.recv_bytes(_LONGEST))
    except (EOFError, RecursionError, ValueError) as error:
        raise ValueError("no message") from error


def make_secret() -> tuple[bytes, str]:
    """The secret of node 0, which makes the file if there is none; and where it is from.

    Raises:
        StagingError: there is none, and none can be made.
    """
    path = Path.home() / _FILE
    try:
        if not os.environ.get(SECRET) and not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_once(path, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
        return read_secret()
    except (OSError, ValueError) as error:
        raise StagingError(
            f"nodes have no secret by which they know each other: {error}"
        ) from error


def read_secret() -> tuple[bytes, str]:
    """What only one user's processes know, on all nodes, and where it is from.

    Raises:
        ValueError: there is none.
    """
    if given := os.environ.get(SECRET):
        return os.fsencode(given), f"${SECRET}"
    path = Path.home() / _FILE
    name = printable(str(path))
    try:
        with open_regular(path, link=False) as file:
            found, text = os.fstat(file.fileno()), file.read(100)
        flaw = "is not 64 hexadecimal digits; delete it"
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
            flaw = "is not a file of yours alone (mode 0600)"
        elif re.fullmatch(rb"[0-9a-f]{64}\n?", text):
            return text.strip(), name
    except OSError as error:
        flaw = f"cannot be read here ({error.strerror})"
    raise ValueError(
        f"${SECRET} is not set, and {name} {flaw}; export {SECRET}=$(openssl rand -hex 32) before "
        "the nodes are started"
    )
