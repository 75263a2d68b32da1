"""``dataprep stage``: elect one copier a node, and let the copiers of all nodes work together."""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.staging import mpi
from dataprep.staging.agreement import Peers
from dataprep.staging.copier import Copier
from dataprep.staging.copying import Watch
from dataprep.staging.local_ranks import Progress, election
from dataprep.staging.node_dir.directory import StageDirectory
from dataprep.staging.placement import Placement, find_placement
from dataprep.staging.plan import StagePlan, find_place, make_plan, share_of
from dataprep.staging.rendezvous import connected
from dataprep.staging.request import StageReporter, StageRequest


def stage(request: StageRequest, reporter: StageReporter) -> Path:
    """Make the copy on this node whole, or wait until another process here has done so.

    Every process of a launch may call this.

    Returns:
        The directory with the copy.

    Raises:
        DataprepError: the copy could not be made here; or, as far as the nodes can talk with
            each other, not on another node.
    """
    placement = find_placement(rank=request.rank, world_size=request.world_size)
    share_of(request, placement)  # before anything is made
    reason = mpi.unavailable() if request.broadcast else ""
    if reason is None:
        return _stage_by_broadcast(request, placement, reporter)
    if reason and placement.node == placement.local_rank == 0:
        reporter.line(f"no broadcast: {reason}; every node reads the files itself")
    return _stage_by_reading(request, placement, reporter)


def _stage_by_reading(request: StageRequest, placement: Placement, reporter: StageReporter) -> Path:
    """Every node reads what it needs from the source."""

    def connect(watch: Watch) -> AbstractContextManager[Peers]:
        return connected(request, placement, watch.stop, reporter)

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
            with suppress(DataprepError), connect(Watch()):
                raise
        raise
    with directory:
        progress = Progress(reporter if placement.node == 0 else None)
        quiet = placement.node != 0  # thousands of processes need not say that they wait
        on_wait = (lambda _: None) if quiet else reporter.line
        with election(directory, request, placement, progress, on_wait) as tell:
            if tell is not None:
                watch = Watch(progress)
                with connect(watch) as peers:
                    plan = plan or make_plan(request, placement)
                    Copier(plan, directory, peers, watch, reporter, progress).run(tell)
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
            Copier(plan, directory, peers, Watch(progress), reporter, progress).run()
            directory.check_current()
    return place
