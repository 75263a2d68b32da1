"""``dataprep stage``: elect one copier a node, and let the copiers of all nodes work together."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging import mpi
from dataprep.staging.agreement import Alone, Peers, named
from dataprep.staging.copier import Copier
from dataprep.staging.directory import StageDirectory, private_name
from dataprep.staging.node_lock import node_lock
from dataprep.staging.placement import Placement, find_placement
from dataprep.staging.plan import StagePlan, find_place, make_plan, share_of
from dataprep.staging.rendezvous import connected
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.sentinel import changed_files, has_lease, read_sentinel
from dataprep.staging.writing import Progress
from dataprep.system.messages import printable
from dataprep_schemas.state import Outcome

_OUTCOME = "outcome"
_LAUNCH = "launch"  # of the locks that say who does the work for one launch
_NAMES_A_NODE = re.compile(r"\bnode \d+ \(")
_TELLING = 2.0  # seconds for the first process of a node to tell the other nodes
_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


def stage(request: StageRequest, reporter: StageReporter) -> Path:
    """Make the copy on this node whole, or wait until another process here has done so.

    Every process of a launch may call this.

    Returns:
        The directory with the copy.

    Raises:
        DataprepError: the copy could not be made here; or, as far as the nodes can talk with
            each other, not on another node.
    """
    placement = find_placement()
    try:
        return _staged(request, placement, reporter)
    except StagingError as error:
        if placement.nodes == 1 or _NAMES_A_NODE.search(str(error)):
            raise
        me = named(placement.node, placement.host)
        raise type(error)(f"{me}: {error}") from error


def _staged(request: StageRequest, placement: Placement, reporter: StageReporter) -> Path:
    share_of(request, placement)  # before anything is made
    reason = mpi.unavailable() if request.broadcast else ""
    if reason is None:
        return _stage_by_broadcast(request, placement, reporter)
    if reason and placement.node == placement.local_rank == 0:
        reporter.line(f"no broadcast: {reason}; every node reads the files itself")
    return _stage_by_reading(request, placement, reporter)


def _stage_by_reading(request: StageRequest, placement: Placement, reporter: StageReporter) -> Path:
    """Every node reads what it needs from the source."""

    def connect(progress: Progress) -> AbstractContextManager[Peers]:
        return connected(request, placement, progress.stop, reporter)

    plan: StagePlan | None = None
    try:
        place = find_place(request, placement).path
        if placement.step is None:
            # Alone here, it looks at the source before it makes anything; of a launch's many
            # processes only the one that is elected does.
            plan = make_plan(request, placement)
        directory = StageDirectory.make(place)
    except DataprepError:
        if placement.local_rank == 0:
            # The other nodes must not wait for this one; whether they can be told or not, it ends.
            with suppress(DataprepError), connect(Progress()):
                raise
        elif placement.nodes > 1:
            time.sleep(_TELLING)  # the first to end may be the end of all
        raise
    with directory:
        progress = Progress(reporter if placement.node == 0 else None)
        on_wait = _on_wait(reporter, placement.node)
        with elected(directory, request, placement, on_wait) as turn:
            if turn is not None:
                alone = Alone(placement.node, placement.nodes)
                with alone if turn.again else connect(progress) as peers:
                    plan = plan or make_plan(request, placement)
                    Copier(plan, directory, peers, progress, reporter, on_wait).run(turn.tell)
        directory.check_current()  # other nodes may have been waited for
    return place


def _stage_by_broadcast(
    request: StageRequest, placement: Placement, reporter: StageReporter
) -> Path:
    """Every byte is read once, and sent to all nodes."""
    with mpi.join() as peers:
        place = find_place(request, placement).path
        with StageDirectory.make(place) as directory:
            plan = make_plan(
                request, replace(placement, node=peers.index, nodes=peers.count, doubt=None)
            )
            progress = Progress(reporter if peers.index == 0 else None)
            on_wait = _on_wait(reporter, peers.index)
            Copier(plan, directory, peers, progress, reporter, on_wait).run()
            directory.check_current()
    return place


def _on_wait(reporter: StageReporter, node: int) -> Callable[[str], None]:
    """Only the first node says that it waits: thousands of processes need not."""
    return reporter.line if node == 0 else lambda _: None


class Turn(NamedTuple):
    """That this process is to do the work."""

    # To be called as soon as all is well here; what is raised is told to the others.
    tell: Callable[[], None]
    # Whether this call has made the copy before, which is still there: the other nodes may
    # have nothing to do any more, and are not met.
    again: bool


@contextmanager
def elected(
    directory: StageDirectory,
    request: StageRequest,
    placement: Placement,
    on_wait: Callable[[str], None],
) -> Iterator[Turn | None]:
    """Be the one process of a launch on this node that does the work, or wait until it is done.

    Where no launcher names its launch, the processes learn nothing from each other: each looks for
    itself what is there. A shell in a step repeats calls, too: after a while, nobody tells them
    from those of one launch.

    Yields:
        The turn, if this process is to do the work; None if the copy is there.

    Raises:
        DataprepError: what the one that did the work has ended with.
    """
    if placement.step is None:
        yield Turn(lambda: None, again=False)
        return
    launch = _Launch(directory, request, placement)
    with node_lock(directory, done=launch.look, on_wait=on_wait, name=launch.lock) as held:
        if not held:
            launch.reraise()
            yield None
            return
        try:
            yield Turn(launch.tell, again=launch.has_copied())
        except BaseException as error:
            with suppress(DataprepError):  # what went wrong first is what the user must know
                launch.tell(error)
            raise


class _Launch:
    """What the processes of one launch on this node tell each other of one call."""

    def __init__(
        self, directory: StageDirectory, request: StageRequest, placement: Placement
    ) -> None:
        # The same in all processes of a call, without a look at the source.
        call = repr((request.source, request.options)).encode()
        name = f"{placement.step}.{hashlib.sha256(call).hexdigest()[:16]}"
        self.lock = private_name(_LAUNCH, name)
        self._told, self._since = private_name(_OUTCOME, name), time.time() - _STAGGER
        self._directory = directory
        self._user = placement.job if request.shared else None
        self._ended: Outcome | None = None

    def look(self) -> bool:
        """Whether another process has ended the call: with an error, or a copy that is there."""
        seen = self._directory.read_private(self._told, Outcome)
        if seen and (seen.time < self._since or (seen.error is None and not self._is_there())):
            seen = None
        self._ended = seen
        return seen is not None

    def reraise(self) -> None:
        """Raise what the call has ended with there, if that was an error."""
        if self._ended is not None and self._ended.error is not None:
            kinds = {kind.exit_code: kind for kind in (NoRoomError, UsageError)}
            raise kinds.get(self._ended.exit_code, StagingError)(self._ended.error)

    def has_copied(self) -> bool:
        """Whether this call has made the copy before, and it is still there."""
        before = self._directory.read_private(self._told, Outcome)
        made = before is not None and before.error is None
        return made and read_sentinel(self._directory) is not None

    def tell(self, error: BaseException | None = None) -> None:
        """Tell the others how the call has ended here."""
        outcome = Outcome(time=time.time())
        if error is not None:
            line = printable(" ".join(str(error).split())) or type(error).__name__
            code = getattr(error, "exit_code", StagingError.exit_code)
            outcome = Outcome(error=line, exit_code=code, time=outcome.time)
        self._directory.write_private(self._told, outcome)

    def _is_there(self) -> bool:
        """Whether the copy is as it was made, and this job's to use."""
        sentinel = read_sentinel(self._directory)
        used = self._user is None or has_lease(self._directory, self._user)
        return sentinel is not None and used and not changed_files(self._directory, sentinel.files)
