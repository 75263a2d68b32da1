"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                        node 0
                  ◀──  each proves the secret  ──▶
    Hello                       ───────▶
                                ◀───────   Agreed       once all are there
    NodeStart, NodeDone         ───────▶
                                ◀───────   Agreed       once all have reported
    Failed                      ───────▶
                                ◀───────   Failed       at any time

Node 0 draws the conclusion, so that what it sends is short. No data and no path of a file to be
written travels here. Who connects and proves nothing is hung up on after a few seconds, and, where
hundreds do so, the first of them at once: so who says nothing keeps nobody out for long.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from multiprocessing.connection import Connection, wait
from queue import Empty, SimpleQueue
from typing import Self

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging import handshake
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
from dataprep.staging.handshake import SECRET, Link
from dataprep.staging.placement import LOOP, Placement, require_node
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.system.messages import printable, some_of
from dataprep.version import __version__

# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _PORTS = 20_000, 12_768
_FAREWELL_SECONDS = 2.0
_ADVICE = (
    "see what was said there, whether it has the same SRC, whether its storage hangs, and whether "
    "a firewall is between (--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)


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
        if placement.nodes > 1 and placement.node == 0 and placement.origin != LOOP:
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
            secret, origin = handshake.make_secret()
            if origin != f"${SECRET}":
                reporter.line(f"nodes know each other by {origin}")
            met.gather(port, secret, request.rendezvous_seconds)
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
        self._links: dict[int, Link] = {}
        self._names = {self.index: named(self.index, self._host)}
        self._inbox: SimpleQueue[tuple[int, Message] | StagingError] = SimpleQueue()
        self._sending = threading.Lock()
        self._heard: StagingError | None = None
        self._over = False  # all know of a failure, or this node leaves
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def gather(self, port: int, secret: bytes, seconds: float) -> None:
        """On node 0: wait until all nodes are there. Nobody is let in after that."""
        deadline, waiting = time.monotonic() + seconds, Waiting(seconds)
        with handshake.newcomers(
            port, handshake.key_of(secret, self._agreed, port), self.count
        ) as proven:
            while missing := [str(node) for node in range(self.count) if node not in self._names]:
                what = f"node {some_of(missing)} of {self.count}"
                left = deadline - time.monotonic()
                if left < 0:
                    raise StagingError(
                        f"{what} did not come to node 0 within {seconds:g} s; {_ADVICE}"
                    )
                if not waiting.left:
                    waiting.tell(f"{what} to come to {self._names[0]}")
                with suppress(Empty):
                    self._welcome(*proven.get(timeout=min(waiting.left, left)))
        self._thread.start()
        self._tell(Agreed())

    def _welcome(self, link: Link, hello: Hello) -> None:
        node, name = hello.node, named(hello.node, hello.host)
        if node in self._names:
            self._links[-1] = link  # it is told, too
            raise StagingError(
                f"{self._names[node]} and {name} have the same index; start one process a node, "
                "each with its own index"
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
                self._links[0] = handshake.introduced(host, port, self._agreed, hello)
                self._names[0] = named(0, host)
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
            # Until the others have heard it: a launcher ends them behind this one.
            with suppress(BaseException) if isinstance(error, Exception) else nullcontext():
                if self._thread.is_alive():
                    self._thread.join(_FAREWELL_SECONDS)
        self._over = True
        for link in self._links.values():
            handshake.hang_up(link)
        if self._thread.is_alive():
            self._thread.join()
        for link in self._links.values():
            link.close()
        if self._heard is not None and error is not None and not isinstance(error, Exception):
            raise self._heard from None  # why a launcher has ended this one

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
                    handshake.send(link, message)

    def _end(self, failed: Failed) -> bool:
        """Tell of a failure; only of the first, for what follows is its consequence."""
        first, self._over = not self._over, True
        if first:
            self._tell(failed)
        return first

    def _listen(self) -> None:
        nodes = {link: node for node, link in self._links.items()}
        while nodes:
            for ready in wait([*nodes]):
                assert isinstance(ready, Connection)  # noqa: S101  # for mypy
                link, node = ready, nodes[ready]
                try:
                    message = handshake.receive(link)
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
                    self._heard = error = kind(message.reason)
                    self._inbox.put(error)
                    self._on_failure(error)


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
