"""What the nodes of a job tell each other, what follows from it for all, and who is waited for."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeAlias, TypeVar

from msgspec import Struct

from dataprep.errors import NoRoomError, StagingError
from dataprep.system.messages import counted, printable, sized

_NAMED = 5  # nodes that a message names

FIRST_SECONDS = 10.0  # of waiting, before it is said who for
NEXT_SECONDS = 60.0  # until it is said again


class Hello(Struct, frozen=True, forbid_unknown_fields=True, tag="hello"):
    """Which node this is."""

    node: int
    host: str


class NodeStart(Struct, frozen=True, forbid_unknown_fields=True, tag="start"):
    """What a node reports before it copies."""

    host: str
    node: int  # 0-based
    digest: str  # `Inventory.digest` of the source as this node sees it
    target: str  # directory that the copy goes to
    needed: int  # bytes that are still to be written there
    free: int  # bytes that can be
    options: str = ""  # whatever must be the same on all nodes


class NodeDone(Struct, frozen=True, forbid_unknown_fields=True, tag="done"):
    """What a node reports once its copy is whole."""

    host: str
    node: int  # 0-based
    files: int  # that it copied
    copied: int  # bytes of those
    reused: int  # bytes that were there already
    seconds: float  # from the first look at a file to the sentinel
    selection: str  # `Assigned.digest`
    content: str | None  # a digest of the hashes of all files; None if not all are hashed


class Agreed(Struct, frozen=True, forbid_unknown_fields=True, tag="agreed"):
    """What follows for all nodes from the reports of all; nothing but that they go on, if empty."""

    total: str = ""  # how fast it was, in a line
    trouble: str = ""  # what is wrong, so that no node may keep its copy


class Failed(Struct, frozen=True, forbid_unknown_fields=True, tag="failed"):
    """Why there is no copy, and whether it is for too little room."""

    reason: str
    no_room: bool = False


Message: TypeAlias = Hello | NodeStart | NodeDone | Agreed | Failed
Report = TypeVar("Report", NodeStart, NodeDone)


class Peers(Protocol):
    """One copier's connection to those of the other nodes. A context manager.

    Left with an exception, it tells the other nodes that this one has failed, and why.
    """

    index: int  # of this node, 0-based
    count: int  # of nodes

    def exchange(self, report: Report, conclude: Callable[[Sequence[Report]], Agreed]) -> Agreed:
        """Hand in this node's report, and wait for what follows from those of all nodes.

        Args:
            conclude: given all reports, by node index, on node 0 or on every node; what it raises
                is raised on all.

        Raises:
            StagingError: a node has failed, is lost, or did not come in time; its name and its
                reason are in the message.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class Waiting:
    """Says on stderr who is waited for, after ten seconds and every minute.

    Args:
        seconds: after which the caller gives up; None if it does not.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds, self._clock = seconds, time.strftime("%H:%M:%S")
        self._begun = time.monotonic()
        self._next = self._begun + FIRST_SECONDS

    @property
    def left(self) -> float:
        """Seconds until it is to be said; 0 if it is now."""
        return max(0.0, self._next - time.monotonic())

    def tell(self, who: str) -> None:
        """Say it."""
        self._next = time.monotonic() + NEXT_SECONDS
        waited = time.monotonic() - self._begun
        end = "" if self._seconds is None else f"; giving up in {self._seconds - waited:.0f} s"
        text = f"dataprep: waiting for {who} since {self._clock} ({waited:.0f} s){end}"
        print(printable(text), file=sys.stderr, flush=True)  # noqa: T201  # whatever stdout is for


@dataclass
class Alone:
    """A node that knows of no others, or cannot reach them."""

    index: int = 0
    count: int = 1

    def exchange(self, report: Report, conclude: Callable[[Sequence[Report]], Agreed]) -> Agreed:
        """What follows from this node's report only."""
        return conclude([report])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


def agree_to_start(starts: Sequence[NodeStart], nodes: int) -> Agreed:
    """Go on only if all nodes mean the same source, and each has the room for its part.

    Args:
        starts: of the nodes that have met.
        nodes: how many there are. If they have not all met, some may copy all the same.

    Raises:
        StagingError: two nodes see different sources, or were given different options; there is
            too little space on a node, and others may not know.
        NoRoomError: there is too little space on a node, and so nothing is copied on any.
    """
    for start in starts[1:]:
        both = f"{_named(starts[0])} and {_named(start)}"
        if start.digest != starts[0].digest:
            raise StagingError(
                f"{both} do not see the same source: it was changed while the nodes started, or "
                "they were given different ones; wait until nothing writes there, and run the same "
                "command on all nodes"
            )
        if start.options != starts[0].options:
            raise StagingError(
                f"{both} were started with different options; run the same command on all nodes"
            )
        if (start.host, start.target) == (starts[0].host, starts[0].target):
            raise StagingError(
                f"{both} would both copy to {printable(start.target)}; start one process a node "
                "(mpirun --map-by ppr:1:node, srun --ntasks-per-node=1)"
            )
    full = [
        f"{_named(start)}: {sized(start.needed)} needed in {printable(start.target)}, "
        f"{sized(start.free)} free, {sized(start.needed - start.free)} too little"
        for start in starts
        if start.needed > start.free
    ]
    if full:
        more = f"; {counted(len(full), 'node')} in all" if len(full) > _NAMED else ""
        all_know = len(starts) == nodes
        raise (NoRoomError if all_know else StagingError)(
            f"{'; '.join(full[:_NAMED])}{more}; nothing was copied on "
            f"{'any' if all_know else 'this'} node; free some, choose other storage (--to), less "
            "of the data (--split), or a part of the shards for every node (--share node)"
        )
    return Agreed()


def agree_to_finish(done: Sequence[NodeDone]) -> Agreed:
    """Check that nodes which hold the same files hold the same bytes."""
    holders: dict[str, NodeDone] = {}  # of each selection, the first that knows all hashes
    for node in done:
        other = holders.setdefault(node.selection, node) if node.content else node
        if other.content != node.content:
            return Agreed(
                trouble=f"{_named(other)} and {_named(node)} copied the same files but hold "
                "different bytes: the source was changed meanwhile, or a node's storage or memory "
                "is faulty; delete the copies (dataprep stage --clean) and run the same command "
                "again"
            )
    return Agreed(total=_total(done))


def _total(nodes: Sequence[NodeDone]) -> str:
    """How fast it was, in powers of 1000 and of copied bytes only.

    All nodes start together, so the slowest one's seconds are those of all.
    """
    copiers = [node for node in nodes if node.copied]
    copied = sum(node.copied for node in copiers)
    kept = f"{sized(sum(node.reused for node in nodes))} there already"
    if not copied:
        where = f" to {counted(len(nodes), 'node')}" if len(nodes) > 1 else ""
        return f"nothing to copy{where}: {kept}"
    seconds = max(node.seconds for node in copiers)
    files = counted(sum(node.files for node in copiers), "file")
    total = (
        f"{sized(copied)} in {files} copied to {counted(len(copiers), 'node')} in {seconds:.1f} s: "
        f"{sized(copied / max(seconds, 1e-9))}/s"
    )
    if any(node.reused for node in nodes):
        total += f"; {kept}"
    return total


def _named(report: NodeStart | NodeDone) -> str:
    return named(report.node, report.host)


def named(node: int, host: str) -> str:
    """A node, as messages call it."""
    return f"node {node} ({printable(host)})"


def failure(error: BaseException, who: str = "") -> Failed:
    """What to tell the other nodes of an error."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return Failed(printable(f"{who}{reason}"), no_room=isinstance(error, NoRoomError))
