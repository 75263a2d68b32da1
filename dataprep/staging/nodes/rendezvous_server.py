"""Node 0's side: who is there, what they report, and who is lost."""

from __future__ import annotations

import math
import selectors
import socket
import threading
import time
from collections.abc import Collection, Sequence
from functools import partial

from dataprep.staging.nodes.peers import Report
from dataprep.staging.nodes.rendezvous_board import Board
from dataprep.staging.nodes.rendezvous_loop import Channel, Loop
from dataprep.staging.nodes.rendezvous_protocol import (
    LONGEST,
    LONGEST_HELLO,
    Message,
    frame,
    proof,
    proves,
)
from dataprep.system.messages import counted, printable

_HELLO_SECONDS = 10.0  # within which a newcomer must have shown who it is
_STRANGERS = 64  # connections of unknown origin at the same time, besides one a node
_LONGEST_NAME = 255
_NAMED = 5  # nodes that a message names


class Hub:
    """The middle of the star. Its own node talks to it without a network.

    Args:
        token: of the job.
        host: this node's name.
        count: of nodes.
        listener: where the others come to.
        board: where this node hears what all are told.
        seconds: within which all nodes must have come.
        patience: seconds between the first and the last node's report of one exchange.
    """

    def __init__(
        self,
        token: str,
        host: str,
        count: int,
        listener: socket.socket,
        board: Board,
        *,
        seconds: float,
        patience: float,
    ) -> None:
        self._token = token
        self._count = count
        self._listener = listener
        self._board = board
        self._seconds = seconds
        self._patience = patience
        self._deadline: float | None = time.monotonic() + seconds
        self._hosts = {0: host}
        self._members: dict[int, Channel] = {}
        self._strangers: set[Channel] = set()
        self._gathered: dict[int, Report] = {}
        self._left: set[int] = set()
        self._failure: Message | None = None
        self._empty = threading.Event()  # all the others are gone
        self._loop = Loop(self._tick, self._crashed)
        listener.setblocking(False)
        self._loop.watch(listener, selectors.EVENT_READ, self._accept)
        self._loop.start()

    def send(self, message: Message) -> None:
        """Say something as node 0; from any thread."""
        self._loop.call(partial(self._hear, 0, message))

    def close(self, seconds: float) -> None:
        """Wait, at most so long, until all others are gone; then end."""
        self._empty.wait(seconds)
        self._loop.call(partial(self._tell, {"bye": True}))
        self._loop.stop()

    # Everything below runs in the loop's thread.

    def _accept(self, events: int) -> None:  # noqa: ARG002 - the loop hands it to all
        try:
            connection, _ = self._listener.accept()
        except OSError:  # it has gone again
            return
        if len(self._strangers) >= self._count + _STRANGERS:
            connection.close()
            return
        channel = Channel(self._loop, connection, LONGEST_HELLO, _ignore, _ignore)
        channel.on_message = partial(self._greet, channel)
        channel.on_end = lambda _: self._strangers.discard(channel)
        channel.deadline += _HELLO_SECONDS
        self._strangers.add(channel)

    def _greet(self, channel: Channel, hello: Message) -> None:
        """A stranger's first message."""
        index, host = hello.get("node"), printable(str(hello.get("host")))[:_LONGEST_NAME]
        if not proves(hello.get("hello"), self._token, "node"):
            self._dismiss(channel, {"refused": "another job's rendezvous"})
        elif isinstance(index, int) and not self._left.isdisjoint((0, index)):
            # The same processes meet again for something else; this node 0 will soon be back too.
            self._dismiss(channel, {"refused": "an earlier rendezvous of this job"})
        elif failure := self._failure or self._contradiction(index, hello.get("of"), host):
            self._dismiss(channel, failure)
        else:
            # Known by its proof; on a busy machine it may need long for its next word.
            channel.deadline = math.inf
            channel.on_message = partial(self._admit, channel, hello["node"], host)
            channel.send(frame({"welcome": proof(self._token, "leader")}))

    def _dismiss(self, channel: Channel, message: Message) -> None:
        """Tell a stranger why it cannot take part."""
        channel.on_message = _ignore
        channel.deadline = time.monotonic() + _HELLO_SECONDS
        channel.send(frame(message))
        channel.finish()

    def _contradiction(self, index: object, count: object, host: str) -> Message | None:
        """Fail if a node of this job does not fit in; None if it does."""
        advice = (
            "start one process a node with its own index, all with the same number of nodes "
            "(--rank, --world_size)"
        )
        if count != self._count:
            wrong = (
                f"{host} says that there are {printable(str(count))} nodes, node 0 "
                f"({self._hosts[0]}) that there are {self._count}"
            )
        elif not isinstance(index, int) or not 0 <= index < self._count:
            wrong = f"{host} says that it is node {printable(str(index))} of {count}"
        elif index in self._hosts:
            wrong = f"{self._hosts[index]} and {host} both say that they are node {index}"
        else:
            return None
        return self._fail(f"{wrong}; {advice}")

    def _admit(self, channel: Channel, index: int, host: str, message: Message) -> None:
        """It knows that it is welcome; only now it counts, and only now it can be lost."""
        failure = self._failure or self._contradiction(index, self._count, host)
        if failure is None and "here" not in message:
            failure = self._fail(f"{host} sent something that is not understood")
        if failure is not None:
            self._dismiss(channel, failure)
            return
        self._strangers.discard(channel)
        self._hosts[index] = host
        self._members[index] = channel
        channel.longest = LONGEST
        channel.on_message = partial(self._hear, index)
        channel.on_end = partial(self._lose, index)
        if len(self._hosts) == self._count:
            self._deadline = None
            self._tell({"start": [self._hosts[node] for node in range(self._count)]})

    def _hear(self, index: int, message: Message) -> None:
        """A node's message."""
        report = message.get("report")
        if "bye" in message:
            self._leave(index)
        elif "failed" in message:
            reason = printable(str(message["failed"]))
            self._fail(
                f"{self._named(index)} failed: {reason}", no_room=message.get("no_room") is True
            )
        elif self._failure:
            pass  # said before it heard
        elif isinstance(report, dict) and index not in self._gathered:
            self._gather(index, report)
        else:
            self._fail(f"{self._named(index)} sent something that is not understood")

    def _gather(self, index: int, report: Report) -> None:
        if not self._gathered:
            self._deadline = time.monotonic() + self._patience
        self._gathered[index] = report
        if len(self._gathered) == self._count:
            reports = [self._gathered[node] for node in range(self._count)]
            self._gathered.clear()
            self._deadline = None
            self._tell({"reports": reports})
        elif self._left:
            self._fail_for_leaving()

    def _leave(self, index: int) -> None:
        self._left.add(index)
        if index in self._members:
            self._members[index].send(frame({"bye": True}))
            self._members[index].finish()
        if self._gathered:
            self._fail_for_leaving()

    def _fail_for_leaving(self) -> None:
        left = _listed(self._left, self._hosts)
        self._fail(f"{left} left while others still had something to report; look at what it says")

    def _lose(self, index: int, reason: str) -> None:
        """A connection has ended."""
        if index not in self._left:
            self._fail(f"{self._named(index)} is lost: {reason}")

    def _tick(self) -> None:
        now = time.monotonic()
        if self._deadline is not None and now > self._deadline and not self._failure:
            self._fail(self._missing())
        for channel in [each for each in self._strangers if each.deadline < now]:
            self._strangers.discard(channel)
            channel.close()
        if all(channel.closed for channel in self._members.values()) and (
            self._failure or len(self._hosts) == self._count
        ):
            self._empty.set()

    def _missing(self) -> str:
        """Who keeps all the others waiting."""
        if len(self._hosts) < self._count:
            absent = _listed(set(range(self._count)) - self._hosts.keys())
            return (
                f"{absent} of {self._count} did not come to node 0 ({self._hosts[0]}) within "
                f"{self._seconds:g} s; see what was said there, whether the command was started "
                "on every node and whether a firewall is between (--rendezvous names a HOST:PORT); "
                "srun -K ends all when one fails"
            )
        absent = _listed(set(range(self._count)) - self._gathered.keys(), self._hosts)
        return (
            f"{absent} of {self._count} did not report within {self._patience:g} s of the first; "
            "see whether its storage hangs"
        )

    def _named(self, index: int) -> str:
        return f"node {index} ({self._hosts[index]})"

    def _fail(self, text: str, *, no_room: bool = False) -> Message:
        """Tell everyone; only the first failure, for what follows is its consequence."""
        if self._failure is None:
            self._failure = {"failed": text, "no_room": no_room}
            self._deadline = None
            self._tell(self._failure)
        return self._failure

    def _tell(self, message: Message) -> None:
        data = frame(message, packed=True)
        for channel in self._members.values():
            channel.send(data)
        self._board.take(message)

    def _crashed(self, error: Exception) -> None:
        self._board.take({"failed": f"node 0 ({self._hosts[0]}) failed: {error!r}"})
        self._empty.set()


def _ignore(said: object) -> None:
    """For those who have nothing more to say."""


def _listed(nodes: Collection[int], hosts: dict[int, str] | None = None) -> str:
    """Nodes as a message names them: ``nodes 5, 7`` or ``node 3 (n3)``; at most a few."""
    some: Sequence[int] = sorted(nodes)[:_NAMED]
    names = ", ".join(f"{node} ({hosts[node]})" if hosts else str(node) for node in some)
    more = f" and {counted(len(nodes) - _NAMED, 'more', 'more')}" if len(nodes) > _NAMED else ""
    return f"{'node' if len(nodes) == 1 else 'nodes'} {names}{more}"
