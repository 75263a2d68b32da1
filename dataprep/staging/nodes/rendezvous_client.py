"""Every other node's side: finding node 0, and listening to it while the copying goes on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence

from dataprep.errors import StagingError
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.nodes.rendezvous_board import Board
from dataprep.staging.nodes.rendezvous_loop import Channel, Loop
from dataprep.staging.nodes.rendezvous_protocol import (
    HEADER,
    LONGEST,
    Message,
    frame,
    give_up_soon,
    parse,
    proof,
    proves,
)
from dataprep.system.messages import printable

_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up the other ports
_ANSWER_SECONDS = 10.0  # node 0 may have 1535 others to greet
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two rounds over all ports


class _Refused(Exception):  # noqa: N818 - an answer, not an error: another port may be right
    """This one is not the node 0 that is looked for."""


def find_leader(
    placement: Placement, token: str, host: str, ports: Sequence[int], seconds: float
) -> socket.socket:
    """Connect to the node 0 of this job.

    Args:
        placement: who is asking.
        token: of the job; whoever does not know it is somebody else.
        host: node 0's name or address.
        ports: where it may listen, tried in turn, again and again.
        seconds: at most.

    Raises:
        StagingError: it was not found, or does not take this node.
    """
    deadline = time.monotonic() + seconds
    # A crowd that is turned away together must not come back together.
    pause = _SHORTEST_PAUSE * (1 + placement.node % 97 / 97)
    reason = "nobody answers"
    while True:
        for address in _addresses(host, ports):
            rest = deadline - time.monotonic()
            if isinstance(address, str):
                reason = address
            elif rest > 0:
                try:
                    return _introduced(placement, token, address, rest)
                except _Refused as refusal:
                    reason = str(refusal)
        if time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    where = f"port {ports[0]}" if len(ports) == 1 else f"{len(ports)} ports from {ports[0]} on"
    raise StagingError(
        f"node {placement.node} ({placement.host}) did not find node 0 at {printable(host)} "
        f"({where}) within {seconds:g} s: {reason}; see whether the command was started there "
        "too and whether a firewall is between (--rendezvous names a HOST:PORT)"
    )


def _addresses(host: str, ports: Sequence[int]) -> Iterator[tuple[int, tuple[str, int]] | str]:
    """Families and addresses to try; in between, why there are none."""
    resolved: dict[tuple[int, str], None] = {}
    why = ""
    # Schedulers may give a domain that the nodes' own network does not know.
    for name in dict.fromkeys((host, host.partition(".")[0])):
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # what cannot be a name fails to be encoded
            why = why or f"its name is not resolved ({error})"
            continue
        for family, _, _, _, address in found:
            if family in (socket.AF_INET, socket.AF_INET6):
                resolved[int(family), str(address[0])] = None
        break
    if not resolved:
        yield why
    for port in ports:
        for family_number, name in resolved:
            yield family_number, (name, port)


def _introduced(
    placement: Placement, token: str, address: tuple[int, tuple[str, int]], seconds: float
) -> socket.socket:
    """A connection to node 0, which has taken this node."""
    family, place = address
    where = f"{place[0]} port {place[1]}"
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(min(_CONNECT_SECONDS, seconds))
        connection.connect(place)
        answer = _asked(placement, token, connection, min(_ANSWER_SECONDS, seconds))
        if not proves(answer.get("welcome"), token, "leader"):
            _raise_for(answer, where)
        give_up_soon(connection)
        connection.sendall(frame({"here": True}))
    except (OSError, EOFError, ValueError) as error:
        connection.close()
        raise _Refused(f"{where}: {error}") from None
    except BaseException:
        connection.close()
        raise
    return connection


def _asked(placement: Placement, token: str, connection: socket.socket, seconds: float) -> Message:
    """What whoever is there answers to this node's hello."""
    deadline = time.monotonic() + seconds
    hello = {
        "hello": proof(token, "node"),
        "node": placement.node,
        "of": placement.nodes,
        "host": placement.host,
    }
    connection.sendall(frame(hello))

    def received(count: int) -> bytes:
        data = b""
        while len(data) < count:
            connection.settimeout(max(0.001, deadline - time.monotonic()))
            piece = connection.recv(count - len(data))
            if not piece:
                raise EOFError("it hangs up, so it is no dataprep")
            data += piece
        return data

    (length,) = HEADER.unpack(received(HEADER.size))
    if length > LONGEST:
        raise ValueError("what answers is no dataprep")
    return parse(received(length))


def _raise_for(answer: Message, where: str) -> None:
    if "failed" in answer:
        raise StagingError(printable(str(answer["failed"])))
    if "refused" in answer:
        raise _Refused(f"{where}: {printable(str(answer['refused']))}")
    raise _Refused(f"{where}: what answers is no dataprep")


class Spoke:
    """A node's connection to node 0, served in the background.

    Args:
        connection: to a node 0 that has taken this node.
        board: where what it says is put up.
        count: of nodes, for how much it may say.
        leader: its name, for messages.
    """

    def __init__(self, connection: socket.socket, board: Board, count: int, leader: str) -> None:
        self._board = board
        self._leader = leader
        self._ended = threading.Event()
        self._loop = Loop(None, self._crashed)
        most = count * LONGEST
        self._channel = Channel(self._loop, connection, most, self._hear, self._end, unpacked=most)
        self._loop.start()

    def send(self, message: Message) -> None:
        """Say something to node 0; from any thread."""
        data = frame(message)
        self._loop.call(lambda: self._channel.send(data))

    def close(self, seconds: float) -> None:
        """Wait, at most so long, until node 0 has heard all that was sent; then end."""
        self._ended.wait(seconds)
        self._loop.stop()

    # Everything below runs in the loop's thread.

    def _hear(self, message: Message) -> None:
        self._board.take(message)
        if "failed" in message:
            # Nothing is left to be said, and node 0 waits for whoever has not heard it.
            self._channel.send(frame({"bye": True}))
        elif "bye" in message:
            self._channel.finish()
            self._ended.set()

    def _end(self, reason: str) -> None:
        if not self._board.silent:
            self._board.take({"failed": f"node 0 ({self._leader}) is lost: {reason}"})
        self._ended.set()

    def _crashed(self, error: Exception) -> None:
        self._board.take({"failed": f"the connection to node 0 failed: {error!r}"})
        self._ended.set()
