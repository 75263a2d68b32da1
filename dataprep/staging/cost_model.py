"""How long staging takes, from a few speeds of the machine: who reads what, and what limits it.

::

    everything   every node reads all, N * S from the parallel file system
    share        every node reads its part, K * S together if K nodes keep each shard
    broadcast    S is read once and sent from node to node

Reading, sending, hashing and writing overlap, so the slowest of them sets the time. What is left
out makes the truth slower: other jobs on the same storage, metadata, seeks. All speeds are in GB/s,
GB being 10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal

from dataprep.errors import UsageError
from dataprep.system.messages import counted, sized

Mode = Literal["everything", "share", "broadcast"]
Limit = Literal["parallel file system", "largest file's stripes", "network", "storage", "hashing"]

_GB = 1e9
_PARCEL = 1 << 22  # bytes that a broadcast sends at a time
_WORTH_MPI = 0.8  # of the time without; a broadcast needs MPI on all nodes, and fails with any


@dataclass(frozen=True, slots=True)
class Machine:
    """What the speeds are; the defaults are of a mid-size machine of around 2020.

    Attributes:
        pfs: what the parallel file system gives to all nodes together. The aggregate is shared
            with all other jobs.
        ost: what one storage target of it gives; 0 if files are not bound to some.
        stripes: over how many of those the largest file is spread.
        nic: what one node's network takes in.
        local: what a node's own storage takes in; 2 is the peak of Frontier's NVMe drives (OLCF).
        hash: one core's SHA-256, measured on one with SHA extensions; 0 if nothing is hashed.
        streams: files that a node copies at the same time.
        scratch: GB that are free on every node; 0 if not known, and then all fits.
    """

    pfs: float = 100.0
    ost: float = 0.5
    stripes: float = 1.0
    nic: float = 12.5
    local: float = 2.0
    hash: float = 1.15
    streams: float = 8.0
    scratch: float = 0.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one mode takes.

    Attributes:
        mode: which.
        node_bytes: that every node has in the end.
        read_bytes: that all nodes together read from the parallel file system.
        seconds: from the first byte to the last.
        together: GB/s that land, of all nodes together.
        limit: what sets the time.
        obstacle: why it cannot be done; empty if it can.
    """

    mode: Mode
    node_bytes: float
    read_bytes: float
    seconds: float
    together: float
    limit: Limit
    obstacle: str


@dataclass(frozen=True, slots=True)
class Estimates:
    """All modes for one data set."""

    total_bytes: int
    largest_file: int
    nodes: int
    everything: Estimate
    share: Estimate
    broadcast: Estimate

    def of(self, mode: Mode) -> Estimate:
        """One of them."""
        found: Estimate = getattr(self, mode)
        return found

    def choose(self, asked: Mode | None = None) -> Estimate | None:
        """What to do.

        A mode that the user asks for is taken if it can be. Else every node gets everything if
        that fits: then any node can read any record in any epoch, whereas with a share it sees the
        same records in all of them, which changes the training. A broadcast is chosen over direct
        reads only if it takes at most four fifths of the time. A share is chosen if nothing else
        fits.

        Args:
            asked: the mode that the user wants.

        Returns:
            The mode; None if none can be done, so that the data are best read where they are.
        """
        if asked is not None and not self.of(asked).obstacle:
            return self.of(asked)
        if not self.everything.obstacle:
            worth = self.broadcast.seconds <= _WORTH_MPI * self.everything.seconds
            return self.broadcast if worth and not self.broadcast.obstacle else self.everything
        return None if self.share.obstacle else self.share

    def table(self, asked: Mode | None = None) -> list[str]:
        """The modes as aligned lines, and the choice."""
        rows = [("", "per node", "read", "time", "together", "limited by")]
        for each in (self.everything, self.share, self.broadcast):
            known = each.node_bytes or not each.obstacle
            sizes = (sized(each.node_bytes), sized(each.read_bytes)) if known else ("-", "-")
            speed = (_duration(each.seconds), f"{sized(each.together * _GB)}/s", each.limit)
            rows.append(
                (each.mode, *sizes, *(("-", "-", each.obstacle) if each.obstacle else speed))
            )
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = []
        for name, *numbers, last in rows:
            cells = [text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)]
            lines.append("  ".join((name.ljust(widths[0]), *cells, last)))
        chosen = self.choose(asked)
        advice = _ADVICE[chosen.mode] if chosen else "stage nothing: read the data where they are"
        refused = asked is not None and self.of(asked).obstacle
        best = f"best, since {_ASKED[asked]} is impossible" if asked and refused else "best"
        return [
            f"{sized(self.total_bytes)} in files of up to {sized(self.largest_file)}, for "
            f"{counted(self.nodes, 'node')}",
            *lines,
            f"{best}: {advice}",
        ]


_ASKED: dict[Mode, str] = {
    "everything": "everything",
    "share": "the share that is asked for",
    "broadcast": "the broadcast that is asked for",
}

_ADVICE: dict[Mode, str] = {
    "everything": "everything, read by every node",
    "share": "a share for every node (--share node), which then sees the same records every epoch",
    "broadcast": "everything, by broadcast (--broadcast mpi)",
}


@dataclass(frozen=True, slots=True)
class Part:
    """What a node gets with a share.

    Attributes:
        bytes: of the node that gets most.
        obstacle: why there can be no share, a line; empty if there can.
    """

    bytes: float
    obstacle: str = ""


def estimate(
    total_bytes: int,
    largest_file: int,
    nodes: int,
    machine: Machine,
    *,
    replicas: int = 1,
    part: Part | None = None,
) -> Estimates:
    """Estimate every mode.

    Args:
        total_bytes: of the data set.
        largest_file: bytes of its largest file; a shard is the least that a node can have.
        nodes: how many.
        machine: how fast it is.
        replicas: how many nodes keep each shard, with a share.
        part: what a node gets with a share; if None, as many bytes as any other node.
    """
    replicas = min(replicas, nodes)
    if part is None:
        even = total_bytes * replicas / nodes
        small = even < largest_file and nodes > replicas
        part = Part(even, "more nodes than shards to deal" if small else "")
    return Estimates(
        total_bytes,
        largest_file,
        nodes,
        everything=_estimate("everything", total_bytes, largest_file, nodes, nodes, machine),
        share=_estimate(
            *("share", part.bytes, largest_file, nodes, replicas, machine),
            obstacle=f"impossible: {part.obstacle}" if part.obstacle else "",
        ),
        broadcast=_estimate(
            *("broadcast", total_bytes, largest_file, nodes, 1, machine),
            # A chain of nodes, each of which passes on what it has whole; trees take less.
            extra=(nodes - 1) * _PARCEL / (machine.nic * _GB),
            obstacle="" if nodes > 1 else "impossible: there is only one node",
        ),
    )


def read_speeds(options: Sequence[str], machine: Machine | None = None) -> Machine:
    """A machine with the speeds that a command line names.

    Args:
        options: each ``NAME=NUMBER``, of `Machine`'s attributes.
        machine: what holds for those that are not named.

    Raises:
        UsageError: no such speed, or no number.
    """
    machine = machine or Machine()
    names = [field.name for field in fields(Machine)]
    for option in options:
        name, _, text = option.partition("=")
        if name not in names:
            raise UsageError(f"--speed {option}: NAME=NUMBER with {', '.join(names)} was expected")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        needless = name in ("ost", "hash", "scratch")
        if not (0 < value < float("inf") or (needless and value == 0)):
            raise UsageError(f"--speed {option}: a number above 0 was expected")
        machine = replace(machine, **{name: value})
    return machine


def _estimate(
    mode: Mode,
    node_bytes: float,
    largest_file: int,
    nodes: int,
    readers: int,
    machine: Machine,
    *,
    extra: float = 0.0,
    obstacle: str = "",
) -> Estimate:
    """One mode, in which ``readers`` nodes read each byte."""
    read_bytes = node_bytes if mode == "broadcast" else node_bytes * nodes
    # One file is hashed by one core, whatever the number of streams.
    hashers = min(machine.streams, max(1.0, node_bytes / max(largest_file, 1)))
    times: dict[Limit, float] = {
        "parallel file system": read_bytes / machine.pfs,
        "network": node_bytes / machine.nic,
        "storage": node_bytes / machine.local,
    }
    if machine.ost:
        times["largest file's stripes"] = readers * largest_file / (machine.stripes * machine.ost)
    if machine.hash:
        times["hashing"] = node_bytes / (machine.hash * hashers)
    limit = max(times, key=lambda name: times[name])
    seconds = times[limit] / _GB + extra
    if not obstacle and machine.scratch and node_bytes > machine.scratch * _GB:
        obstacle = f"impossible: a node has {sized(machine.scratch * _GB)}"
    landed = nodes * node_bytes / _GB
    together = landed / seconds if seconds else 0.0
    return Estimate(mode, node_bytes, read_bytes, seconds, together, limit, obstacle)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds:.0f} s"
    return f"{seconds / 3600:.1f} h"
