"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                        node 0
    {"node": 3, "host": …}      ───────▶
                                ◀───────   {"welcome": …}
                                ◀───────   {"answer": null}   once all are there
    {"report": {…}}             ───────▶
                                ◀───────   {"answer": …}      once all have reported
    {"failed": "node 3 …"}      ───────▶
                                ◀───────   {"failed": …}      at any time

Node 0 draws the conclusion, so that what it sends is short. Every other user of the cluster can
reach the port, so each message is signed by who knows the job, step, user and source, and
``$DATAPREP_RENDEZVOUS_SECRET`` if it is set. Without that secret, who guesses the rest can make a
job fail. Nothing that arrives is run or unpickled, every length is bounded, and no data and no
path of a file to be written travels here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import wait
from queue import SimpleQueue
from typing import Any, Self

from dataprep import __version__
from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.agreement import Alone, Conclude, Peers, Report
from dataprep.staging.copying import Watch
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.system.messages import printable, some_of

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name

_LONGEST = 1 << 16  # bytes of a message
_PORTS = 16  # that a job tries, for some may be taken
# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_FILES = 256  # descriptors besides those for nodes
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up the other ports
_HELLO_SECONDS = 2.0  # the same of strangers who come to node 0
_WELCOME_SECONDS = 10.0  # node 0 may have 1535 others to greet
_STRANGER = (
    "another program answers, another job, another version of dataprep, or not the same "
    f"--world_size or ${SECRET}"
)
_ADVICE = (
    "see what was said there, whether its storage hangs, and whether a firewall is between "
    "(--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)

_Message = Mapping[str, Any]


def connected(
    request: StageRequest, placement: Placement, watch: Watch, reporter: StageReporter
) -> AbstractContextManager[Peers]:
    """The other nodes, once all have met at node 0; nobody if they cannot meet.

    Args:
        request: the call, whose ``--rendezvous`` overrules the scheduler.
        placement: which node this is.
        watch: stopped, from another thread, as soon as another node has failed.
        reporter: told if the nodes do not meet.

    Raises:
        UsageError: ``--rendezvous`` is no address, or it is not known which node this is.
        StagingError: not all nodes came in time, or two have the same index.
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
    token = f"{placement.step or address} {request.source} {os.getuid()}"
    ports = candidate_ports(token)
    if address is not None:
        host, port = parse_address(address)
        ports = [port]
    key = f"{token}\n{placement.nodes}\n{__version__}\n{os.environ.get(SECRET, '')}".encode()
    met = _Met(placement, key, watch.stop)
    try:
        if placement.node == 0:
            met.gather(ports, request.rendezvous_seconds)
        else:
            met.join(str(host), ports, request.rendezvous_seconds)
    except BaseException as error:
        met.__exit__(None, error, None)
        raise
    return met


class _Met:
    """This node among the others: node 0 has a connection to each of them, each has one to it.

    A thread hears what is said on them, so that a failure stops the copying at once.
    """

    def __init__(
        self, placement: Placement, key: bytes, on_failure: Callable[[StagingError], None]
    ) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._host = placement.host
        self._key = key
        self._on_failure = on_failure
        self._links: dict[int, socket.socket] = {}
        self._names = {self.index: _named(self.index, self._host)}
        self._inbox: SimpleQueue[tuple[int, _Message] | StagingError] = SimpleQueue()
        self._sending = threading.Lock()
        self._over = False  # all know of a failure, or this node leaves
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def gather(self, ports: Sequence[int], seconds: float) -> None:
        """On node 0: wait until all nodes are there. Nobody is let in after that."""
        deadline = time.monotonic() + seconds
        with _listener(ports, self.count) as listener:
            while len(self._names) < self.count:
                listener.settimeout(max(0.001, deadline - time.monotonic()))
                try:
                    link, _ = listener.accept()
                except TimeoutError:
                    missing = [str(k) for k in range(self.count) if k not in self._names]
                    raise StagingError(
                        f"node {some_of(missing)} of {self.count} did not come to node 0 within "
                        f"{seconds:g} s; {_ADVICE}"
                    ) from None
                try:
                    link.settimeout(_HELLO_SECONDS)
                    hello = _receive(link, self._key)
                    _send(link, self._key, {"welcome": self._host})
                except (OSError, ValueError):
                    link.close()
                    continue
                node, name = hello["node"], _named(hello["node"], hello["host"])
                if node in self._names:
                    self._links[-1] = link  # it is told, too
                    raise StagingError(
                        f"{self._names[node]} and {name} have the same index; start one process a "
                        "node, each with its own (--rank, --world_size)"
                    )
                self._links[node], self._names[node] = link, name
        self._thread.start()
        self._tell({"answer": None})

    def join(self, host: str, ports: Sequence[int], seconds: float) -> None:
        """On any other node: find node 0, which may come later, and wait until all are there."""
        deadline = time.monotonic() + seconds
        # A crowd that is turned away together must not come back together.
        pause = 0.05 * (1 + self.index % 97 / 97)
        while not self._links:
            for port in ports:
                try:
                    self._links[0] = self._introduced(host, port)
                    break
                except (OSError, ValueError, KeyError) as error:
                    reason = f"port {port}: {error}"
            else:
                if time.monotonic() + pause > deadline:
                    raise StagingError(
                        f"{self._names[self.index]} did not find node 0 at {printable(host)} "
                        f"within {seconds:g} s: {reason}; {_ADVICE}"
                    )
                time.sleep(pause)
                pause = min(2 * pause, 2.0)
        self._thread.start()
        self._next()

    def _introduced(self, host: str, port: int) -> socket.socket:
        """A connection to node 0, which knows this node."""
        link = socket.create_connection((host, port), _CONNECT_SECONDS)
        try:
            link.settimeout(_WELCOME_SECONDS)
            _send(link, self._key, {"node": self.index, "host": self._host})
            self._names[0] = _named(0, _receive(link, self._key)["welcome"])
        except BaseException:
            link.close()
            raise
        return link

    def exchange(self, report: Report, conclude: Conclude) -> Any:
        if self.index != 0:
            self._tell({"report": report})
            return self._next()[1]["answer"]
        reports = {0: report}
        while len(reports) < self.count:
            node, message = self._next()
            reports[node] = message["report"]
        try:
            answer = conclude([reports[node] for node in range(self.count)])
        except DataprepError as error:
            self._end({"failed": str(error), "no_room": isinstance(error, NoRoomError)})
            raise
        self._tell({"answer": answer})
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            reason = " ".join(str(error).split()) or type(error).__name__
            text = f"{self._names[self.index]} failed: {reason}"
            self._end({"failed": text, "no_room": isinstance(error, NoRoomError)})
        self._over = True
        for link in [*self._links.values()]:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)  # what was said still arrives
        if self._thread.is_alive():
            self._thread.join()
        for link in self._links.values():
            link.close()

    def _next(self) -> tuple[int, _Message]:
        """What another node says next; what came before a failure counts."""
        found = self._inbox.get()
        if isinstance(found, StagingError):
            self._inbox.put(found)  # nothing else will ever come
            raise found
        return found

    def _tell(self, message: _Message) -> None:
        with self._sending:
            for link in [*self._links.values()]:
                with suppress(OSError):  # the thread that listens finds out
                    _send(link, self._key, message)

    def _end(self, message: _Message) -> bool:
        """Tell of a failure; only of the first, for what follows is its consequence."""
        first, self._over = not self._over, True
        if first:
            self._tell(message)
        return first

    def _listen(self) -> None:
        for each in self._links.values():
            _wait_for_ever(each)
        nodes = {link: node for node, link in self._links.items()}
        while nodes:
            for link in wait([*nodes]):
                assert isinstance(link, socket.socket)  # noqa: S101  # for mypy
                try:
                    message = _receive(link, self._key)
                except (OSError, ValueError):
                    message = {
                        "failed": f"{self._names[nodes[link]]} is lost: its connection ended; see "
                        "whether the process was killed (memory, time limit) or the node went down"
                    }
                if "failed" not in message:
                    self._inbox.put((nodes[link], message))
                    continue
                del nodes[link]
                if self._end(message):
                    kind = NoRoomError if message.get("no_room") is True else StagingError
                    error = kind(message["failed"])
                    self._inbox.put(error)
                    self._on_failure(error)


def candidate_ports(token: str) -> Sequence[int]:
    """The ports where the token's job meets, in the order in which they are tried."""
    number = int.from_bytes(hashlib.sha256(token.encode()).digest())
    first = _FIRST_PORT + number % (_LAST_PORT - _FIRST_PORT + 2 - _PORTS)
    return range(first, first + _PORTS)


def parse_address(address: str) -> tuple[str, int]:
    """``HOST:PORT``, with or without brackets around HOST.

    Raises:
        UsageError: it is none.
    """
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UsageError(f"--rendezvous {address!r}: expected HOST:PORT, PORT from 1 to 65535")
    return host.strip("[]"), int(port)


def _listener(ports: Sequence[int], nodes: int) -> socket.socket:
    """Node 0's socket, on the first port that is free, on all of its networks."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # a connection a node
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(nodes + _FILES, hard)), hard))
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    for port in ports:
        try:
            return socket.create_server(
                ("", port), family=family, dualstack_ipv6=dual, backlog=socket.SOMAXCONN
            )
        except OSError as error:
            reason = f"port {port}: {error.strerror or error}"
    raise StagingError(
        f"node 0 cannot listen on {reason}; name another with --rendezvous HOST:PORT, the same on "
        "all nodes"
    )


def _wait_for_ever(link: socket.socket) -> None:
    """But let the kernel notice within a minute that the other machine has gone."""
    link.settimeout(None)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # seconds between probes
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms unacknowledged


def _send(link: socket.socket, key: bytes, message: _Message) -> None:
    data = json.dumps(message).encode()
    link.sendall(len(data).to_bytes(4) + hmac.digest(key, data, "sha256") + data)


def _receive(link: socket.socket, key: bytes) -> _Message:
    """The next message; raises ValueError or OSError if there is none of this job."""
    length = int.from_bytes(_exactly(link, 4))
    if length > _LONGEST:
        raise ValueError(_STRANGER)
    signature, data = _exactly(link, 32), _exactly(link, length)
    if not hmac.compare_digest(signature, hmac.digest(key, data, "sha256")):
        raise ValueError(_STRANGER)
    message: _Message = json.loads(data)
    return message


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            raise ValueError(_STRANGER)
        data += part
    return data


def _named(node: int, host: str) -> str:
    return f"node {node} ({printable(host)})"
