"""Connections between nodes, and how both ends prove who they are before either is believed.

::

    node k                                        node 0
                                ◀───────   Greeting
    nonce, Hello                ───────▶
                                ◀───────   Hello

The first line is believed by nobody. Everything behind it is signed with a key that follows from
the secret of `dataprep.staging.secret`, both nonces and all that the nodes must agree on, the port
among it: who only passes on what another says proves nothing. Each message has its direction and
its number, so that none can be sent back, left out or repeated.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import selectors
import socket
import time
from contextlib import suppress
from typing import Self, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from dataprep.staging.agreement import Agreed, NodeDone, NodeStart
from dataprep.staging.secret import SECRET, Offer, accept

MOST_UNPROVEN = 512  # connections of whom nothing is known; the oldest must go for a new one

_NONCE = 32  # bytes
_SIGNATURE = 32
_LONGEST = 1 << 16  # bytes of a message
_LONGEST_UNPROVEN = 1 << 12  # of one by which nothing is proved yet
_AT_ONCE = 64  # newcomers, before those who are there are heard again
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up the other ports
_GREETING_SECONDS = 5.0
_WELCOME_SECONDS = 10.0
_STRANGER = (
    "another program answers, another job, another version of dataprep, or not the same "
    f"--world_size or ${SECRET}"
)


class Greeting(Struct, frozen=True, forbid_unknown_fields=True):
    """What node 0 says to whoever comes.

    Attributes:
        nonce: unlike that of any other connection.
        way: see `Offer`, as the credential.
    """

    nonce: str
    way: str
    credential: str


class Hello(Struct, frozen=True, forbid_unknown_fields=True, tag="hello"):
    """Which node this is, once it believes the other end."""

    node: int
    host: str


class Failed(Struct, frozen=True, forbid_unknown_fields=True, tag="failed"):
    """Why there is no copy, and whether it is for too little room."""

    reason: str
    no_room: bool = False


Message: TypeAlias = Hello | NodeStart | NodeDone | Agreed | Failed

AnyMessage = TypeVar("AnyMessage")

_GREETINGS = msgspec.json.Decoder(Greeting)
_HELLOS = msgspec.json.Decoder(Hello)
MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class Link:
    """A connection to another node, each end of which can tell that the other knows the secret.

    Args:
        connection: whose bytes are blocking.
        is_node_0: which end this is.
    """

    def __init__(self, connection: socket.socket, key: bytes, *, is_node_0: bool) -> None:
        self._connection = connection
        self._key = key
        self._sends, self._receives = (b"0", b"k") if is_node_0 else (b"k", b"0")
        self._sent = self._received = 0

    def fileno(self) -> int:
        """By which the system knows it."""
        return self._connection.fileno()

    def send(self, message: Message) -> None:
        """Send a message; from one thread at a time."""
        data = msgspec.json.encode(message)
        signature = self._sign(self._sends, self._sent, data)
        self._sent += 1
        self._connection.sendall((_SIGNATURE + len(data)).to_bytes(4) + signature + data)

    def receive(
        self, kind: msgspec.json.Decoder[AnyMessage], deadline: float | None = None
    ) -> AnyMessage:
        """The next message.

        Raises:
            OSError: the connection failed, or the deadline has passed.
            ValueError: it ended, or what came is not the other end's next message.
        """
        return self.opened(_with_length(self._connection, _LONGEST, deadline), kind)

    def opened(self, signed: bytes, kind: msgspec.json.Decoder[AnyMessage]) -> AnyMessage:
        """The message within what came; raises ValueError as `receive` does."""
        signature, data = signed[:_SIGNATURE], signed[_SIGNATURE:]
        if not hmac.compare_digest(signature, self._sign(self._receives, self._received, data)):
            raise ValueError(_STRANGER)
        self._received += 1
        return _decoded(data, kind)

    def wait_for_ever(self) -> None:
        """But let the kernel notice within a minute that the other machine has gone."""
        link = self._connection
        link.settimeout(None)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # seconds between probes
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms unacknowledged

    def end(self) -> None:
        """Say no more, and hear no more; what was said still arrives."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()

    def _sign(self, direction: bytes, number: int, data: bytes) -> bytes:
        return hmac.digest(self._key, direction + number.to_bytes(8) + data, "sha256")


class Newcomers:
    """Who comes to node 0 and has not proved anything yet. A context manager.

    Nobody is waited for: who says nothing is in nobody's way, and goes when too many have come.

    Args:
        listener: node 0's socket; closed at the end.
        agreed: what is the same on all nodes of this job, and only there.
    """

    def __init__(self, listener: socket.socket, agreed: bytes, offered: Offer) -> None:
        self._listener = listener
        self._agreed = _with_port(agreed, listener.getsockname()[1])
        self._offered = offered
        self._said: dict[socket.socket, tuple[bytes, bytearray]] = {}  # oldest first
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in [*self._said]:
            self._drop(connection)
        self._selector.close()
        self._listener.close()

    def proven(self, seconds: float) -> list[tuple[Link, Hello]]:
        """Those who have proved to be of this job meanwhile, and what they said.

        Args:
            seconds: how long to wait for anybody to say anything.
        """
        found = []
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._listener:
                self._let_in()
            elif key.fileobj in self._said:  # not dropped meanwhile for a new one
                assert isinstance(key.fileobj, socket.socket)  # noqa: S101  # for mypy
                try:
                    if (known := self._hear(key.fileobj)) is not None:
                        found.append(known)
                except (OSError, ValueError):
                    self._drop(key.fileobj)
        return found

    def _let_in(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:  # no descriptor is left, or the other end has hung up
                if not self._said:
                    raise
                self._drop(next(iter(self._said)))
                continue
            if len(self._said) >= MOST_UNPROVEN:
                self._drop(next(iter(self._said)))
            connection.setblocking(False)
            offered = self._offered
            greeting = Greeting(secrets.token_hex(_NONCE), offered.way, offered.credential)
            text = msgspec.json.encode(greeting)
            try:
                connection.sendall(len(text).to_bytes(4) + text)  # what a new buffer has room for
            except OSError:
                connection.close()
                continue
            self._said[connection] = (text, bytearray())
            self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: socket.socket) -> tuple[Link, Hello] | None:
        """The link and what was said on it, once that is whole."""
        greeting, said = self._said[connection]
        if not (part := connection.recv(_LONGEST_UNPROVEN)):
            raise ValueError(_STRANGER)
        said += part
        head = _NONCE + 4
        length = int.from_bytes(said[_NONCE:head])
        if length > _LONGEST_UNPROVEN:
            raise ValueError(_STRANGER)
        if len(said) < head + length:
            return None
        key = _key(self._offered.secret, self._agreed, greeting, bytes(said[:_NONCE]))
        link = Link(connection, key, is_node_0=True)
        hello = link.opened(bytes(said[head:]), _HELLOS)
        del self._said[connection]
        self._selector.unregister(connection)
        connection.setblocking(True)
        return link, hello

    def _drop(self, connection: socket.socket) -> None:
        del self._said[connection]
        self._selector.unregister(connection)
        connection.close()


def introduced(host: str, port: int, agreed: bytes, hello: Hello) -> tuple[Link, Hello]:
    """A connection to node 0, which knows this node.

    Args:
        host: node 0's.

    Returns:
        The connection, and node 0's answer.

    Raises:
        OSError: nobody answers there, or not in time.
        ValueError: somebody else does.
    """
    connection = socket.create_connection((host, port), _CONNECT_SECONDS)
    try:
        deadline = time.monotonic() + _GREETING_SECONDS
        greeting = _with_length(connection, _LONGEST_UNPROVEN, deadline)
        said = _decoded(greeting, _GREETINGS)
        secret = accept(said.way, said.credential)
        nonce = os.urandom(_NONCE)
        key = _key(secret, _with_port(agreed, port), greeting, nonce)
        link = Link(connection, key, is_node_0=False)
        connection.settimeout(_WELCOME_SECONDS)
        connection.sendall(nonce)
        link.send(hello)
        return link, link.receive(_HELLOS, time.monotonic() + _WELCOME_SECONDS)
    except BaseException:
        connection.close()
        raise


def _with_port(agreed: bytes, port: int) -> bytes:
    return agreed + b"\0" + port.to_bytes(2)


def _key(secret: bytes, agreed: bytes, greeting: bytes, nonce: bytes) -> bytes:
    """The key of one connection; each part is hashed by itself, so that none runs into the next."""
    parts = b"".join(hashlib.sha256(part).digest() for part in (agreed, greeting, nonce))
    return hmac.digest(secret, parts, "sha256")


def _decoded(data: bytes, kind: msgspec.json.Decoder[AnyMessage]) -> AnyMessage:
    try:
        return kind.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(_STRANGER) from error


def _with_length(connection: socket.socket, longest: int, deadline: float | None) -> bytes:
    """What has its length before it."""
    length = int.from_bytes(_exactly(connection, 4, deadline))
    if length > longest:
        raise ValueError(_STRANGER)
    return _exactly(connection, length, deadline)


def _exactly(connection: socket.socket, count: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < count:
        if deadline is not None:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
        part = connection.recv(count - len(data))
        if not part:
            raise ValueError(_STRANGER)
        data += part
    return bytes(data)
