"""``dataprep stage``: elect one copier a node, and let the copiers of all nodes work together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.staging import mpi
from dataprep.staging.broadcast import MOST_LANES, broadcast_files
from dataprep.staging.copier import Transfer, run_copier
from dataprep.staging.copying.files import copy_files, default_streams
from dataprep.staging.copying.watch import Watch
from dataprep.staging.env_file import environment, write_environment
from dataprep.staging.errand import Errand, find_place, make_errand, share_of
from dataprep.staging.inventory import SourceFile
from dataprep.staging.labels import copied_files
from dataprep.staging.landed import Landed
from dataprep.staging.local_ranks import LocalRanks
from dataprep.staging.nodes.agreement import Alone, Peers
from dataprep.staging.nodes.placement import Placement, find_placement
from dataprep.staging.nodes.rendezvous import check_meeting, connected
from dataprep.staging.progress import Progress
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.target.directory import StageDirectory
from dataprep.system.filesystems import filesystem_of, is_network


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
    check_meeting(request, placement)
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
        return connected(request, placement, watch, reporter)

    errand: Errand | None = None
    try:
        place = find_place(request, placement).path
        if placement.step is None:
            # Alone here, it looks at the source before it makes anything; of a launch's many
            # processes only the one that is elected does.
            errand = make_errand(request, placement)
        directory = StageDirectory.make(place)
    except DataprepError:
        if placement.local_rank == 0:
            # The other nodes must not wait for this one; whether they can be told or not, it ends.
            with suppress(DataprepError), connect(Watch()):
                raise
        raise
    with directory:
        ranks = LocalRanks(directory, request, placement)
        progress = Progress(reporter if placement.node == 0 else None)
        quiet = placement.node != 0  # thousands of processes need not say that they wait
        with ranks.election(progress, _say_nothing if quiet else reporter.line) as elected:
            if not elected:
                ranks.follow()
                return place
            watch = Watch(progress)
            with (
                ranks.told_the_outcome() as tell,
                Alone(placement.node, placement.nodes)
                if ranks.is_mending()
                else connect(watch) as peers,
            ):
                errand = errand or make_errand(request, placement)
                on_whole = partial(_finish, errand, tell)
                transfer = _reading(errand, directory)
                run_copier(errand, directory, peers, transfer, watch, reporter, progress, on_whole)
    return place


def _stage_by_broadcast(
    request: StageRequest, placement: Placement, reporter: StageReporter
) -> Path:
    """Every byte is read once, and sent to all nodes."""
    try:
        place = find_place(request, placement).path
    except DataprepError:
        with mpi.join(None):  # so that all others hear why
            raise
    with mpi.join(place) as peers, StageDirectory.make(place) as directory:
        errand = make_errand(
            request, replace(placement, node=peers.index, nodes=peers.count, doubt=None)
        )
        progress = Progress(reporter if peers.index == 0 else None)
        watch = Watch(progress)
        run_copier(
            errand,
            directory,
            peers,
            _broadcasting(errand, directory, peers),
            watch,
            reporter,
            progress,
            lambda: _write_variables(errand),
        )
    return place


def _finish(errand: Errand, tell: Callable[[], None]) -> None:
    _write_variables(errand)
    tell()


def _say_nothing(text: str) -> None:
    """For a reporter of what nobody needs to hear."""


def _write_variables(errand: Errand) -> None:
    """Once a node, or once in all if all nodes see the same file."""
    path = errand.request.env_file
    if path is None:
        return
    if errand.placement.node == 0 or not is_network(filesystem_of(path.absolute())):
        write_environment(path, environment(errand.inventory, errand.target.path))


def _reading(errand: Errand, directory: StageDirectory) -> Transfer:
    request = errand.request

    def transfer(
        files: Sequence[SourceFile], watch: Watch, on_landed: Callable[[Landed], None]
    ) -> None:
        copy_files(
            errand.inventory.source,
            files,
            directory.descriptor,
            verify=request.verify,
            hashed=request.hashed,
            streams=request.streams or default_streams(),
            watch=watch,
            on_landed=on_landed,
            bandwidth=request.bandwidth,
            node=errand.placement.node,
        )

    return transfer


def _broadcasting(errand: Errand, directory: StageDirectory, peers: mpi.MpiPeers) -> Transfer:
    request = errand.request

    def transfer(
        files: Sequence[SourceFile], watch: Watch, on_landed: Callable[[Landed], None]
    ) -> None:
        broadcast_files(
            peers,
            errand.inventory.source,
            copied_files(errand),
            directory.descriptor,
            lacking={file.path for file in files},
            verify=request.verify,
            hashed=request.hashed,
            streams=request.streams or MOST_LANES,
            watch=watch,
            on_landed=on_landed,
            bandwidth=request.bandwidth,
        )

    return transfer
