"""Nodes that meet over TCP at node 0: no MPI, no shared file system.

::

    node 1 ──┐
    node 2 ──┼──▶ node 0     gathers what all report, and tells all; pushes "node 2 failed: …"
    node 3 ──┘               to everyone at once

One thread a node, whatever the number of nodes. What travels, and how far the others are trusted:
`dataprep.staging.nodes.rendezvous_protocol`.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from typing_extensions import Self

from dataprep.errors import StagingError, UsageError
from dataprep.staging.nodes.peers import Alone, Peers, Report
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.nodes.rendezvous_board import Board, described
from dataprep.staging.nodes.rendezvous_client import Spoke, find_leader
from dataprep.staging.nodes.rendezvous_protocol import LONGEST, Message, candidate_ports, frame
from dataprep.staging.nodes.rendezvous_server import Hub

_GOODBYE_SECONDS = 30.0  # that node 0 stays for others which have not left yet
_FAREWELL_SECONDS = 5.0  # the same once something has failed
_LATER = 30.0  # seconds by which one who waits for node 0 outlasts node 0's own limits
_FILES = 256  # descriptors besides those for nodes


def meet(
    placement: Placement,
    token: str,
    *,
    address: str | None = None,
    seconds: float = 300.0,
    patience: float = 86_400.0,
    on_failure: Callable[[StagingError], None] = lambda error: None,  # noqa: ARG005 - named as callers see it
) -> Peers:
    """Meet the other nodes of this job at node 0.

    Args:
        placement: which node this is, and where node 0 is.
        token: the same in all processes of one launch and in no other: of the job, its step, the
            user and the source. It keeps jobs apart; it is no secret.
        address: ``HOST:PORT`` or ``HOST`` of node 0 instead of what the placement says; without a
            port, some that follow from the token are tried.
        seconds: within which all must have come.
        patience: seconds between the first node's report of an exchange and the last one's. Nodes
            that die are noticed sooner; this is for those that hang.
        on_failure: called once, from another thread, as soon as another node has failed.

    Returns:
        The connection, to be used as a context manager.

    Raises:
        UsageError: the address cannot be one, or nothing says where node 0 is.
        StagingError: not all nodes came, or they contradict each other.
    """
    if placement.nodes == 1:
        return Alone(placement.node, placement.nodes)
    host, ports = _meeting_place(placement, token, address)
    board = Board(on_failure)
    line: Hub | Spoke
    if placement.node == 0:
        _allow_files(placement.nodes + _FILES)
        line = Hub(
            token,
            placement.host,
            placement.nodes,
            _listener(ports),
            board,
            seconds=seconds,
            patience=patience,
        )
    else:
        connection = find_leader(placement, token, host, ports, seconds)
        line = Spoke(connection, board, placement.nodes, host)
    member = _Member(placement, board, line, patience)
    try:
        # Node 0 may have started to wait only when this node had almost given up.
        board.started(seconds + _LATER)
    except BaseException as error:
        member.leave(error)
        raise
    return member


class _Line(Protocol):
    def send(self, message: Message) -> None: ...

    def close(self, seconds: float) -> None: ...


class _Member:
    """A node that has met the others."""

    def __init__(self, placement: Placement, board: Board, line: _Line, patience: float) -> None:
        self.index = placement.node
        self.count = placement.nodes
        self._board = board
        self._line = line
        self._patience = patience

    def exchange(self, report: Report) -> Sequence[Report]:
        message = {"report": dict(report)}
        size = len(frame(message))
        if size > LONGEST:
            raise ValueError(f"a report of {size} bytes; a node may send {LONGEST}")
        self._line.send(message)
        return self._board.next_reports(self._patience + _LATER)

    def leave(self, error: BaseException | None) -> None:
        """Say goodbye, or why it is no good one."""
        if error is not None:
            self._board.leave_failing()
        message: Message = {"bye": True} if error is None else described(error)
        in_peace = error is None and not self._board.failed
        self._line.send(message)
        self._line.close(_GOODBYE_SECONDS if in_peace else _FAREWELL_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.leave(error)


def _meeting_place(
    placement: Placement, token: str, address: str | None
) -> tuple[str, Sequence[int]]:
    """Node 0's name, and the ports where it may be."""
    if address is None:
        if placement.leader is None:
            raise UsageError(
                f"nothing says where node 0 of {placement.nodes} is (asked: {placement.origin}); "
                "name a port of it that is free with --rendezvous HOST:PORT, the same on all nodes"
            )
        return placement.leader, candidate_ports(token)
    host, port = parse_address(address)
    return host, candidate_ports(token) if port is None else (port,)


def parse_address(address: str) -> tuple[str, int | None]:
    """``HOST:PORT``, ``HOST``, ``[IPv6]:PORT`` or an IPv6 address on its own.

    Raises:
        UsageError: it is none of them.
    """
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = address, ""  # a name, or an IPv6 address, on its own
    host = host.removeprefix("[").removesuffix("]")
    if not host or (colon and not port and address.endswith(":")):
        raise UsageError(f"--rendezvous {address!r}: HOST:PORT or HOST was expected")
    if not port:
        return host, None
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65_536):
        raise UsageError(f"--rendezvous {address!r}: the port must be a number from 1 to 65535")
    return host, int(port)


def _listener(ports: Sequence[int]) -> socket.socket:
    """Node 0's socket, on the first port that is free, on all of its networks."""
    reason = ""
    for port in ports:
        for family in (socket.AF_INET6, socket.AF_INET):
            dual = family == socket.AF_INET6
            if dual and not socket.has_dualstack_ipv6():
                continue
            try:
                return socket.create_server(
                    ("", port), family=family, backlog=socket.SOMAXCONN, dualstack_ipv6=dual
                )
            except OSError as error:
                reason = error.strerror or str(error)
    listed = ", ".join(map(str, ports))
    where = f"port {listed}" if len(ports) == 1 else f"any of the ports {listed}"
    raise StagingError(
        f"node 0 cannot listen on {where}: {reason}; name another with --rendezvous HOST:PORT, "
        "the same on all nodes"
    )


def _allow_files(needed: int) -> None:
    """Let this process have as many connections as there are nodes; the soft limit is often 1024.

    Raises:
        StagingError: the hard limit is lower.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise StagingError(
            f"node 0 may have {hard} files and connections open and needs {needed}; raise its "
            "limit (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
