"""How the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.placement import Placement
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.staging.target.node_lock import NodeLock, node_lock
from dataprep.staging.target.sentinel import changed_files, read_sentinel
from dataprep.system.messages import sized
from dataprep.system.state_files import to_json

_OUTCOME = "outcome"
_KEPT = 8  # of other steps, which may run side by side in one directory
_BY_CODE: dict[int, type[DataprepError]] = {
    NoRoomError.exit_code: NoRoomError,
    UsageError.exit_code: UsageError,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the copier of a step fared.

    Attributes:
        ok: whether the copy is there.
        message: why not; what the copier told the user, one line.
        exit_code: of the copier's process.
        time: when it was told, in seconds since the epoch, by this node's clock.
    """

    ok: bool
    message: str = ""
    exit_code: int = 0
    time: float = field(default_factory=time.time, compare=False)

    def error(self) -> DataprepError:
        """The copier's failure, for another rank to raise: the same exit code where it has one."""
        return _BY_CODE.get(self.exit_code, StagingError)(self.message)


def failed(error: Exception) -> Outcome:
    """The outcome of a copier that ended with an error, expected or not."""
    message = str(error) or type(error).__name__
    code = getattr(error, "exit_code", StagingError.exit_code)
    return Outcome(ok=False, message=" ".join(message.split()), exit_code=code)


def write_outcome(directory: StageDirectory, step: str, outcome: Outcome) -> None:
    """Tell the other ranks of a step; the outcomes of long gone steps are removed.

    Args:
        directory: the target.
        step: `Placement.step`.
        outcome: how it went.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    name = private_name(_OUTCOME, step)
    remove_old(directory, _OUTCOME, name)
    directory.write_private(name, to_json(asdict(outcome)))


def read_outcome(directory: StageDirectory, step: str, since: float = 0.0) -> Outcome | None:
    """What the copier of a step has told.

    Args:
        directory: the target.
        step: `Placement.step`, or what else the processes that wait have in common.
        since: failures that were told earlier, in seconds since the epoch, do not count: they are
            of a call before this one, which is to try again.

    Returns:
        The outcome; None if there is none, or nothing that makes sense.
    """
    try:
        said = json.loads(directory.read_private(private_name(_OUTCOME, step)) or b"null")
        outcome = Outcome(**said)
        counts = outcome.ok or outcome.time >= since
    except (ValueError, TypeError):
        return None
    return outcome if counts else None


def remove_old(directory: StageDirectory, kind: str, name: str) -> None:
    """Remove what long gone steps have left of a kind, but for ``name`` and the last few."""
    ages: list[tuple[int, str]] = []
    for other in directory.private_names(kind):
        try:
            status = os.stat(other, dir_fd=directory.private, follow_symlinks=False)
        except FileNotFoundError:  # another step removed it
            continue
        if other != name:
            ages.append((status.st_mtime_ns, other))
    for _, other in sorted(ages)[:-_KEPT]:
        directory.remove_private(other)


class Progress:
    """What a node's copier tells while it works. Safe between threads.

    Args:
        reporter: told of every byte; None on all nodes but the first.
    """

    def __init__(self, reporter: StageReporter | None) -> None:
        self._reporter = reporter
        self._locks: list[NodeLock] = []
        self._turn = threading.Lock()
        self._done = 0
        self._steps = 0

    def tell(self, lock: NodeLock) -> None:
        """From now on, those who wait for this lock are told too."""
        self._locks.append(lock)

    def __call__(self, count: int) -> None:
        """So many more bytes are done; of 0, something else has gone on."""
        with self._turn:
            self._done += count
            self._steps += 1
            # With the count, since a terabyte's text changes only every 100 GB.
            self._note(f"{sized(self._done)} done, piece {self._steps:,}")
            if self._reporter is not None:
                self._reporter.advance(count)

    def waiting(self, text: str) -> None:
        """What this node waits for, and how far that is."""
        with self._turn:
            self._note(text)
            if self._reporter is not None:
                self._reporter.line(text)

    def _note(self, text: str) -> None:
        for lock in self._locks:
            lock.note(text)


_LAUNCH = "launch"  # of the locks that say who does the work for one launch
_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


class LocalRanks:
    """One call of ``dataprep stage``, as all processes of its launch on this node see it.

    Where no launcher names its launch, the processes learn nothing from each other: each looks for
    itself what is there.

    Args:
        directory: the target.
        request: the call.
        placement: names the launch.
    """

    def __init__(
        self, directory: StageDirectory, request: StageRequest, placement: Placement
    ) -> None:
        self._directory = directory
        self._name = _call_name(request, placement)
        self._patience = request.patience + request.rendezvous_seconds
        self._since = time.time() - _STAGGER
        self._seen: Outcome | None = None

    @contextmanager
    def election(self, progress: Progress, on_wait: Callable[[str], None]) -> Iterator[bool]:
        """Be the one that does the work, or wait until that one is done.

        Args:
            progress: of the one that is elected, for the others.
            on_wait: told now and then who is waited for.

        Yields:
            Whether this process is to do the work; if not, see `follow`.

        Raises:
            StagingError: the one that does the work shows no sign of life.
        """
        if self._name is None:
            yield True
            return
        name = private_name(_LAUNCH, self._name)
        remove_old(self._directory, _LAUNCH, name)
        with node_lock(
            self._directory,
            patience=self._patience,
            done=self._is_settled,
            on_wait=on_wait,
            name=name,
        ) as lock:
            if lock is not None:
                progress.tell(lock)
            yield lock is not None

    def follow(self) -> None:
        """End as the process has ended that did the work."""
        if self._seen is not None and not self._seen.ok:
            raise self._seen.error()

    def is_mending(self) -> bool:
        """Whether this call was done once, so that other nodes do not wait for this one."""
        told = self._told()
        return told is not None and told.ok

    @contextmanager
    def told_the_outcome(self) -> Iterator[Callable[[], None]]:
        """Tell the other processes how it ends.

        Yields:
            What is to be called as soon as all is well here.
        """
        name = self._name
        if name is None:
            yield lambda: None
            return
        try:
            yield lambda: write_outcome(self._directory, name, Outcome(ok=True))
        except Exception as error:
            with suppress(DataprepError):  # what went wrong first is what the user must know
                write_outcome(self._directory, name, failed(error))
            raise

    def _is_settled(self) -> bool:
        """Whether another process has done the work.

        Only the failures of this call count, not those of one before it. A success counts as long
        as the copy is as it was left.
        """
        self._seen = self._told()
        if self._seen is not None and self._seen.ok and not self._is_intact():
            self._seen = None
        return self._seen is not None

    def _told(self) -> Outcome | None:
        return (self._name and read_outcome(self._directory, self._name, self._since)) or None

    def _is_intact(self) -> bool:
        sentinel = read_sentinel(self._directory)
        return sentinel is not None and not changed_files(self._directory, sentinel.files)


def _call_name(request: StageRequest, placement: Placement) -> str | None:
    """The same in all processes of a call, without a look at the source; None if nothing is."""
    if placement.step is None:
        return None
    digest = hashlib.sha256(repr((request.source, request.options)).encode()).hexdigest()
    return f"{placement.step}.{digest[:16]}"
