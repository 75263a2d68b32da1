"""Connections between nodes that have proved to each other that they know the same secret.

Every other user of the cluster can reach the port where nodes meet, so both ends prove first, by
the handshake of `multiprocessing.connection`, that they know a secret of this user's. Its key is
made of the secret and of all that the nodes must agree on, the port among it: who only passes on
what another port says proves nothing. Nothing that arrives is run or unpickled, and every length
is bounded.
"""

from __future__ import annotations

import hmac
import math
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from multiprocessing.context import AuthenticationError
from queue import SimpleQueue
from typing import Any, TypeAlias

import msgspec

from dataprep.errors import StagingError
from dataprep.staging.agreement import Hello, Message
from dataprep.system.messages import printable
from dataprep.system.ownership import key_file, make_key, read_key

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name

_KEY = "rendezvous"  # in the home directory, which nodes share
_STRANGERS = 512  # newcomers that are heard at a time besides nodes, each in a thread
_NEWCOMER_SECONDS = 3.0  # in which each of them must prove itself; nodes come again
_CROWDED_SECONDS = 0.2  # the same, while others wait to be heard
_PAUSE_SECONDS = 0.01
_TIMEOUT = 20.0  # seconds in which node 0 must, behind whoever else has come there
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up a node
_FILES = 256 + _STRANGERS  # descriptors besides those for nodes
_LONGEST = 1 << 16  # bytes of a message
_MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)

Link: TypeAlias = "Connection[Any, Any]"
Proven: TypeAlias = SimpleQueue[tuple[Link, Hello]]


def _as_link(connection: socket.socket) -> Link:
    """The library's connection, on which the kernel notices within a minute who has gone."""
    connection.setblocking(True)
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


@contextmanager
def newcomers(port: int, key: bytes, nodes: int) -> Iterator[Proven]:
    """Those who come to node 0 and prove that they know the secret, until this is left."""
    with _listener(port, nodes) as listener:
        listener.settimeout(_CROWDED_SECONDS)
        door = _Door(listener, key, nodes + _STRANGERS)
        thread = threading.Thread(target=door.welcome, daemon=True)
        thread.start()
        try:
            yield door.proven
        finally:
            door.over.set()
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes it
            thread.join()


class _Door:
    """Hears whoever comes, each in a thread, and no longer than others can wait."""

    def __init__(self, listener: socket.socket, key: bytes, most: int) -> None:
        self._listener, self._key, self._most = listener, key, most
        self.proven: Proven = SimpleQueue()
        self.over, self._turn = threading.Event(), threading.Lock()
        self._heard: dict[Link, float] = {}  # since when, who came first at the front

    def welcome(self) -> None:
        """Let in who comes until it is over."""
        most = self._most
        while not self.over.is_set():
            if len(self._heard) >= most:
                self._drop(time.monotonic() - _CROWDED_SECONDS)
                self.over.wait(_PAUSE_SECONDS)
                most = self._most
                continue
            self._drop(time.monotonic() - _NEWCOMER_SECONDS)
            try:
                link = _as_link(self._listener.accept()[0])
                with self._turn:
                    self._heard[link] = time.monotonic()
                threading.Thread(target=self._hear, args=(link,), daemon=True).start()
            except TimeoutError:
                continue
            except (OSError, RuntimeError):  # no descriptor or no thread is left; or it is over
                most = len(self._heard)
        self._drop(math.inf)

    def _hear(self, link: Link) -> None:
        hello = None
        with suppress(OSError, ValueError):
            prove(link, self._key, is_node_0=True)
            hello = receive(link)
        with self._turn:
            in_time = self._heard.pop(link, None) is not None
        if in_time and isinstance(hello, Hello):
            self.proven.put((link, hello))
        else:
            link.close()

    def _drop(self, since: float) -> None:
        with self._turn:  # whoever ends meanwhile leaves its descriptor to another
            for link in [*takewhile(lambda link: self._heard[link] < since, self._heard)]:
                del self._heard[link]
                hang_up(link)


def introduced(host: str, port: int, agreed: str, hello: Hello) -> Link:
    """A connection to node 0, each end of which knows the other one.

    Raises:
        OSError: nobody answers there, or not in time.
        ValueError: somebody else does, or there is no secret here.
    """
    secret, origin = _read_secret()
    link = _as_link(socket.create_connection((host, port), _CONNECT_SECONDS))
    try:
        with bounded(link, _TIMEOUT):
            prove(link, key_of(secret, agreed, port), is_node_0=False)
            send(link, hello)
            return link
    except ValueError as error:
        link.close()
        raise ValueError(
            "another program answers, or one with another job, SRC, version of dataprep, number of "
            f"nodes or secret (this node goes by {origin})"
        ) from error
    except BaseException:
        link.close()
        raise


def _listener(port: int, nodes: int) -> socket.socket:
    """Node 0's socket, on all of its networks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a connection a node
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(nodes + _FILES, hard)), hard))
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        return socket.create_server(
            ("", port), family=family, dualstack_ipv6=dual, backlog=socket.SOMAXCONN
        )
    except OSError as error:
        raise StagingError(
            f"node 0 cannot listen on port {port}: {error.strerror or error}; name another with "
            "--rendezvous HOST:PORT, the same on all nodes"
        ) from error


def make_secret() -> tuple[bytes, str]:
    """The secret of node 0, which makes the file if there is none; and where it is from.

    Raises:
        StagingError: there is none, and none can be made.
    """
    try:
        if not os.environ.get(SECRET):
            make_key(_KEY)
        return _read_secret()
    except (OSError, ValueError) as error:
        raise StagingError(
            f"nodes have no secret by which they know each other: {error}; mend that, or set "
            f"${SECRET}, the same on all nodes"
        ) from error


def _read_secret() -> tuple[bytes, str]:
    """What only one user's processes know, on all nodes, and where it is from; or a ValueError."""
    if given := os.environ.get(SECRET):
        return os.fsencode(given), f"${SECRET}"
    name = printable(str(key_file(_KEY)))
    try:
        return read_key(_KEY), name
    except OSError as error:
        flaw = f"cannot be read here ({error.strerror})"
    except ValueError as error:
        flaw = str(error)
    raise ValueError(
        f"${SECRET} is not set, and {name} {flaw}; export {SECRET}=$(openssl rand -hex 32) before "
        "the nodes are started"
    )
