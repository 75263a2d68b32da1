"""How the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

import hashlib
import json
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
from dataprep.staging.target.sentinel import read_sentinel
from dataprep.system.messages import sized
from dataprep.system.state_files import to_json

_OUTCOME = "outcome"
_LAUNCH = "launch"  # of the locks that say who does the work for one launch
_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the copier of a launch fared on this node.

    Attributes:
        error: why there is no copy, in one line; None if there is one.
        exit_code: of the copier's process.
        time: when it was told, in seconds since the epoch, by this node's clock.
    """

    error: str | None = None
    exit_code: int = 0
    time: float = field(default_factory=time.time, compare=False)

    @classmethod
    def of(cls, error: Exception) -> Outcome:
        """That of a copier that ended with an error, expected or not."""
        line = " ".join(str(error).split()) or type(error).__name__
        return cls(line, getattr(error, "exit_code", StagingError.exit_code))

    def check(self) -> None:
        """Raise the copier's failure, if it failed, with the same exit code where it has one."""
        if self.error is not None:
            kinds = {kind.exit_code: kind for kind in (NoRoomError, UsageError)}
            raise kinds.get(self.exit_code, StagingError)(self.error)


def write_outcome(directory: StageDirectory, launch: str, outcome: Outcome) -> None:
    """Tell the other processes of a launch.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    directory.write_private(private_name(_OUTCOME, launch), to_json(asdict(outcome)))


def read_outcome(directory: StageDirectory, launch: str, since: float = 0.0) -> Outcome | None:
    """What the copier of a launch has told; None if nothing.

    Failures that were told before ``since`` do not count: they are of a call before this one, which
    is to try again.
    """
    try:
        said = json.loads(directory.read_private(private_name(_OUTCOME, launch)) or b"null")
        outcome = Outcome(**said)
    except (ValueError, TypeError):
        return None
    return outcome if outcome.error is None or outcome.time >= since else None


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

    def tell(self, lock: NodeLock) -> None:
        """From now on, those who wait for this lock are told too."""
        self._locks.append(lock)

    def __call__(self, count: int) -> None:
        """So many more bytes are done."""
        with self._turn:
            self._done += count
            self._note(f"{sized(self._done)} done")
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


class LocalRanks:
    """One call of ``dataprep stage``, as all processes of its launch on this node see it.

    Where no launcher names its launch, the processes learn nothing from each other: each looks for
    itself what is there.
    """

    def __init__(
        self, directory: StageDirectory, request: StageRequest, placement: Placement
    ) -> None:
        self._directory = directory
        self._since = time.time() - _STAGGER
        self._seen: Outcome | None = None
        self._name: str | None = None
        if placement.step is not None:
            # The same in all processes of a call, without a look at the source.
            call = repr((request.source, request.options)).encode()
            self._name = f"{placement.step}.{hashlib.sha256(call).hexdigest()[:16]}"

    @contextmanager
    def election(
        self, progress: Progress, on_wait: Callable[[str], None]
    ) -> Iterator[Callable[[], None] | None]:
        """Be the one that does the work, or wait until that one is done.

        Args:
            progress: of the one that is elected, for the others.

        Yields:
            If this process is to do the work, what it must call as soon as all is well here; what
            it raises is told to the others. None if the copy is there.

        Raises:
            DataprepError: what the one that did the work has ended with.
        """
        if self._name is None:
            yield lambda: None
            return
        with node_lock(
            self._directory,
            done=self._is_settled,
            on_wait=on_wait,
            name=private_name(_LAUNCH, self._name),
        ) as lock:
            if lock is None:
                if self._seen is not None:
                    self._seen.check()
                yield None
                return
            progress.tell(lock)
            try:
                yield lambda: self._tell(Outcome())
            except Exception as error:
                with suppress(DataprepError):  # what went wrong first is what the user must know
                    self._tell(Outcome.of(error))
                raise

    def _tell(self, outcome: Outcome) -> None:
        if self._name is not None:
            write_outcome(self._directory, self._name, outcome)

    def _is_settled(self) -> bool:
        """Whether another process has done the work.

        Only the failures of this call count, not those of one before it. A success counts as long
        as there is a copy.
        """
        assert self._name is not None  # noqa: S101  # for mypy
        self._seen = read_outcome(self._directory, self._name, self._since)
        is_done = self._seen is not None and self._seen.error is None
        return self._seen is not None and not (is_done and read_sentinel(self._directory) is None)
