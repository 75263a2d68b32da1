"""How the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.node_dir.directory import StageDirectory, private_name
from dataprep.staging.node_dir.node_lock import NodeLock, node_lock
from dataprep.staging.node_dir.sentinel import read_sentinel
from dataprep.staging.placement import Placement
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.system.messages import one_line, sized
from dataprep_schemas.state import Outcome

_OUTCOME = "outcome"
_LAUNCH = "launch"  # of the locks that say who does the work for one launch
_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


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


@contextmanager
def election(
    directory: StageDirectory,
    request: StageRequest,
    placement: Placement,
    progress: Progress,
    on_wait: Callable[[str], None],
) -> Iterator[Callable[[], None] | None]:
    """Be the one process of a launch on this node that does the work, or wait until it is done.

    Where no launcher names its launch, the processes learn nothing from each other: each looks for
    itself what is there.

    Args:
        progress: of the one that is elected, for the others.

    Yields:
        If this process is to do the work, what it must call as soon as all is well here; what
        it raises is told to the others. None if the copy is there.

    Raises:
        DataprepError: what the one that did the work has ended with.
    """
    if placement.step is None:
        yield lambda: None
        return
    # The same in all processes of a call, without a look at the source.
    call = repr((request.source, request.options)).encode()
    launch = f"{placement.step}.{hashlib.sha256(call).hexdigest()[:16]}"
    told, since = private_name(_OUTCOME, launch), time.time() - _STAGGER
    seen: Outcome | None = None

    def is_settled() -> bool:
        """Only failures of this call count; a success does as long as there is a copy."""
        nonlocal seen
        seen = directory.read_private(told, Outcome)
        if seen is None or seen.error is None:
            return seen is not None and read_sentinel(directory) is not None
        return seen.time >= since

    def tell(error: Exception | None = None) -> None:
        outcome = Outcome(time=time.time())
        if error is not None:
            line = one_line(" ".join(str(error).split())) or type(error).__name__
            code = getattr(error, "exit_code", StagingError.exit_code)
            outcome = Outcome(error=line, exit_code=code, time=outcome.time)
        directory.write_private(told, outcome)

    name = private_name(_LAUNCH, launch)
    with node_lock(directory, done=is_settled, on_wait=on_wait, name=name) as lock:
        if lock is None:
            if seen is not None and seen.error is not None:
                kinds = {kind.exit_code: kind for kind in (NoRoomError, UsageError)}
                raise kinds.get(seen.exit_code, StagingError)(seen.error)
            yield None
            return
        progress.tell(lock)
        try:
            yield tell
        except Exception as error:
            with suppress(DataprepError):  # what went wrong first is what the user must know
                tell(error)
            raise
