"""What a node has heard from the others: put up by one thread, read by all."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.nodes.peers import Report
from dataprep.staging.nodes.rendezvous_protocol import Message
from dataprep.system.messages import printable

T = TypeVar("T")

_LONGEST_REASON = 2000  # characters


class Board:
    """What node 0 has said, to its own node as to any other.

    Args:
        on_failure: called once, from the thread that heard it, when another node has failed.
    """

    def __init__(self, on_failure: Callable[[StagingError], None]) -> None:
        self._news = threading.Condition()
        self._on_failure = on_failure
        self._hosts: Sequence[str] | None = None
        self._reports: deque[Sequence[Report]] = deque()
        self._failure: Message | None = None
        self._left = False
        self._failing = False

    @property
    def silent(self) -> bool:
        """Whether nothing more is expected from node 0."""
        return self._left or self._failure is not None

    @property
    def failed(self) -> bool:
        """Whether any node has failed."""
        return self._failure is not None

    def take(self, message: Message) -> None:
        """Put up what node 0 says."""
        with self._news:
            first_failure = "failed" in message and self._failure is None
            if "start" in message:
                self._hosts = message["start"]
            elif "reports" in message:
                self._reports.append(message["reports"])
            elif first_failure:
                self._failure = message
            elif "bye" in message:
                self._left = True
            tell = first_failure and not self._failing
            self._news.notify_all()
        if tell:
            self._on_failure(_error(message))

    def leave_failing(self) -> None:
        """This node has failed itself, and knows."""
        with self._news:
            self._failing = True

    def check(self) -> None:
        """Raise if any node has failed.

        Raises:
            StagingError: it has.
        """
        if self._failure is not None:
            raise _error(self._failure)

    def started(self, seconds: float) -> None:
        """Wait until all nodes are there.

        Raises:
            StagingError: they are not, or one has failed.
        """
        self._wait(lambda: self._hosts, seconds)

    def next_reports(self, seconds: float) -> Sequence[Report]:
        """Wait for the next reports of all nodes; those already here count though one has failed.

        Raises:
            StagingError: they do not come, or a node has failed.
        """
        return self._wait(lambda: self._reports.popleft() if self._reports else None, seconds)

    def _wait(self, get: Callable[[], T | None], seconds: float) -> T:
        deadline = time.monotonic() + seconds
        with self._news:
            while (found := get()) is None:
                self.check()
                if self._left:
                    raise StagingError(
                        "node 0 has left while this node was still waiting for it; look at what "
                        "node 0 says, and run the same command again on all nodes"
                    )
                rest = deadline - time.monotonic()
                if rest <= 0:
                    raise StagingError(
                        f"node 0 has said nothing for {seconds:g} s although its connection "
                        "stands; check whether it is stopped or hangs"
                    )
                self._news.wait(rest)
            return found


def described(error: BaseException) -> Message:
    """The message that tells the other nodes why this one leaves."""
    text = " ".join(str(error).split()) or type(error).__name__
    return {"failed": printable(text)[:_LONGEST_REASON], "no_room": isinstance(error, NoRoomError)}


def _error(message: Message) -> StagingError:
    kind = NoRoomError if message.get("no_room") is True else StagingError
    return kind(printable(str(message["failed"])))
