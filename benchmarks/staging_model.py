"""What each way of staging would take, on a machine of some speeds.

::

    everything   every node reads all, N * S from the parallel file system
    share        every node reads its part, S together
    broadcast    S is read once and sent from node to node

Reading, sending, hashing and writing overlap, so the slowest of them sets the time. What is left
out makes the truth slower: other jobs on the same storage, metadata, seeks. All speeds are in GB/s,
GB being 10^9 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dataprep.system.messages import sized

Mode = Literal["everything", "share", "broadcast"]

_GB = 1e9
_PARCEL = 1 << 22  # bytes that a broadcast sends at a time
_WORTH_MPI = 0.8  # of the time without; a broadcast needs MPI on all nodes, and fails with any


@dataclass(frozen=True, slots=True)
class Machine:
    """What the speeds are; the defaults are of a mid-size machine of around 2020.

    Attributes:
        pfs: what the parallel file system gives to all nodes, and all other jobs, together.
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
    limit: str
    obstacle: str


@dataclass(frozen=True, slots=True)
class Estimates:
    """All modes for one data set."""

    everything: Estimate
    share: Estimate
    broadcast: Estimate

    def choose(self) -> Estimate | None:
        """What to do; None if none can be done, so that the data are best read where they are.

        Every node gets everything if that fits: then any node can read any record in any epoch,
        whereas with a share it sees the same records in all of them, which changes the training. A
        broadcast is chosen over direct reads only if it takes at most four fifths of the time.
        """
        if not self.everything.obstacle:
            worth = self.broadcast.seconds <= _WORTH_MPI * self.everything.seconds
            return self.broadcast if worth and not self.broadcast.obstacle else self.everything
        return None if self.share.obstacle else self.share


def estimate(
    total: int,
    largest: int,
    nodes: int,
    machine: Machine,
    part: float,
    obstacle: str = "",
) -> Estimates:
    """Estimate every mode.

    Args:
        total: bytes of the data set.
        largest: bytes of its largest file; a shard is the least that a node can have.
        nodes: how many.
        machine: how fast it is.
        part: bytes that a node gets with a share.
        obstacle: why there can be no share, a line; empty if there can.
    """
    # A chain of nodes, each of which passes on what it has whole; trees take less.
    chain = (nodes - 1) * _PARCEL / (machine.nic * _GB)

    def of(mode: Mode, here: float, readers: int, obstacle: str, extra: float = 0.0) -> Estimate:
        """A mode that leaves so many bytes on a node, each read by so many nodes."""
        read_bytes = here if mode == "broadcast" else here * nodes
        times = {
            "parallel file system": read_bytes / machine.pfs,
            "network": here / machine.nic,
            "storage": here / machine.local,
        }
        if machine.ost:
            times["largest file's stripes"] = readers * largest / (machine.stripes * machine.ost)
        if machine.hash:
            # One file is hashed by one core, whatever the number of streams.
            hashers = min(machine.streams, max(1.0, here / max(largest, 1)))
            times["hashing"] = here / (machine.hash * hashers)
        limit = max(times, key=lambda name: times[name])
        seconds = times[limit] / _GB + extra
        if not obstacle and machine.scratch and here > machine.scratch * _GB:
            obstacle = f"impossible: a node has {sized(machine.scratch * _GB)}"
        together = nodes * here / _GB / seconds if seconds else 0.0
        return Estimate(mode, here, read_bytes, seconds, together, limit, obstacle)

    return Estimates(
        of("everything", total, nodes, ""),
        of("share", part, 1, obstacle),
        of("broadcast", total, 1, "" if nodes > 1 else "impossible: there is only one node", chain),
    )
