"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node k                                          node 0
                                         ◀───────   {"nonce": …}
    {"node": 3, "of": 8, "host": …,
     "version": …, "nonce": …,
     "proof": …}                         ───────▶
                                         ◀───────   {"proof": …} or {"refused": why}
                                         ◀───────   {"start": true}           once all are there
    {"report": {…}}                      ───────▶
                                         ◀───────   {"reports": [{…}, …]}     once all have reported
    {"failed": why} or {"bye": true}     ───────▶
                                         ◀───────   {"failed": "node 3 …"}    to all, at any time

A message is compressed JSON behind its length. Node 0 takes part through a connection to itself.

Every other user of the cluster can reach the port. Each side proves, for a nonce of the other, that
it knows the job, step, user and source, and ``$DATAPREP_RENDEZVOUS_SECRET`` if it is set. Without
that secret, who guesses the rest can make a job fail. Nothing that arrives is run or unpickled,
every length is bounded, and no data and no path of a file to be written travels here.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import resource
import secrets
import socket
import struct
import threading
import zlib
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import product
from queue import Empty, SimpleQueue
from typing import Any, Self
from urllib.parse import urlsplit

from dataprep import __version__
from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.staging.agreement import Alone, Peers, Report
from dataprep.staging.copying import Watch
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.system.messages import printable, some_of

SECRET = "DATAPREP_RENDEZVOUS_SECRET"  # noqa: S105  # the variable's name

_LENGTH = struct.Struct(">I")
_LONGEST = 1 << 20  # bytes of a message from a node; of those to a node, times their number
_LONGEST_HELLO = 4096  # the same of somebody unknown
_LONGEST_TEXT = 2000  # characters of a reason
_PORTS = 16  # that a job tries
# Below 32768, where Linux begins to take ports for outgoing connections.
_FIRST_PORT, _LAST_PORT = 20_000, 32_767
_CONNECT_SECONDS = 2.0  # a firewall that swallows everything must not hold up the other ports
_HELLO_SECONDS = 10.0  # node 0 may have 1535 others to greet
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between two rounds over all ports
_PATIENCE = 86_400.0  # seconds between an exchange's first report and its last, for nodes that hang
_GOODBYE_SECONDS = 30.0  # that node 0 stays for others which have not left yet
_FAREWELL_SECONDS = 5.0  # the same once something has failed
_LATER = 30.0  # seconds by which one who waits for node 0 outlasts node 0's own limits
_FILES = 256  # descriptors besides those for nodes
_ADVICE = (
    "see what was said there, whether its storage hangs, and whether a firewall is between "
    "(--rendezvous names a HOST:PORT); srun -K ends all when one fails"
)
_UNMET = (
    "the nodes do not meet: each checks its own space only, and does not hear of the others' "
    "failures; let one failure end the job (srun -K), or say where they meet (--rendezvous)"
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
        StagingError: not all nodes came.
    """
    told = request.rendezvous or (placement.step and placement.leader)
    if placement.nodes > 1 and told and request.rendezvous != "none":
        # With the source: one step may stage several things side by side.
        launch = f"{placement.step or request.rendezvous} {request.source}"
        return meet(
            placement,
            f"{launch!r} {os.getuid()}",
            address=request.rendezvous,
            seconds=request.rendezvous_seconds,
            on_failure=watch.stop,
        )
    if placement.nodes > 1 and placement.node == 0 and placement.step:
        reporter.line(_UNMET)
    elif placement.nodes > 1 and not placement.step and placement.origin != "--rank":
        reporter.line(
            f"this job has {placement.nodes} nodes, and only {placement.host} is staged here; "
            "start it on all of them, e.g. srun --ntasks-per-node=1 -K dataprep stage …"
        )
    return Alone(placement.node, placement.nodes)


def check_meeting(request: StageRequest, placement: Placement) -> None:
    """Whether ``--rendezvous`` makes sense, before anything is made.

    Raises:
        UsageError: it is no address; or it is not known which node this is.
    """
    if request.rendezvous not in (None, "none"):
        parse_address(str(request.rendezvous))
        require_node(placement, "--rendezvous")


def meet(
    placement: Placement,
    token: str,
    *,
    address: str | None = None,
    seconds: float = 300.0,
    on_failure: Callable[[StagingError], None] = lambda _: None,
) -> Peers:
    """Meet the other nodes of this job at node 0.

    Args:
        placement: which node this is, of several, and where node 0 is.
        token: the same in all processes of one launch and in no other.
        address: ``HOST:PORT`` or ``HOST`` of node 0 instead of what the placement says; without a
            port, some that follow from the token are tried.
        seconds: within which all must have come.
        on_failure: called once, from another thread, as soon as another node has failed.

    Raises:
        UsageError: the address cannot be one, or nothing says where node 0 is.
        StagingError: not all nodes came, or they contradict each other.
    """
    host, port = parse_address(address) if address is not None else (placement.leader, None)
    if host is None:
        raise UsageError(
            f"nothing says where node 0 of {placement.nodes} is (asked: {placement.origin}); "
            "name a port of it that is free with --rendezvous HOST:PORT, the same on all nodes"
        )
    ports = candidate_ports(token) if port is None else (port,)
    key = f"{token}\n{os.environ.get(SECRET, '')}"
    member = _Member(placement, host, on_failure)
    try:
        member.join(key, ports, seconds)
    except BaseException as error:
        member.leave(error)
        raise
    return member


class _Member:
    """A node among the others. Its connections are served by a thread of its own."""

    def __init__(
        self, placement: Placement, leader: str, on_failure: Callable[[StagingError], None]
    ) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._placement = placement
        self._leader = leader
        self._on_failure = on_failure
        self._inbox: SimpleQueue[Sequence[Report] | StagingError] = SimpleQueue()
        self._leaving = self._failed = False
        self._hub: _Hub | None = None
        self._server: asyncio.Server | None = None
        self._writer: StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dataprep-rendezvous", daemon=True
        )
        self._thread.start()

    def join(self, key: str, ports: Sequence[int], seconds: float) -> None:
        """Find node 0, and wait until all are there."""
        self._run(self._connect(key, ports, seconds))
        # Node 0 may have started to wait only when this node had almost given up.
        self._next(seconds + _LATER)

    def exchange(self, report: Report) -> Sequence[Report]:
        assert self._writer is not None  # noqa: S101  # it has joined
        data = frame({"report": dict(report)})
        self._loop.call_soon_threadsafe(self._writer.write, data)
        return self._next(_PATIENCE + _LATER)

    def leave(self, error: BaseException | None) -> None:
        """Say goodbye, or why it is no good one."""
        self._leaving = True
        in_peace = error is None and not self._failed
        message: _Message = {"bye": True}
        if error is not None:
            text = " ".join(str(error).split()) or type(error).__name__
            message = {"failed": text, "no_room": isinstance(error, NoRoomError)}
        try:
            self._run(self._close(message, _GOODBYE_SECONDS if in_peace else _FAREWELL_SECONDS))
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.leave(error)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _next(self, seconds: float) -> Sequence[Report]:
        """What node 0 says next; what came before a failure counts."""
        try:
            found = self._inbox.get(timeout=seconds)
        except Empty:
            raise StagingError(
                f"node 0 has said nothing for {seconds:g} s although its connection stands; check "
                "whether it is stopped or hangs"
            ) from None
        if isinstance(found, StagingError):
            self._inbox.put(found)  # nothing else will ever come
            raise found
        return found

    # Everything below runs in the loop's thread.

    async def _connect(self, key: str, ports: Sequence[int], seconds: float) -> None:
        host = self._leader
        if self.index == 0:
            _allow_files(self.count + _FILES)
            self._hub = _Hub(key, self.count, seconds)
            listener = _listener(ports)
            self._server = await asyncio.start_server(
                self._hub.serve, sock=listener, backlog=socket.SOMAXCONN
            )
            host, ports = "127.0.0.1", [listener.getsockname()[1]]
        reader, self._writer = await _find_leader(self._placement, key, host, ports, seconds)
        self._listening = asyncio.create_task(self._listen(reader, self._writer))

    async def _listen(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while "failed" not in (message := await receive(reader, _LONGEST * self.count)):
                self._inbox.put(message.get("reports", ()))
            error = _failure(message)
        except Exception as reason:  # noqa: BLE001  # whoever waits must be told
            error = StagingError(f"node 0 ({self._leader}) is lost: {_why(reason)}")
        finally:
            writer.close()
        self._failed = True
        self._inbox.put(error)
        if not self._leaving:  # one that has failed itself knows
            self._on_failure(error)

    async def _close(self, message: _Message, seconds: float) -> None:
        with suppress(OSError):  # also if it takes longer
            async with asyncio.timeout(seconds):
                if self._writer is not None and self._listening is not None:
                    self._writer.write(frame(message))
                    self._writer.write_eof()
                    await asyncio.wait([self._listening])  # until node 0 has heard it
                if self._hub is not None and self._writer is not None:
                    await self._hub.empty.wait()
        if self._server is not None:
            # What was just accepted is served, and can be ended, some turns later; with the server
            # closed before, asyncio would lose it.
            self._loop.remove_reader(self._server.sockets[0].fileno())
            for _ in range(8):
                await asyncio.sleep(0)
            self._server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


class _Hub:
    """Node 0's side: who is there, what they report, and who is lost."""

    def __init__(self, key: str, count: int, seconds: float) -> None:
        self.empty = asyncio.Event()  # all have gone again
        self._key = key
        self._count = count
        self._hosts: dict[int, str] = {}
        self._writers: dict[int, StreamWriter] = {}
        self._reports: dict[int, Report] = {}
        self._left: set[int] = set()
        self._failure: _Message | None = None
        self._timer = self._await_all(
            seconds, self._hosts, f"did not come to node 0 within {seconds:g} s"
        )

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """A connection, from its first byte to its last."""
        index: int | None = None
        try:
            index = await self._admitted(reader, writer)
            while index is not None:
                self._hear(index, await receive(reader, _LONGEST))
        except asyncio.CancelledError:  # this node leaves; asyncio would print it
            return
        except Exception as error:  # noqa: BLE001  # of one connection; all are told
            if index is not None and index not in self._left:
                self._fail(f"{self._named(index)} is lost: {_why(error)}")
        finally:
            writer.close()
            if index is not None:
                del self._writers[index]
            if not self._writers:
                self.empty.set()

    async def _admitted(self, reader: StreamReader, writer: StreamWriter) -> int | None:
        """A newcomer's index, once it has proven that it belongs here; None if it does not."""
        nonce = secrets.token_hex(16)
        writer.write(frame({"nonce": nonce}))
        async with asyncio.timeout(_HELLO_SECONDS):
            hello = await receive(reader, _LONGEST_HELLO)
        index, refused = hello.get("node"), ""
        if not _proves(hello.get("proof"), self._key, "node", nonce):
            refused = f"another job's rendezvous, or not the same ${SECRET}"
        elif isinstance(index, int) and not self._left.isdisjoint((0, index)):
            # The same processes meet again for something else; this node 0 will soon be back too.
            refused = "an earlier rendezvous of this job"
        if refused:
            writer.write(frame({"refused": refused}))
            return None
        writer.write(frame({"proof": _proof(self._key, "leader", str(hello.get("nonce")))}))
        if failure := self._failure or self._contradiction(hello):
            writer.write(frame(failure))
            return None
        node = int(hello["node"])
        self._hosts[node], self._writers[node] = _text(hello.get("host")), writer
        _keep_alive(writer)
        if len(self._hosts) == self._count:
            self._timer.cancel()
            self._tell({"start": True})
        return node

    def _contradiction(self, hello: _Message) -> _Message | None:
        """Fail if a node of this job does not fit in; None if it does."""
        index, host = hello.get("node"), _text(hello.get("host"))
        said = (_text(hello.get("of")), _text(hello.get("version")))
        if said != (str(self._count), __version__):
            wrong = (
                f"{host} is one of {said[0]} nodes and runs dataprep {said[1]}, node 0 one of "
                f"{self._count} and runs {__version__}"
            )
        elif not isinstance(index, int) or not 0 <= index < self._count:
            wrong = f"{host} says that it is node {_text(index)} of {self._count}"
        elif index in self._hosts:
            wrong = f"{self._hosts[index]} and {host} both say that they are node {index}"
        else:
            return None
        return self._fail(
            f"{wrong}; start one process of the same dataprep a node with its own index, all with "
            "the same number of nodes (--rank, --world_size)"
        )

    def _hear(self, index: int, message: _Message) -> None:
        """A node's message."""
        report = message.get("report")
        if "failed" in message:
            text = f"{self._named(index)} failed: {_text(message['failed'])}"
            self._fail(text, no_room=message.get("no_room") is True)
        elif "bye" in message:
            self._left.add(index)
        elif self._failure is not None:
            return  # said before it heard
        elif isinstance(report, dict) and index not in self._reports:
            if not self._reports:
                late = f"did not report within {_PATIENCE:g} s of the first"
                self._timer = self._await_all(_PATIENCE, self._reports, late)
            self._reports[index] = report
        else:
            self._fail(f"{self._named(index)} sent something that is not understood")
        if len(self._reports) == self._count:
            self._timer.cancel()
            self._tell({"reports": [self._reports[node] for node in range(self._count)]})
            self._reports.clear()
        elif self._reports and self._left:
            left = _listed(self._left, self._hosts)
            self._fail(f"{left} left while others still had something to report; see its messages")

    def _await_all(
        self, seconds: float, there: Mapping[int, object], late: str
    ) -> asyncio.TimerHandle:
        """Fail unless all nodes are ``there`` in time."""

        def name_missing() -> None:
            missing = _listed(set(range(self._count)) - there.keys(), self._hosts)
            self._fail(f"{missing} of {self._count} {late}; {_ADVICE}")

        return asyncio.get_running_loop().call_later(seconds, name_missing)

    def _named(self, index: int) -> str:
        return f"node {index} ({self._hosts[index]})"

    def _fail(self, text: str, *, no_room: bool = False) -> _Message:
        """Tell everyone; only the first failure, for what follows is its consequence."""
        if self._failure is None:
            self._failure = {"failed": text, "no_room": no_room}
            self._timer.cancel()
            self._tell(self._failure)
        return self._failure

    def _tell(self, message: _Message) -> None:
        data = frame(message)
        for writer in self._writers.values():
            writer.write(data)


async def _find_leader(
    placement: Placement, key: str, host: str, ports: Sequence[int], seconds: float
) -> tuple[StreamReader, StreamWriter]:
    """Connect to the node 0 of this job, trying all ports again and again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    # A crowd that is turned away together must not come back together.
    pause = _SHORTEST_PAUSE * (1 + placement.node % 97 / 97)
    while True:
        reason = "its name is not resolved"
        for port, address in product(ports, await _addresses(host)):
            try:
                rest = max(0.001, deadline - loop.time())
                return await _introduced(placement, key, address, port, rest)
            except (OSError, EOFError, ValueError) as error:
                reason = f"{address} port {port}: {_why(error)}"
        if loop.time() + pause > deadline:
            break
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
    where = f"port {ports[0]}" if len(ports) == 1 else f"{len(ports)} ports from {ports[0]} on"
    raise StagingError(
        f"node {placement.node} ({placement.host}) did not find node 0 at {printable(host)} "
        f"({where}) within {seconds:g} s: {reason}; {_ADVICE}"
    )


async def _addresses(host: str) -> Collection[str]:
    """Of node 0; found without its domain if the nodes' own network does not know that."""
    loop = asyncio.get_running_loop()
    for name in (host, host.partition(".")[0]):
        with suppress(OSError, UnicodeError):  # what cannot be a name is not encoded
            found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            return dict.fromkeys(str(each[4][0]) for each in found)
    return ()


async def _introduced(
    placement: Placement, key: str, address: str, port: int, seconds: float
) -> tuple[StreamReader, StreamWriter]:
    """A connection to node 0, which has taken this node."""
    async with asyncio.timeout(min(_CONNECT_SECONDS, seconds)):
        reader, writer = await asyncio.open_connection(address, port)
    try:
        async with asyncio.timeout(min(_HELLO_SECONDS, seconds)):
            greeting = await receive(reader, _LONGEST_HELLO)
        nonce = secrets.token_hex(16)
        hello = {
            "node": placement.node,
            "of": placement.nodes,
            "host": placement.host,
            "version": __version__,
            "nonce": nonce,
            "proof": _proof(key, "node", str(greeting.get("nonce"))),
        }
        writer.write(frame(hello))
        async with asyncio.timeout(seconds):
            answer = await receive(reader, _LONGEST)
    except BaseException:
        writer.close()
        raise
    if _proves(answer.get("proof"), key, "leader", nonce):
        _keep_alive(writer)
        return reader, writer
    writer.close()
    raise ValueError(_text(answer.get("refused", "what answers is another program")))


def frame(message: _Message) -> bytes:
    """A message as it travels."""
    data = zlib.compress(json.dumps(message, separators=(",", ":")).encode())
    return _LENGTH.pack(len(data)) + data


async def receive(reader: StreamReader, longest: int) -> _Message:
    """The next message, of ``longest`` bytes at most, compressed and not.

    Raises:
        EOFError: there is none.
        ValueError: it is none, or too long.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > longest:
        raise ValueError(f"{length} bytes, {longest} at most were expected")
    stream = zlib.decompressobj()
    try:
        # One byte more than allowed: where the output ends in time, so does the stream.
        text = stream.decompress(await reader.readexactly(length), longest + 1)
        if len(text) > longest or not stream.eof:
            raise ValueError(f"cut off, or more than {longest} bytes")
        message = json.loads(text)
    except (zlib.error, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(message, dict):
        raise ValueError("not an object")  # noqa: TRY004  # bad data, not a caller's mistake
    return message


def candidate_ports(token: str) -> tuple[int, ...]:
    """The ports where the token's job meets, in the order in which they are tried."""
    span = _LAST_PORT - _FIRST_PORT + 1
    digest = hashlib.shake_256(token.encode()).digest(4 * _PORTS)
    numbers = struct.unpack(f">{_PORTS}I", digest)
    return tuple(dict.fromkeys(_FIRST_PORT + number % span for number in numbers))


def parse_address(address: str) -> tuple[str, int | None]:
    """``HOST:PORT``, ``HOST``, or either with ``[IPv6]`` as its host.

    Raises:
        UsageError: it is neither.
    """
    with suppress(ValueError):
        parts = urlsplit(f"//{address}")
        whole = parts.netloc == address and not address.endswith(":")
        if parts.hostname and parts.port != 0 and whole:
            return parts.hostname, parts.port
    raise UsageError(
        f"--rendezvous {address!r}: HOST:PORT or HOST was expected, PORT from 1 to 65535"
    )


def _listener(ports: Sequence[int]) -> socket.socket:
    """Node 0's socket, on the first port that is free, on all of its networks."""
    dual = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if dual else socket.AF_INET
    reason = ""
    for port in ports:
        try:
            return socket.create_server(("", port), family=family, dualstack_ipv6=dual)
        except OSError as error:
            reason = error.strerror or str(error)
    raise StagingError(
        f"node 0 cannot listen on port {', '.join(map(str, ports))}: {reason}; name another with "
        "--rendezvous HOST:PORT, the same on all nodes"
    )


def _allow_files(needed: int) -> None:
    """Let this process have so many; the soft limit is often 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed:
        raise StagingError(
            f"node 0 may have {hard} files and connections open and needs {needed}; raise its "
            "limit (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))


def _keep_alive(writer: StreamWriter) -> None:
    """Let the kernel notice within a minute that the other machine has gone without a word."""
    set_option = writer.get_extra_info("socket").setsockopt
    set_option(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    set_option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)  # seconds of silence
    set_option(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)  # seconds between probes
    set_option(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6)  # probes without an answer
    set_option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 60_000)  # ms without acknowledgement


def _proof(key: str, role: str, nonce: str) -> str:
    """What shows that a ``node`` or the ``leader`` knows the key, without telling it."""
    return hmac.new(key.encode(), f"dataprep {role} {nonce}".encode(), "sha256").hexdigest()


def _proves(claim: object, key: str, role: str, nonce: str) -> bool:
    expected = _proof(key, role, nonce)
    return isinstance(claim, str) and hmac.compare_digest(claim.encode(), expected.encode())


def _failure(message: _Message) -> StagingError:
    kind = NoRoomError if message.get("no_room") is True else StagingError
    return kind(_text(message["failed"]))


def _why(error: Exception) -> str:
    """What has ended a connection."""
    if isinstance(error, EOFError | ConnectionResetError):
        return (
            "its connection ended without a word; see whether the process was killed (memory, "
            "time limit) or the node went down"
        )
    return str(error) or repr(error)


def _text(value: object) -> str:
    """What another process says, as it can be shown."""
    return printable(str(value))[:_LONGEST_TEXT]


def _listed(nodes: Collection[int], hosts: Mapping[int, str]) -> str:
    """Nodes as a message names them: ``nodes 5, 7 (n7)``; at most a few."""
    names = [f"{node} ({hosts[node]})" if node in hosts else str(node) for node in nodes]
    return f"{'node' if len(nodes) == 1 else 'nodes'} {some_of(names)}"
