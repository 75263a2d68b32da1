"""``dataprep stage``: elect one copier a node, and let the copiers of all nodes work together."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from dataprep.errors import DataprepError, StagingError
from dataprep.staging import mpi
from dataprep.staging.agreement import Alone, Peers
from dataprep.staging.broadcast import MOST_LANES, broadcast_files
from dataprep.staging.copier import Transfer, run_copier
from dataprep.staging.copying import Watch, copy_files, default_streams, read_files
from dataprep.staging.inventory import Inventory, SourceFile, read_inventory
from dataprep.staging.local_ranks import LocalRanks, Progress
from dataprep.staging.placement import Placement, find_placement
from dataprep.staging.plan import StagePlan, find_place, make_plan, share_of
from dataprep.staging.present import copied_files
from dataprep.staging.rendezvous import check_meeting, connected
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.selection import select
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.paths import CopiedFile
from dataprep.system.durable_files import write_durably
from dataprep.system.filesystems import filesystem_of, is_network
from dataprep.system.memory import available
from dataprep.system.messages import counted, printable, sized


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
        ranks = LocalRanks(directory, request, placement)
        progress = Progress(reporter if placement.node == 0 else None)
        quiet = placement.node != 0  # thousands of processes need not say that they wait
        with ranks.election(progress, (lambda _: None) if quiet else reporter.line) as elected:
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
                plan = plan or make_plan(request, placement)
                on_whole = partial(_finish, plan, tell)
                transfer = _reading(plan, directory)
                run_copier(plan, directory, peers, transfer, watch, reporter, progress, on_whole)
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
        plan = make_plan(
            request, replace(placement, node=peers.index, nodes=peers.count, doubt=None)
        )
        progress = Progress(reporter if peers.index == 0 else None)
        watch = Watch(progress)
        run_copier(
            plan,
            directory,
            peers,
            _broadcasting(plan, directory, peers),
            watch,
            reporter,
            progress,
            lambda: _write_variables(plan),
        )
    return place


def _finish(plan: StagePlan, tell: Callable[[], None]) -> None:
    _write_variables(plan)
    tell()


def _write_variables(plan: StagePlan) -> None:
    """Once a node, or once in all if all nodes see the same file."""
    path = plan.request.env_file
    if path is None:
        return
    if plan.placement.node == 0 or not is_network(filesystem_of(path.absolute())):
        write_environment(path, environment(plan.inventory, plan.target.path))


def write_environment(path: Path, variables: Mapping[str, str]) -> None:
    """Write ``export NAME=VALUE`` for each, whole or not at all; any number of nodes may at once.

    Raises:
        StagingError: it cannot be written.
    """
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    try:
        write_durably(path, os.fsencode("".join(lines)))
    except OSError as error:
        raise StagingError(
            f"--env_file {printable(str(path))} cannot be written: {error.strerror or error}; "
            "the copy itself is whole"
        ) from error


def environment(inventory: Inventory, target: Path) -> dict[str, str]:
    """Variables that tell a training where its copy is, the same on every node of a job.

    HDF5 locks files that it reads, which file systems refuse and nobody needs for a finished set.
    """
    found = {
        "DATA_DIR": str(target),
        "DATAPREP_SOURCE": str(inventory.source),
        "DATAPREP_DIGEST": inventory.digest,
    }
    if inventory.manifest and inventory.manifest["sink"]["name"].startswith("hdf5"):
        found["HDF5_USE_FILE_LOCKING"] = "FALSE"
    return found


def _reading(plan: StagePlan, directory: StageDirectory) -> Transfer:
    request = plan.request

    def transfer(
        files: Sequence[SourceFile], watch: Watch, on_copied: Callable[[CopiedFile], None]
    ) -> None:
        copy_files(
            plan.inventory.source,
            files,
            directory.descriptor,
            verify=request.verify,
            hashed=request.hashed,
            streams=request.streams or default_streams(),
            watch=watch,
            on_copied=on_copied,
            bandwidth=request.bandwidth,
            node=plan.placement.node,
        )

    return transfer


def _broadcasting(plan: StagePlan, directory: StageDirectory, peers: mpi.MpiPeers) -> Transfer:
    request = plan.request

    def transfer(
        files: Sequence[SourceFile], watch: Watch, on_copied: Callable[[CopiedFile], None]
    ) -> None:
        broadcast_files(
            peers,
            plan.inventory.source,
            copied_files(plan),
            directory.descriptor,
            lacking={file.path for file in files},
            verify=request.verify,
            hashed=request.hashed,
            streams=request.streams or MOST_LANES,
            watch=watch,
            on_landed=on_copied,
            bandwidth=request.bandwidth,
        )

    return transfer


def warm(request: StageRequest, reporter: StageReporter) -> None:
    """Read what this node would be given, once; the first process of a node does it.

    Raises:
        UsageError: options that cannot be together.
        StagingError: it does not fit into memory, so that the first would be forgotten before the
            last is read; a file is not what it should be.
    """
    placement = find_placement(rank=request.rank, world_size=request.world_size)
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits, share=share_of(request, placement))
    if placement.local_rank != 0:
        return
    room = available()
    if selection.bytes > room:
        raise StagingError(
            f"{printable(str(request.source))}: {sized(selection.bytes)} do not fit into the "
            f"{sized(room)} of memory that this node has available; warm fewer splits, ask for "
            "more memory, or stage to a disk (--to)"
        )
    started = time.monotonic()
    reporter.copying(len(selection.files), selection.bytes)
    try:
        read_files(
            request.source,
            selection.files,
            streams=request.streams or default_streams(),
            watch=Watch(reporter.advance),
            verify=request.verify,
            bandwidth=request.bandwidth,
            node=placement.node,
        )
    finally:
        reporter.finished()
    seconds = max(time.monotonic() - started, 1e-3)
    reporter.line(
        f"{placement.host}: {counted(len(selection.files), 'file')}, {sized(selection.bytes)} read "
        f"in {seconds:.1f} s, {selection.bytes / seconds / 1e9:.2f} GB/s; in the page cache"
    )
