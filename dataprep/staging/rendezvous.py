"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                                      node 0
                                                     ◀───────   {"nonce": …}
    {"node": 3, "host": …, "nonce": …, "proof": …}   ───────▶
                                                     ◀───────   {"proof": …}
                                                     ◀───────   {"answer": null}   all are there
    {"report": {…}}                                  ───────▶
                                                     ◀───────   {"answer": …}      all have reported
    {"failed": "node 3 …"}                           ───────▶
                                                     ◀───────   {"failed": …}      at any time

A message is JSON behind its length. Node 0 draws the conclusion, so that what it sends is short.

Every other user of the cluster can reach the port. Each side proves, for a nonce of the other, that
it knows the job, step, user and source, and ``$DATAPREP_RENDEZVOUS_SECRET`` if it is set. Without
that secret, who guesses the rest can make a job fail. Nothing that arrives is run or unpickled,
every length is bounded, and no data and no path of a file to be written travels here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import resource
import secrets
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
_LONGEST_TEXT = 2000  # characters of a reason
_PORTS = 16  # that a job tries, for some may be taken
# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_FILES = 256  # descriptors besides those for nodes
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up the other ports
_HELLO_SECONDS = 2.0  # the same of strangers who come to node 0
_WELCOME_SECONDS = 10.0  # node 0 may have 1535 others to greet
_ADVICE = (
    "see what was said there, whether its storage hangs, and whether a firewall is between "
    "(--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)

_Message = Mapping[str, Any]


def connected(
    request: StageRequest, placement: Placement, watch: Watch, reporter: StageReporter
) -> AbstractContextManager[Peers]:
    """The other nodes, if they can be met; else nobody, of which ``reporter`` is told.

    Args:
        request: the call, whose ``--rendezvous`` overrules the scheduler.
        placement: which node this is.
        watch: stopped when another node fails.
        reporter: of the call.

    Raises:
        UsageError: ``--rendezvous`` is no address, or it is not known which node this is.
        StagingError: not all nodes came.
    """
    if request.rendezvous not in (None, "none"):
        require_node(placement, "--rendezvous")
    told = request.rendezvous or (placement.step and placement.leader)
    if placement.nodes > 1 and told and request.rendezvous != "none":
        # With the source: one step may stage several things side by side.
        token = f"{placement.step or request.rendezvous} {request.source} {os.getuid()}"
        address = request.rendezvous
        return meet(placement, token, address, request.rendezvous_seconds, watch.stop)
    if placement.nodes > 1 and placement.node == 0 and placement.origin != "--rank":
        reporter.line(
            f"{placement.host} does not meet the other {placement.nodes - 1} nodes of this job: "
            "each must be staged by a process of its own (srun --ntasks-per-node=1 -K dataprep "
            "stage …), and does not hear of the others' failures (see --rendezvous)"
        )
    return Alone(placement.node, placement.nodes)


def meet(
    placement: Placement,
    token: str,
    address: str | None = None,
    seconds: float = 300.0,
    on_failure: Callable[[StagingError], None] = lambda _: None,
) -> Peers:
    """Meet the other nodes of this job at node 0.

    Args:
        placement: which node this is, of several, and where node 0 is.
        token: the same in all processes of one launch and in no other.
        address: ``HOST:PORT`` of node 0; without it the placement says the host, and some ports
            that follow from the token are tried.
        seconds: within which all must have come.
        on_failure: called once, from another thread, as soon as another node has failed.

    Raises:
        UsageError: the address cannot be one.
        StagingError: not all nodes came, or they contradict each other.
    """
    host, ports = placement.leader, candidate_ports(token)
    if address is not None:
        host, port = parse_address(address)
        ports = [port]
    key = f"{token}\n{placement.nodes}\n{__version__}\n{os.environ.get(SECRET, '')}".encode()
    met = _Met(placement, on_failure)
    try:
        if placement.node == 0:
            met.gather(key, ports, seconds)
        else:
            met.join(key, str(host), ports, seconds)
    except BaseException as error:
        met.__exit__(None, error, None)
        raise
    return met


class _Met:
    """This node among the others: node 0 has a connection to each of them, each has one to it.

    A thread hears what is said on them, so that a failure stops the copying at once.
    """

    def __init__(self, placement: Placement, on_failure: Callable[[StagingError], None]) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._host = placement.host
        self._on_failure = on_failure
        self._links: dict[int, socket.socket] = {}
        self._names = {placement.node: _named(placement.node, placement.host)}
        self._inbox: SimpleQueue[tuple[int, _Message] | StagingError] = SimpleQueue()
        self._sending = threading.Lock()
        self._over = False  # all know of a failure, or this node leaves
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def gather(self, key: bytes, ports: Sequence[int], seconds: float) -> None:
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
                    node, host = _greeted(link, key)
                except Exception:  # noqa: BLE001  # whatever a stranger says
                    link.close()
                else:
                    self._admit(link, node, host)
        self._thread.start()
        self._tell({"answer": None})

    def _admit(self, link: socket.socket, node: int, host: str) -> None:
        if node in self._names:
            error = StagingError(
                f"{self._names[node]} and {_named(node, host)} have the same index; start one "
                "process a node, each with its own (--rank, --world_size)"
            )
            _send(link, {"failed": str(error)})
            link.close()
            raise error
        self._links[node], self._names[node] = link, _named(node, host)

    def join(self, key: bytes, host: str, ports: Sequence[int], seconds: float) -> None:
        """On any other node: find node 0, and wait until all are there."""
        self._links[0] = self._found(key, host, ports, seconds)
        self._names[0] = _named(0, host)
        self._thread.start()
        self._next()

    def _found(self, key: bytes, host: str, ports: Sequence[int], seconds: float) -> socket.socket:
        """A connection to the node 0 of this job, which may come later."""
        deadline = time.monotonic() + seconds
        # A crowd that is turned away together must not come back together.
        pause = 0.05 * (1 + self.index % 97 / 97)
        while True:
            for port in ports:
                try:
                    return _introduced((host, port), key, {"node": self.index, "host": self._host})
                except (OSError, ValueError, KeyError) as error:
                    reason = f"port {port}: {error}"
            if time.monotonic() + pause > deadline:
                raise StagingError(
                    f"{self._names[self.index]} did not find node 0 at {printable(host)} within "
                    f"{seconds:g} s: {reason}; {_ADVICE}"
                )
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

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
            text = _text(f"{self._names[self.index]} failed: {reason}")
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
                    _send(link, message)

    def _end(self, message: _Message) -> bool:
        """Tell of a failure; only of the first, for what follows is its consequence."""
        first, self._over = not self._over, True
        if first:
            self._tell(message)
        return first

    def _listen(self) -> None:
        nodes = {link: node for node, link in self._links.items()}
        while nodes:
            for link in wait([*nodes]):
                assert isinstance(link, socket.socket)  # noqa: S101  # for mypy
                try:
                    message = _receive(link)
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
                    error = kind(_text(message["failed"]))
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


def _greeted(link: socket.socket, key: bytes) -> tuple[int, str]:
    """On node 0: the index and the host of who comes, once it is proven that it belongs here."""
    link.settimeout(_HELLO_SECONDS)
    nonce = secrets.token_hex(16)
    _send(link, {"nonce": nonce})
    hello = _receive(link)
    _check_proof(hello, key, "node", nonce)
    _send(link, {"proof": _proof(key, "leader", hello["nonce"])})
    _keep(link)
    return int(hello["node"]), _text(hello["host"])


def _introduced(address: tuple[str, int], key: bytes, hello: _Message) -> socket.socket:
    """On any other node: a connection to node 0, which has taken this one."""
    link = socket.create_connection(address, _CONNECT_SECONDS)
    try:
        link.settimeout(_WELCOME_SECONDS)
        proof, nonce = _proof(key, "node", _receive(link)["nonce"]), secrets.token_hex(16)
        _send(link, {**hello, "nonce": nonce, "proof": proof})
        _check_proof(_receive(link), key, "leader", nonce)
        _keep(link)
    except BaseException:
        link.close()
        raise
    return link


def _proof(key: bytes, role: str, nonce: object) -> str:
    """What shows that a ``node`` or the ``leader`` knows the key, without telling it."""
    return hmac.new(key, f"dataprep {role} {nonce}".encode(), "sha256").hexdigest()


def _check_proof(message: _Message, key: bytes, role: str, nonce: str) -> None:
    if not hmac.compare_digest(ascii(message["proof"]), ascii(_proof(key, role, nonce))):
        raise ValueError("not of this job")


def _keep(link: socket.socket) -> None:
    """Wait on it for ever, but let the kernel notice within a minute that the machine has gone."""
    link.settimeout(None)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # seconds between probes
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms unacknowledged


def _send(link: socket.socket, message: _Message) -> None:
    data = json.dumps(message).encode()
    link.sendall(len(data).to_bytes(4) + data)


def _receive(link: socket.socket) -> _Message:
    """The next message; raises ValueError or OSError if there is none."""
    length = int.from_bytes(_exactly(link, 4))
    if length > _LONGEST:
        raise ValueError("another program answers")
    message = json.loads(_exactly(link, length))
    if not isinstance(message, dict):
        raise ValueError("another program answers")  # noqa: TRY004  # bad data, no caller's mistake
    return message


def _exactly(link: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = link.recv(count - len(data))
        if not part:
            raise ValueError(
                "who answers hung up: another program, another job, another version of dataprep, "
                f"or not the same --world_size or ${SECRET}"
            )
        data += part
    return data


def _named(node: int, host: str) -> str:
    return f"node {node} ({host})"


def _text(value: object) -> str:
    """What another process says, as it can be shown."""
    return printable(str(value))[:_LONGEST_TEXT]
