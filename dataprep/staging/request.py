"""What a user asks of one call of ``dataprep stage``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from dataprep.errors import UsageError
from dataprep.remote.store import Store

Verify = Literal["none", "copy", "reread"]
Source: TypeAlias = Path | Store


@dataclass(frozen=True, slots=True)
class StageRequest:
    """One call, the same on every node."""

    source: Source  # the directory, or the place in a bucket, to copy from
    to: Path | None = None  # None chooses this job's own directory in the node's scratch
    splits: Sequence[str] = ()  # only these; all if empty
    share: bool = False  # a node gets only its part of the shards
    shared: bool = False  # other jobs of the same user may use the copy
    verify: Verify = "copy"  # see `dataprep.staging.copying.copy_files`
    bandwidth: float | None = None  # bytes a second that a node reads at most
    broadcast: bool = False  # every byte is read once and travels on through MPI
    rendezvous: str | None = None  # HOST:PORT to meet at; ``none``; or None: the scheduler's
    rendezvous_seconds: float = 300.0  # how long nodes wait for each other

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
        return words + ["--share node"] * self.share

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
