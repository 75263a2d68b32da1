"""What the nodes of a job tell each other, what they must agree on, and the total.

Every function looks at the same reports on every node, and so comes to the same conclusion there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self, TypeVar

from dataprep.errors import NoRoomError, StagingError
from dataprep.system.messages import counted, printable, sized

_NAMED = 5  # nodes that a message names
_LISTED = 8  # nodes up to which each one's speed is told

Report = Mapping[str, Any]  # JSON


class Peers(Protocol):
    """One copier's connection to those of the other nodes. A context manager.

    Left with an exception, it tells the other nodes that this one has failed, and why.
    """

    index: int  # of this node, 0-based
    count: int  # of nodes

    def exchange(self, report: Report) -> Sequence[Report]:
        """Give every node this one's report, and get all of theirs, by node index.

        Raises:
            StagingError: a node has failed, is lost, or did not come in time; its name and its
                reason are in the message.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None: ...


class Alone:
    """A node that knows of no others, or cannot reach them."""

    def __init__(self, index: int = 0, count: int = 1) -> None:
        self.index = index
        self.count = count

    def exchange(self, report: Report) -> Sequence[Report]:
        """Only this node's."""
        return [report]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...


class _Reported:
    """A dataclass that travels as JSON between nodes of the same version."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """What the other nodes are told."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # subclasses are dataclasses

    @classmethod
    def from_json(cls, report: Report) -> Self:
        """What another node has told."""
        return cls(**report)


@dataclass(frozen=True, slots=True)
class NodeStart(_Reported):
    """What a node tells before it copies.

    Attributes:
        host: its name.
        node: 0-based index.
        digest: `Inventory.digest` of the source as this node sees it.
        selection: `Selection.digest`.
        target: directory that the copy goes to.
        needed: bytes that are still to be written there.
        free: bytes that can be.
        options: whatever must be the same on all nodes.
    """

    host: str
    node: int
    digest: str
    selection: str
    target: str
    needed: int
    free: int
    options: str = ""


@dataclass(frozen=True, slots=True)
class NodeDone(_Reported):
    """What a node tells once its copy is whole.

    Attributes:
        host: its name.
        node: 0-based index.
        files: how many it copied.
        copied: bytes of those.
        reused: bytes that were there already.
        seconds: from the first look at a file to the sentinel.
        selection: `Selection.digest`.
        content: a digest over the hashes of all files that are there; None if not all are hashed.
    """

    host: str
    node: int
    files: int
    copied: int
    reused: int
    seconds: float
    selection: str
    content: str | None


_Node = TypeVar("_Node", NodeStart, NodeDone)


def agree_to_start(reports: Sequence[NodeStart], nodes: int) -> None:
    """Go on only if all nodes mean the same source, and each has the room for its part.

    Args:
        reports: of the nodes that have met.
        nodes: how many there are. If they have not all met, some may copy all the same.

    Raises:
        StagingError: two nodes see different sources, or were given different options; there is
            too little space on a node, and others may not know.
        NoRoomError: there is too little space on a node, and so nothing is copied on any.
    """
    _same(
        reports,
        lambda report: report.digest,
        "do not see the same source: it was changed while the nodes started, or they were given "
        "different ones; wait until nothing writes there, and run the same command on all nodes",
    )
    _same(
        reports,
        lambda report: report.options,
        "were started with different options; run the same command on all nodes",
    )
    full = [report for report in reports if report.needed > report.free]
    if full:
        rest = len(full) - _NAMED
        have = "has" if rest == 1 else "have"
        more = f"; {counted(rest, 'more node')} {have} too little too" if rest > 0 else ""
        all_know = len(reports) == nodes
        kind = NoRoomError if all_know else StagingError
        raise kind(
            f"{'; '.join(map(_room, full[:_NAMED]))}{more}; nothing was copied on "
            f"{'any' if all_know else 'this'} node; free some, choose other storage (--to), less "
            "of the data (--split), or a part of the shards for every node (--share node)"
        )


def agree_to_finish(reports: Sequence[NodeDone]) -> list[str]:
    """Check that nodes which hold the same files hold the same bytes.

    Returns:
        The total, as `summary` words it.

    Raises:
        StagingError: two nodes hold different bytes.
    """
    by_selection: dict[str, list[NodeDone]] = {}
    for report in reports:
        if report.content is not None:
            by_selection.setdefault(report.selection, []).append(report)
    for holders in by_selection.values():
        _same(
            holders,
            lambda report: report.content,
            "copied the same files but hold different bytes: the source was changed meanwhile, or "
            "a node's storage or memory is faulty; delete the copies (dataprep stage --clean) and "
            "run the same command again",
        )
    return summary(reports)


def summary(reports: Sequence[NodeDone]) -> list[str]:
    """How fast it was, node by node if they are few, and the total in the last line.

    All nodes start together, so the slowest one's seconds are those of all. Speeds are in powers
    of 1000, of copied bytes only.
    """
    copiers = [report for report in reports if report.copied]
    lines = _speeds(copiers) if len(copiers) > 1 else []
    copied = sum(report.copied for report in copiers)
    reused = sum(report.reused for report in reports)
    again = sum(report.reused > 0 for report in reports)
    kept = f"{sized(reused)} there already"
    if not copied:
        where = f" to {counted(len(reports), 'node')}" if len(reports) > 1 else ""
        return [f"nothing to copy{where}: {kept}"]
    if len(reports) > 1:
        kept += f" ({counted(again, 'node')})"
    seconds = max(report.seconds for report in copiers)
    files = counted(sum(report.files for report in copiers), "file")
    together = " together" if len(copiers) > 1 else ""
    total = (
        f"{sized(copied)} in {files} copied to {counted(len(copiers), 'node')} in {seconds:.1f} s: "
        f"{_speed(copied, seconds)}{together}"
    )
    return [*lines, f"{total}; {kept}" if reused else total]


def _speeds(copiers: Sequence[NodeDone]) -> list[str]:
    ranked = sorted(copiers, key=lambda node: node.copied / max(node.seconds, 1e-9))
    if len(ranked) <= _LISTED:
        return [f"per node: {', '.join(map(_rate, copiers))}"]
    middle = ranked[len(ranked) // 2]
    return [
        f"per node: {_speed(middle.copied, middle.seconds)} in the median; slowest "
        f"{_rate(ranked[0])}, fastest {_rate(ranked[-1])}"
    ]


def _same(reports: Sequence[_Node], what: Callable[[_Node], str | None], trouble: str) -> None:
    """Raise, naming the first two nodes that differ."""
    for report in reports[1:]:
        if what(report) != what(reports[0]):
            raise StagingError(f"{_named(reports[0])} and {_named(report)} {trouble}")


def _room(report: NodeStart) -> str:
    return (
        f"{_named(report)}: {sized(report.needed)} needed in {printable(report.target)}, "
        f"{sized(report.free)} free, {sized(report.needed - report.free)} too little"
    )


def _named(report: NodeStart | NodeDone) -> str:
    return f"node {report.node} ({printable(report.host)})"


def _rate(node: NodeDone) -> str:
    return f"{_named(node)} {_speed(node.copied, node.seconds)}"


def _speed(count: float, seconds: float) -> str:
    return f"{sized(count / max(seconds, 1e-9))}/s"
