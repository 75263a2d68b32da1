"""``dataprep stage``: elect one copier a node, and let the copiers of all nodes work together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

from dataprep.errors import DataprepError
from dataprep.filesystems import filesystem_of, is_network
from dataprep.staging.broadcast import mpi
from dataprep.staging.broadcast.files import MOST_LANES, broadcast_files
from dataprep.staging.copier import Transfer, run_copier
from dataprep.staging.copying.files import copy_files, default_streams
from dataprep.staging.copying.watch import Watch
from dataprep.staging.copying.writing import Landed
from dataprep.staging.errand import Errand, make_errand
from dataprep.staging.inventory import SourceFile, read_inventory
from dataprep.staging.local_ranks import LocalRanks
from dataprep.staging.nodes.meeting import check_meeting, connected
from dataprep.staging.nodes.peers import Alone, Peers
from dataprep.staging.nodes.placement import Placement, find_placement
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.env_file import environment, write_environment
from dataprep.staging.target.node_lock import NodeLock, node_lock
from dataprep.staging.target.outcome import Outcome
from dataprep.staging.where import staged_place
from dataprep.wording import sized


def stage(request: StageRequest, reporter: StageReporter) -> Path:
    """Make the copy on this node whole, or wait until another process here has done so.

    Every process of a launch may call this; it returns or raises in all of them.

    Returns:
        The directory with the copy.

    Raises:
        DataprepError: the copy could not be made here; or, as far as the nodes can talk with
            each other, not on another node.
    """
    placement = find_placement(rank=request.rank, world_size=request.world_size)
    check_meeting(request, placement)
    reason = mpi.unavailable() if request.broadcast else ""
    if reason is None:
        place = _stage_by_broadcast(request, placement, reporter)
    else:
        if reason and placement.node == placement.local_rank == 0:
            reporter.line(f"no broadcast: {reason}; every node reads the files itself")
        place = _stage_by_reading(request, placement, reporter)
    if request.env_file is not None:
        _write_variables(request.env_file, request, placement, place)
    return place


def _write_variables(path: Path, request: StageRequest, placement: Placement, place: Path) -> None:
    """One process a node writes the file, or one of all if all see the same file."""
    shared = is_network(filesystem_of(path.absolute()))
    if placement.local_rank == 0 and (placement.node == 0 or not shared):
        write_environment(path, environment(read_inventory(request.source), place))


def _stage_by_reading(request: StageRequest, placement: Placement, reporter: StageReporter) -> Path:
    """Every node reads what it needs from the source."""

    def connect(watch: Watch) -> AbstractContextManager[Peers]:
        return connected(request, placement, watch, reporter)

    try:
        errand = make_errand(request, placement)
        directory = StageDirectory.make(errand.target.path)
    except DataprepError:
        if placement.local_rank == 0:
            # The other nodes must not wait for this one; whether they can be told or not, it ends.
            with suppress(DataprepError), connect(Watch()):
                raise
        raise
    with directory:
        ranks = LocalRanks(directory, errand)
        with node_lock(
            directory,
            patience=request.patience,
            done=lambda: ranks.outcome() is not None,
            on_wait=reporter.line,
        ) as lock:
            if lock is None:
                _follow(ranks.outcome())
                return errand.target.path
            watch = Watch(_Progress(lock, reporter if placement.node == 0 else None))
            with (
                ranks.told_the_outcome() as on_whole,
                Alone(placement.node) if ranks.is_mending() else connect(watch) as peers,
            ):
                transfer = _reading(errand, directory)
                run_copier(errand, directory, peers, transfer, watch, reporter, on_whole)
    return errand.target.path


def _stage_by_broadcast(
    request: StageRequest, placement: Placement, reporter: StageReporter
) -> Path:
    """Every byte is read once, and sent to all nodes."""
    try:
        place = staged_place(request.source, request.to, shared=request.shared)
    except DataprepError:
        with mpi.join(None):  # so that all others hear why
            raise
    with mpi.join(place) as peers:
        if isinstance(peers, mpi.MpiWaiter):
            peers.wait()
            return place
        errand = make_errand(
            request, replace(placement, node=peers.index, nodes=peers.count, doubt=None)
        )
        with (
            StageDirectory.make(errand.target.path) as directory,
            node_lock(directory, patience=request.patience, on_wait=reporter.line) as lock,
        ):
            assert lock is not None  # noqa: S101  # nothing but the lock was waited for
            watch = Watch(_Progress(lock, reporter if peers.index == 0 else None))
            transfer = _broadcasting(errand, directory, peers)
            run_copier(errand, directory, peers, transfer, watch, reporter, lambda: None)
    return place


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
            errand.selection.files,
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


def _follow(outcome: Outcome | None) -> None:
    """End as the process has ended that did the work."""
    if outcome is not None and not outcome.ok:
        raise outcome.error()


class _Progress:
    """Signs of life for the processes of this node that wait, and the first node's bar."""

    def __init__(self, lock: NodeLock, reporter: StageReporter | None) -> None:
        self._lock = lock
        self._reporter = reporter
        self._turn = threading.Lock()
        self._done = 0

    def __call__(self, count: int) -> None:
        with self._turn:
            self._done += count
            self._lock.note(f"{sized(self._done)} copied")
            if self._reporter is not None:
                self._reporter.advance(count)
