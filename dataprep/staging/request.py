"""What a user asks of one call of ``dataprep stage``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from dataprep.errors import UsageError
from dataprep.options import names, option, rate
from dataprep.remote.store import Store

Verify = Literal["none", "copy", "reread"]
Source: TypeAlias = Path | Store


def _splits(value: str | Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({*names([value] if isinstance(value, str) else value)}))


@dataclass(frozen=True)
class StageRequest:
    """One call, the same on every node.

    Attributes:
        source: the directory, or the place in a bucket, to copy from.
    """

    source: Source
    to: Path | None = option(
        "Put the files directly into DIR. [default: a directory of this job in $DATAPREP_SCRATCH, "
        "$SLURM_TMPDIR, $LOCAL_SCRATCH, $PBS_JOBFS, /mnt/bb/$USER, $TMPDIR, /local/scratch or "
        "/tmp, the first that exists]",
        None,
        metavar="DIR",
        place="directory",
    )
    splits: tuple[str, ...] = option(
        "Copy only this split. May be repeated. [default: all]",
        (),
        name="split",
        metavar="NAME",
        parse=_splits,
        repeated=True,
    )
    share: Literal["node"] | None = option(
        "node: give each of N nodes 1/N of the shards; node loads differ by at most one shard. A "
        "split with fewer shards than nodes is copied whole. [default: everything to every node]",
        None,
    )
    shared: bool = option(
        "Let several of your jobs on a node use one copy; give it in all of them.", False
    )
    verify: Verify = option(
        "How to check the copy. none: compare sizes. copy: also hash what is read, and compare it "
        "with the manifest. reread: also read the copy back from the node's storage.",
        "copy",
    )
    bandwidth: int | None = option(
        "Read at most this much a second on each node, e.g. 500MB. [default: no limit]",
        None,
        metavar="SIZE",
        parse=rate,
    )
    broadcast: Literal["mpi"] | None = option(
        "mpi: read every byte once and send it to all nodes. Needs the extra mpi, and mpirun or "
        "srun --mpi.",
        None,
    )
    rendezvous: str | None = option(
        "Where nodes coordinate: HOST:PORT of node 0, or none. Where no scheduler or MPI tells of "
        "nodes, such as under pdsh, set RANK and WORLD_SIZE in the environment of each. [default: "
        "the job's first node, if the scheduler names it]",
        None,
        metavar="HOST:PORT",
    )
    rendezvous_seconds: float = option(
        "Give up if not all nodes have come after this long; nothing is copied then.",
        300,
        metavar="SECONDS",
        least=1,
    )

    def __post_init__(self) -> None:
        """Refuse options that cannot be together.

        Raises:
            UsageError: there are such.
        """
        if self.share and self.broadcast:
            raise UsageError("--broadcast sends everything to every node; leave out --share")

    @property
    def words(self) -> list[str]:
        """The options that say which part of the source is asked for; the same on every node."""
        words = [f"--split {shlex.quote(split)}" for split in sorted(self.splits)]
        return words + ["--share node"] * (self.share is not None)

    @property
    def asked(self) -> str:
        """The same for messages."""
        return " ".join(self.words) or "all of it"

    @property
    def options(self) -> str:
        """What must be the same in all processes of a call, for comparison only."""
        return repr((self.words, self.verify, self.broadcast))


class StageReporter(Protocol):
    """Who is told how a call goes; from any thread, one call at a time."""

    def line(self, text: str) -> None:
        """Something worth a line."""

    def copying(self, files: int, total: int) -> None:
        """So many files and bytes are about to be copied on this node."""

    def advance(self, count: int) -> None:
        """So many more bytes are copied."""

    def finished(self) -> None:
        """The copying is over, one way or another."""
