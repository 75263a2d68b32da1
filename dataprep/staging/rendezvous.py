"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                        node 0
    Hello                       ───────▶
                                ◀───────   Hello
                                ◀───────   Agreed       once all are there
    NodeStart, NodeDone         ───────▶
                                ◀───────   Agreed       once all have reported
    Failed                      ───────▶
                                ◀───────   Failed       at any time

Node 0 draws the conclusion, so that what it sends is short. Every other user of the cluster can
reach the port, so both ends prove first that they know the job's secret
(`dataprep.staging.links`). Nothing that arrives is run or unpickled, every length is bounded, and
no data and no path of a file to be written travels here.
"""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import wait
from queue import Empty, SimpleQueue
from typing import Self

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.agreement import Agreed, Alone, Peers, Report
from dataprep.staging.copying import Watch
from dataprep.staging.links import (
    MESSAGES,
    MOST_UNPROVEN,
    Failed,
    Hello,
    Link,
    Message,
    Newcomers,
    introduced,
)
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.secret import Offer, offer
from dataprep.staging.waiting import Waiting
from dataprep.system.messages import one_line, printable, some_of
from dataprep.version import __version__

_PORTS = 16  # that a job tries, for some may be taken
# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_FILES = 256 + MOST_UNPROVEN  # descriptors besides those for nodes
_ADVICE = (
    "see what was said there, whether its storage hangs, and whether a firewall is between "
    "(--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)


def connected(
    request: StageRequest, placement: Placement, watch: Watch, reporter: StageReporter
) -> AbstractContextManager[Peers]:
    """The other nodes, once all have met at node 0; nobody if they cannot meet.

    Args:
        request: the call, whose ``--rendezvous`` overrules the scheduler.
        watch: stopped, from another thread, as soon as another node has failed.
        reporter: told if the nodes do not meet, and by what they know each other.

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
    token = one_line(f"{placement.step or address} {request.source} {os.getuid()}")
    ports = candidate_ports(token)
    if address is not None:
        host, port = parse_address(address)
        ports = [port]
    met = _Met(placement, f"{token}\n{placement.nodes}\n{__version__}".encode(), watch.stop)
    try:
        if placement.node == 0:
            offered = offer(request.rendezvous_seconds)
            if offered.told:
                reporter.line(offered.told)
            met.gather(ports, offered, request.rendezvous_seconds)
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
        self, placement: Placement, agreed: bytes, on_failure: Callable[[StagingError], None]
    ) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._host = placement.host
        self._agreed = agreed
        self._on_failure = on_failure
        self._links: dict[int, Link] = {}
        self._names = {self.index: _named(self.index, self._host)}
        self._inbox: SimpleQueue[tuple[int, Message] | StagingError] = SimpleQueue()
        self._sending = threading.Lock()
        self._over = False  # all know of a failure, or this node leaves
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def gather(self, ports: Sequence[int], offered: Offer, seconds: float) -> None:
        """On node 0: wait until all nodes are there. Nobody is let in after that."""
        deadline, waiting = time.monotonic() + seconds, Waiting(seconds)
        with Newcomers(_listener(ports, self.count), self._agreed, offered) as newcomers:
            while len(self._names) < self.count:
                left = deadline - time.monotonic()
                if left <= 0 or not waiting.left:
                    missing = [str(k) for k in range(self.count) if k not in self._names]
                    what = f"node {some_of(missing)} of {self.count}"
                    if left <= 0:
                        raise StagingError(
                            f"{what} did not come to node 0 within {seconds:g} s; {_ADVICE}"
                        )
                    waiting.tell(f"{what} to come to {self._names[0]}")
                for link, hello in newcomers.proven(min(left, waiting.left)):
                    self._welcome(link, hello)
        self._thread.start()
        self._tell(Agreed())

    def _welcome(self, link: Link, hello: Hello) -> None:
        node, name = hello.node, _named(hello.node, hello.host)
        with suppress(OSError):  # the thread that listens finds out
            link.send(Hello(0, self._host))
        if node in self._names:
            self._links[-1] = link  # it is told, too
            raise StagingError(
                f"{self._names[node]} and {name} have the same index; start one process a node, "
                "each with its own (--rank, --world_size)"
            )
        self._links[node], self._names[node] = link, name

    def join(self, host: str, ports: Sequence[int], seconds: float) -> None:
        """On any other node: find node 0, which may come later, and wait until all are there."""
        deadline, waiting = time.monotonic() + seconds, Waiting(seconds)
        # A crowd that is turned away together must not come back together.
        pause = 0.05 * (1 + self.index % 97 / 97)
        hello = Hello(self.index, self._host)
        while not self._links:
            answers, silences = [], []
            for port in ports:
                # Of thousands of nodes a few say it.
                if not waiting.left and self.index & (self.index - 1) == 0:
                    waiting.tell(f"node 0, which {self._names[self.index]} does not find at {host}")
                try:
                    self._links[0], answer = introduced(host, port, self._agreed, hello)
                    self._names[0] = _named(0, answer.host)
                    break
                except ValueError as error:
                    answers.append(f"port {port}: {error}")
                except OSError as error:
                    silences.append(f"port {port}: {error}")
            else:
                if time.monotonic() + pause > deadline:
                    reason = [*answers, *reversed(silences)][0]  # who answers is worth more
                    raise StagingError(
                        f"{self._names[self.index]} did not find node 0 at {printable(host)} "
                        f"within {seconds:g} s: {reason}; {_ADVICE}"
                    )
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
            self._end(_failure(error))
            raise
        self._tell(agreed)
        return agreed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._end(_failure(error, f"{self._names[self.index]} failed: "))
        self._over = True
        for link in [*self._links.values()]:
            link.end()
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
            for link in [*self._links.values()]:
                with suppress(OSError):  # the thread that listens finds out
                    link.send(message)

    def _end(self, failed: Failed) -> bool:
        """Tell of a failure; only of the first, for what follows is its consequence."""
        first, self._over = not self._over, True
        if first:
            self._tell(failed)
        return first

    def _listen(self) -> None:
        for each in self._links.values():
            each.wait_for_ever()
        nodes = {link.fileno(): (node, link) for node, link in self._links.items()}
        while nodes:
            for number in wait([*nodes]):
                assert isinstance(number, int)  # noqa: S101  # for mypy
                node, link = nodes[number]
                try:
                    message = link.receive(MESSAGES)
                except (OSError, ValueError):
                    message = Failed(
                        f"{self._names[node]} is lost: its connection ended; see whether the "
                        "process was killed (memory, time limit) or the node went down"
                    )
                if not isinstance(message, Failed):
                    self._inbox.put((node, message))
                    continue
                del nodes[number]
                if self._end(message):
                    kind = NoRoomError if message.no_room else StagingError
                    error = kind(message.reason)
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


def _failure(error: BaseException, who: str = "") -> Failed:
    reason = " ".join(str(error).split()) or type(error).__name__
    return Failed(one_line(f"{who}{reason}"), no_room=isinstance(error, NoRoomError))


def _named(node: int, host: str) -> str:
    return f"node {node} ({printable(host)})"
