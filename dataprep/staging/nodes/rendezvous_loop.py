"""One background thread that serves any number of connections, none of which can hold it up."""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from dataprep.staging.nodes.rendezvous_protocol import HEADER, Message, keep_alive, parse

_TICK = 0.2  # seconds between two looks at the clock
_PIECE = 1 << 16
_ENDED = (
    "its connection ended without a word; see whether the process was killed (memory, time limit) "
    "or the node went down"
)


class Loop(threading.Thread):
    """The thread. All callbacks run in it; other threads hand it work with `call`.

    Args:
        on_tick: called a few times a second; None if nothing depends on the clock.
        on_crash: called with what ended the thread, if that was not `stop`.
    """

    def __init__(
        self, on_tick: Callable[[], None] | None, on_crash: Callable[[Exception], None]
    ) -> None:
        super().__init__(name="dataprep-rendezvous", daemon=True)
        self._on_tick = on_tick
        self._on_crash = on_crash
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._calls: deque[Callable[[], None]] = deque()
        self._stopping = False
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self.watch(self._woken, selectors.EVENT_READ, lambda _: self._woken.recv(_PIECE))

    def call(self, function: Callable[[], None]) -> None:
        """Let the thread call ``function`` soon; from any thread."""
        self._calls.append(function)
        with suppress(OSError):  # full: it is awake anyway; closed: it is gone
            self._waker.send(b"\0")

    def stop(self) -> None:
        """End the thread and close every connection; from another thread."""
        self.call(self._stop)
        self.join()

    def watch(
        self, connection: socket.socket, events: int, on_ready: Callable[[int], object]
    ) -> None:
        """Call ``on_ready`` whenever one of ``events`` has come; replaces an earlier watch."""
        if connection in self._selector.get_map():
            self._selector.modify(connection, events, on_ready)
        else:
            self._selector.register(connection, events, on_ready)

    def forget(self, connection: socket.socket) -> None:
        """Watch it no more."""
        self._selector.unregister(connection)

    def run(self) -> None:
        """Serve until told to stop."""
        try:
            while not self._stopping:
                self._turn()
        except Exception as error:  # noqa: BLE001 - whoever waits for the thread must be told
            self._on_crash(error)
        finally:
            for key in list(self._selector.get_map().values()):
                if isinstance(key.fileobj, socket.socket):
                    key.fileobj.close()
            self._selector.close()
            self._waker.close()

    def _turn(self) -> None:
        for key, events in self._selector.select(_TICK if self._on_tick else None):
            key.data(events)
        while self._calls:
            self._calls.popleft()()
        if self._on_tick:
            self._on_tick()

    def _stop(self) -> None:
        self._stopping = True


class Channel:
    """A connection that carries messages. Used in the loop's thread only.

    Attributes:
        longest: bytes that a message may have; more ends the connection.
        on_message: called with every message.
        on_end: called once with the reason, when the other side is gone or talks rubbish; not
            after `close`.
        unpacked: bytes that a compressed message may become; 0 if none may be compressed.
        deadline: of `time.monotonic`, for its owner's use.
    """

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        longest: int,
        on_message: Callable[[Message], None],
        on_end: Callable[[str], None],
        *,
        unpacked: int = 0,
    ) -> None:
        self.longest = longest
        self.unpacked = unpacked
        self.on_message = on_message
        self.on_end = on_end
        self.deadline = time.monotonic()
        self.closed = False
        self._loop = loop
        self._connection = connection
        self._incoming = bytearray()
        self._outgoing: deque[memoryview] = deque()
        self._finishing = False
        connection.setblocking(False)
        with suppress(OSError):  # gone already; reading will tell
            keep_alive(connection)
        loop.watch(connection, selectors.EVENT_READ, self._ready)

    def send(self, data: bytes) -> None:
        """Send what `frame` made, in the order of calls. It is not copied: many can share it."""
        if not (self.closed or self._finishing):
            self._outgoing.append(memoryview(data))
            self._write()

    def finish(self) -> None:
        """Send what is waiting, and then no more; the other side is expected to close."""
        self._finishing = True
        self._write()

    def close(self) -> None:
        """End it at once."""
        if not self.closed:
            self.closed = True
            self._loop.forget(self._connection)
            self._connection.close()

    def _ready(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._write()
        # One turn may bring events for a connection that it has already closed.
        if events & selectors.EVENT_READ and not self.closed:
            self._read()

    def _write(self) -> None:
        if self.closed:
            return
        try:
            while self._outgoing:
                sent = self._connection.send(self._outgoing[0])
                rest = self._outgoing.popleft()[sent:]
                if rest:
                    self._outgoing.appendleft(rest)
            if self._finishing:
                self._connection.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self._outgoing.clear()  # gone; reading will tell, after what it said last
        waiting = selectors.EVENT_WRITE if self._outgoing else 0
        self._loop.watch(self._connection, selectors.EVENT_READ | waiting, self._ready)

    def _read(self) -> None:
        try:
            data = self._connection.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._incoming += data
        reason = "" if data else _ENDED
        try:
            self._parse()
        except ValueError as error:
            reason = (
                f"it sends what is not understood ({error}); make sure that all nodes run the "
                "same version of dataprep"
            )
        if reason and not self.closed:
            self.close()
            self.on_end(reason)

    def _parse(self) -> None:
        while not self.closed and len(self._incoming) >= HEADER.size:
            (length,) = HEADER.unpack_from(self._incoming)
            if length > self.longest:
                raise ValueError(f"{length} bytes, {self.longest} at most were expected")
            end = HEADER.size + length
            if len(self._incoming) < end:
                return
            message = parse(bytes(self._incoming[HEADER.size : end]), self.unpacked)
            del self._incoming[:end]
            self.on_message(message)
