"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                        node 0
                  ◀──  each proves the secret  ──▶
    Hello                       ───────▶
                                ◀───────   Hello
                                ◀───────   Agreed       once all are there
    NodeStart, NodeDone         ───────▶
                                ◀───────   Agreed       once all have reported
    Failed                      ───────▶
                                ◀───────   Failed       at any time

Node 0 draws the conclusion, so that what it sends is short. Every other user of the cluster can
reach the port, so both ends prove first, by the handshake of `multiprocessing.connection`, that
they know a secret of this user's. Its key is made of the secret and of all that the nodes must
agree on, the port among it: who only passes on what another port says proves nothing. Nothing that
arrives is run or unpickled, every length is bounded, and no data and no path of a file to be
written travels here.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import resource
import secrets
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from multiprocessing.context import AuthenticationError
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeAlias

import msgspec

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.agreement import (
    Agreed,
    Alone,
    Failed,
    Hello,
    Message,
    Peers,
    Report,
    Waiting,
    failure,
    named,
)
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.system.durable_files import write_once
from dataprep.system.messages import printable, some_of
from dataprep.system.regular_files import open_regular
from dataprep.version import __version__

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name
MOST_UNPROVEN = 256  # connections of whom nothing is known yet; each has a thread
GRACE_SECONDS = 1.0  # that each of them has, however many others wait

_FILE = Path(".config", "dataprep", "rendezvous")  # in the home directory, which nodes share
_LONGEST = 1 << 16  # bytes of a message
_TIMEOUT = 10  # seconds that a handshake waits for the other end to say anything
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up a node
_POLL_SECONDS = 0.05
# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _PORTS = 20_000, 12_768
_FILES = 256 + MOST_UNPROVEN  # descriptors besides those for nodes
_ADVICE = (
    "see what was said there, whether its storage hangs, and whether a firewall is between "
    "(--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)

_MESSAGES: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)
_Link: TypeAlias = "Connection[Any, Any]"


def connected(
    request: StageRequest,
    placement: Placement,
    on_failure: Callable[[DataprepError], None],
    reporter: StageReporter,
) -> AbstractContextManager[Peers]:
    """The other nodes, once all have met at node 0; nobody if they cannot meet.

    Args:
        request: the call, whose ``--rendezvous`` overrules the scheduler.
        on_failure: called, from another thread, as soon as another node has failed.
        reporter: told if the nodes do not meet, and by what they know each other.

    Raises:
        UsageError: ``--rendezvous`` is no address, or it is not known which node this is.
        StagingError: not all nodes came in time, two have the same index, or there is no secret.
    """
    address, host = request.rendezvous, placement.leader
    if address not in (None, "none"):
        require_node(placement, "--rendezvous")
    if placement.nodes == 1 or address == "none" or not (address or (placement.step and host)):
        if placement.nodes > 1 and placement.node == 0 and placement.origin != "--rank":
            reporter.line(
                f"{placement.host} does not meet the other {placement.nodes - 1} nodes of this job:"
                " each must be staged by a process of its own (srun --ntasks-per-node=1 -K "
                "dataprep stage …), and does not hear of the others' failures (see --rendezvous)"
            )
        return Alone(placement.node, placement.nodes)
    # With the source: one step may stage several things side by side.
    token = printable(f"{placement.step or address} {request.source} {os.getuid()}")
    host, port = parse_address(address) if address else (str(host), port_of(token))
    met = _Nodes(placement, f"{token}\n{placement.nodes}\n{__version__}", on_failure)
    try:
        if placement.node == 0:
            met.gather(port, _make_secret(reporter), request.rendezvous_seconds)
        else:
            met.join(host, port, request.rendezvous_seconds)
    except BaseException as error:
        met.__exit__(None, error, None)
        raise
    return met


class _Nodes:
    """This node among the others: node 0 has a connection to each of them, each has one to it.

    A thread hears what is said on them, so that a failure stops the copying at once.
    """

    def __init__(
        self, placement: Placement, agreed: str, on_failure: Callable[[DataprepError], None]
    ) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._host = placement.host
        self._agreed = agreed
        self._on_failure = on_failure
        self._links: dict[int, _Link] = {}
        self._names = {self.index: named(self.index, self._host)}
        self._inbox: SimpleQueue[tuple[int, Message] | StagingError] = SimpleQueue()
        self._sending = threading.Lock()
        self._over = False  # all know of a failure, or this node leaves
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def gather(self, port: int, secret: bytes, seconds: float) -> None:
        """On node 0: wait until all nodes are there. Nobody is let in after that."""
        deadline, waiting = time.monotonic() + seconds, Waiting(seconds)
        newcomers = Newcomers(_key(secret, self._agreed, port))
        with _listener(port, self.count) as listener, newcomers:
            while missing := [str(node) for node in range(self.count) if node not in self._names]:
                what = f"node {some_of(missing)} of {self.count}"
                if time.monotonic() > deadline:
                    raise StagingError(
                        f"{what} did not come to node 0 within {seconds:g} s; {_ADVICE}"
                    )
                if not waiting.left:
                    waiting.tell(f"{what} to come to {self._names[0]}")
                with suppress(OSError):  # nobody has come, or no descriptor is left
                    if newcomers.have_room():
                        newcomers.hear(as_link(listener.accept()[0]))
                for link, hello in newcomers.proven():
                    self._welcome(link, hello)
        self._thread.start()
        self._tell(Agreed())

    def _welcome(self, link: _Link, hello: Hello) -> None:
        node, name = hello.node, named(hello.node, hello.host)
        with suppress(OSError):  # the thread that listens finds out
            _send(link, Hello(0, self._host))
        if node in self._names:
            self._links[-1] = link  # it is told, too
            raise StagingError(
                f"{self._names[node]} and {name} have the same index; start one process a node, "
                "each with its own (--rank, --world_size)"
            )
        self._links[node], self._names[node] = link, name

    def join(self, host: str, port: int, seconds: float) -> None:
        """On any other node: find node 0, which may come later, and wait until all are there."""
        deadline, waiting = time.monotonic() + seconds, Waiting(seconds)
        me = self._names[self.index]
        # A crowd that is turned away together must not come back together.
        pause = 0.05 * (1 + self.index % 97 / 97)
        while not self._links:
            # Of thousands of nodes a few say it.
            if not waiting.left and self.index & (self.index - 1) == 0:
                waiting.tell(f"node 0, which {me} does not find at {host}")
            try:
                hello = Hello(self.index, self._host)
                self._links[0], name = _introduced(host, port, self._agreed, hello)
                self._names[0] = named(0, name)
            except (OSError, ValueError) as error:
                if time.monotonic() + pause > deadline:
                    raise StagingError(
                        f"{me} did not find node 0 at {printable(host)} within {seconds:g} s: port "
                        f"{port}: {error}; {_ADVICE}"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
        self._thread.start()
        self._next()

    def exchange(self, report: Report, conclude: Callable[[Sequence[Report]], Agreed]) -> Agreed:
        if self.index != 0:
            self._tell(report)
            _, agreed = self._next()
            assert isinstance(agreed, Agreed)  # noqa: S101  # all that node 0 says but for failures
            return agreed
        reports, waiting = {0: report}, Waiting()
        while len(reports) < self.count:
            try:
                node, message = self._next(waiting.left)
            except Empty:
                missing = [name for node, name in self._names.items() if node not in reports]
                waiting.tell(f"{some_of(missing)} to report, of {self.count} nodes")
                continue
            assert isinstance(message, type(report))  # noqa: S101  # all nodes go the same way
            reports[node] = message
        try:
            agreed = conclude([reports[node] for node in range(self.count)])
        except DataprepError as error:
            self._end(failure(error))
            raise
        self._tell(agreed)
        return agreed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._end(failure(error, f"{self._names[self.index]} failed: "))
        self._over = True
        for link in self._links.values():
            _hang_up(link)
        if self._thread.is_alive():
            self._thread.join()
        for link in self._links.values():
            link.close()

    def _next(self, seconds: float | None = None) -> tuple[int, Message]:
        """What another node says next; what came before a failure counts. Empty if nothing."""
        found = self._inbox.get(timeout=seconds)
        if isinstance(found, StagingError):
            self._inbox.put(found)  # nothing else will ever come
            raise found
        return found

    def _tell(self, message: Message) -> None:
        with self._sending:
            for link in self._links.values():
                with suppress(OSError):  # the thread that listens finds out
                    _send(link, message)

    def _end(self, failed: Failed) -> bool:
        """Tell of a failure; only of the first, for what follows is its consequence."""
        first, self._over = not self._over, True
        if first:
            self._tell(failed)
        return first

    def _listen(self) -> None:
        nodes = {link: node for node, link in self._links.items()}
        for link in nodes:
            _wait_for_ever(link)
        while nodes:
            for ready in wait([*nodes]):
                assert isinstance(ready, Connection)  # noqa: S101  # for mypy
                link, node = ready, nodes[ready]
                try:
                    message = receive(link)
                except (OSError, ValueError):
                    message = Failed(
                        f"{self._names[node]} is lost: its connection ended; see whether "
                        "the process was killed (memory, time limit) or the node went down"
                    )
                if not isinstance(message, Failed):
                    self._inbox.put((node, message))
                    continue
                del nodes[link]
                if self._end(message):
                    kind = NoRoomError if message.no_room else StagingError
                    error = kind(message.reason)
                    self._inbox.put(error)
                    self._on_failure(error)


class Newcomers:
    """Those who have come to node 0, each heard in a thread of its own. A context manager.

    So who says nothing is in nobody's way; when too many have come, those who have proved nothing
    for longest must go.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._turn = threading.Lock()
        self._unproven: dict[_Link, float] = {}  # since when they are here
        self._proven: list[tuple[_Link, Hello]] = []

    def have_room(self) -> bool:
        """Whether one more may come now; waits a little if not."""
        with self._turn:
            if len(self._unproven) < MOST_UNPROVEN:
                return True
            for link, since in self._unproven.items():
                if time.monotonic() - since > GRACE_SECONDS:
                    _hang_up(link)
        time.sleep(_POLL_SECONDS)
        return False

    def hear(self, link: _Link) -> None:
        """Begin to listen to somebody who has come."""
        with self._turn:
            self._unproven[link] = time.monotonic()
        try:
            threading.Thread(target=self._hear, args=(link,), daemon=True).start()
        except RuntimeError:  # the user may have no more threads
            self._heard(link, None)

    def _hear(self, link: _Link) -> None:
        hello: Hello | None = None
        with suppress(OSError, ValueError):
            prove(link, self._key, is_node_0=True)
            hello = _receive_hello(link)
        self._heard(link, hello)

    def _heard(self, link: _Link, hello: Hello | None) -> None:
        with self._turn:
            del self._unproven[link]
            if hello is not None:
                self._proven.append((link, hello))
            else:
                link.close()

    def proven(self) -> list[tuple[_Link, Hello]]:
        """Those who have proved meanwhile that they know the secret, and what they said."""
        with self._turn:
            found, self._proven = self._proven, []
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._turn:
            for link in [*self._unproven, *(link for link, _ in self._proven)]:
                _hang_up(link)


def _introduced(host: str, port: int, agreed: str, hello: Hello) -> tuple[_Link, str]:
    """A connection to node 0, each end of which knows the other one; and node 0's own name.

    Raises:
        OSError: nobody answers there, or not in time.
        ValueError: somebody else does, or there is no secret here.
    """
    secret, origin = _read_secret()
    link = as_link(socket.create_connection((host, port), _CONNECT_SECONDS))
    try:
        prove(link, _key(secret, agreed, port), is_node_0=False)
        _send(link, hello)
        return link, _receive_hello(link).host
    except ValueError as error:
        link.close()
        raise ValueError(
            "another program answers, another job, another version of dataprep, or not the same "
            f"--world_size, or secret (this node goes by {origin})"
        ) from error
    except BaseException:
        link.close()
        raise


def prove(link: _Link, key: bytes, *, is_node_0: bool) -> None:
    """Let each end see that the other one has the key; raises OSError, ValueError if it has not."""
    steps = [deliver_challenge, answer_challenge]  # who listens does not answer to just anybody
    try:
        for step in steps if is_node_0 else reversed(steps):
            step(link, key)
    except (AssertionError, AuthenticationError, EOFError) as error:
        raise ValueError("it does not know the secret") from error


def _key(secret: bytes, agreed: str, port: int) -> bytes:
    return hmac.digest(secret, f"{agreed}\n{port}".encode(), "sha256")


def receive(link: _Link) -> Message:
    """The next message of another node.

    Raises:
        OSError: the connection failed, or the message is too long.
        ValueError: the connection ended, or it is no message.
    """
    try:
        return _MESSAGES.decode(link.recv_bytes(_LONGEST))
    except (EOFError, RecursionError, ValueError) as error:
        raise ValueError("no message") from error


def _receive_hello(link: _Link) -> Hello:
    message = receive(link)
    if not isinstance(message, Hello):
        raise ValueError("it does not say which node it is")  # noqa: TRY004  # nor is it a type's
    return message


def _send(link: _Link, message: Message) -> None:
    link.send_bytes(msgspec.json.encode(message))


def as_link(connection: socket.socket) -> _Link:
    """The library's connection, which fails when the other end is silent for too long."""
    connection.setblocking(True)
    _set_timeout(connection, _TIMEOUT)
    return Connection(connection.detach())


def _set_timeout(connection: socket.socket, seconds: int) -> None:
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        connection.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", seconds, 0))


def _wait_for_ever(link: _Link) -> None:
    """But let the kernel notice within a minute that the other machine has gone."""
    with socket.socket(fileno=os.dup(link.fileno())) as connection:
        _set_timeout(connection, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # between probes
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms unheard


def _hang_up(link: _Link) -> None:
    """Say no more, and hear no more; what was said still arrives."""
    with suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as connection:
        connection.shutdown(socket.SHUT_RDWR)


def _make_secret(reporter: StageReporter) -> bytes:
    """What node 0 goes by; where it is from is told, unless that is the environment."""
    path = Path.home() / _FILE
    try:
        if not os.environ.get(SECRET) and not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_once(path, f"{secrets.token_hex(32)}\n".encode(), mode=0o600)
        secret, origin = _read_secret()
    except (OSError, ValueError) as error:
        raise StagingError(
            f"nodes have no secret by which they know each other: {error}"
        ) from error
    if origin != f"${SECRET}":
        reporter.line(f"nodes know each other by {origin}")
    return secret


def _read_secret() -> tuple[bytes, str]:
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


def port_of(token: str) -> int:
    """The port where the token's job meets."""
    return _FIRST_PORT + int.from_bytes(hashlib.sha256(token.encode()).digest()) % _PORTS


def parse_address(address: str) -> tuple[str, int]:
    """``HOST:PORT``, with or without brackets around HOST.

    Raises:
        UsageError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--rendezvous {address!r}: expected HOST:PORT, PORT from 1 to 65535")
    return host.strip("[]"), int(port)


def _listener(port: int, nodes: int) -> socket.socket:
    """Node 0's socket, on all of its networks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a connection a node
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(nodes + _FILES, hard)), hard))
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    try:
        listener = socket.create_server(
            ("", port), family=family, dualstack_ipv6=dual, backlog=socket.SOMAXCONN
        )
    except OSError as error:
        raise StagingError(
            f"node 0 cannot listen on port {port}: {error.strerror or error}; name another with "
            "--rendezvous HOST:PORT, the same on all nodes"
        ) from error
    listener.settimeout(_POLL_SECONDS)
    return listener
