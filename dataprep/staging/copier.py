"""What the one copier of a node does, once it holds the lock and knows the other nodes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from dataprep.build.workspace import foreign_files
from dataprep.errors import StagingError
from dataprep.staging.agreement import (
    Alone,
    NodeDone,
    NodeStart,
    Peers,
    agree_to_finish,
    agree_to_start,
)
from dataprep.staging.copying import Watch, default_streams, rehash_files
from dataprep.staging.inventory import SourceFile
from dataprep.staging.local_ranks import Progress
from dataprep.staging.plan import StagePlan
from dataprep.staging.present import (
    LABELS,
    Present,
    claim,
    find_present,
    is_current,
    labels_here,
    remove_labels,
    write_labels,
)
from dataprep.staging.request import StageReporter
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.node_lock import node_lock, try_lock
from dataprep.staging.target.paths import (
    CopiedFile,
    opened_parent,
    remove_empty_folders,
    remove_partials,
    target_error,
)
from dataprep.staging.target.sentinel import (
    PLANNED,
    SENTINEL,
    Planned,
    Sentinel,
    planned_paths,
    remove_sentinel,
    write_planned,
    write_sentinel,
)
from dataprep.system.filesystems import is_memory, space_of
from dataprep.system.memory import available
from dataprep.system.messages import counted, printable, sized
from dataprep.system.state_files import to_json

# Brings files into the target: copies them from the source, or takes part in a broadcast.
Transfer = Callable[[Sequence[SourceFile], Watch, Callable[[CopiedFile], None]], None]

_MARGIN = 1 << 20  # for directories, the sentinel and the like


def run_copier(
    plan: StagePlan,
    directory: StageDirectory,
    peers: Peers,
    transfer: Transfer,
    watch: Watch,
    reporter: StageReporter,
    progress: Progress,
    on_whole: Callable[[], None],
) -> None:
    """Make this node's copy whole, and wait until those of the other nodes are.

    No other node is waited for while the target is locked, or two jobs could wait for each other.
    In a broadcast all nodes work at a time, so there a job that finds another one at work waits
    for it no longer than ``--patience``.

    Args:
        plan: what is to be where.
        directory: the target.
        peers: the other nodes.
        transfer: brings the files that are lacking.
        watch: stops everything when another node fails.
        reporter: told how it goes.
        progress: told what is waited for.
        on_whole: called when this node's copy is whole; others may not be yet.

    Raises:
        NoRoomError: a node has too little space; nothing was copied on any node.
        StagingError: a copy could not be made here or on another node.
    """
    with try_lock(directory) as free:
        if free is not None:
            _sweep(plan, directory)  # what it takes is about to be counted
    _agree(plan, directory, _look(plan, directory), peers)
    if peers.index == 0:
        for line in _announcement(plan):
            reporter.line(line)
    patience = plan.request.patience
    with node_lock(directory, patience=patience, on_wait=progress.waiting) as lock:
        assert lock is not None  # noqa: S101  # nothing but the lock was waited for
        progress.tell(lock)
        started = time.monotonic()
        done = _make_whole(plan, directory, peers, transfer, watch, reporter, started)
    on_whole()
    lines, trouble = peers.exchange(asdict(done), agree_to_finish)
    if trouble:
        remove_sentinel(directory)  # nobody knows whose bytes are the right ones
        remove_labels(plan, directory)
        raise StagingError(trouble)
    if peers.index == 0 or isinstance(peers, Alone):
        for line in lines:
            reporter.line(line)


@dataclass(frozen=True, slots=True)
class _View:
    """What is in the target before anything is changed."""

    sentinel: Sentinel | None
    planned: frozenset[str]
    present: Present


def _look(plan: StagePlan, directory: StageDirectory) -> _View:
    sentinel = claim(plan, directory)
    planned = planned_paths(directory)
    manifest = plan.inventory.manifest
    if manifest is not None:
        ours = {*planned, *(file.path for file in plan.selection.files)}
        known = {directory.path / path for path in ours}
        for path in foreign_files(manifest["splits"], known):
            raise StagingError(
                f"{printable(str(path))} is not of this data set, but readers would take it in; "
                "move it away, or stage into another directory (--to)"
            )
    return _View(sentinel, planned, find_present(plan, directory, sentinel, planned))


def _sweep(plan: StagePlan, directory: StageDirectory) -> None:
    """Remove what killed copiers have left half-done; the lock must be held."""
    names = {*planned_paths(directory), *(file.path for file in plan.selection.files)}
    directory.remove_unfinished((PLANNED, SENTINEL))
    remove_partials(directory.descriptor, names)


def _make_whole(
    plan: StagePlan,
    directory: StageDirectory,
    peers: Peers,
    transfer: Transfer,
    watch: Watch,
    reporter: StageReporter,
    started: float,
) -> NodeDone:
    """Bring what is lacking, now that nobody else does; the lock must be held."""
    _sweep(plan, directory)
    view = _look(plan, directory)
    present, sentinel = view.present, view.sentinel
    was_whole = present.is_whole and is_current(sentinel, plan)
    labels = labels_here(plan, directory) if was_whole else None
    if labels is None:
        _open_up(plan, directory, view)
    proven, copied = _bring(plan, directory, present, transfer, watch, reporter)
    landed = [*present.good, *proven, *copied]
    if labels is None:
        labels = write_labels(plan, directory)
        _seal(plan, directory, sentinel, [*landed, *labels])
    elif sentinel is not None and sentinel.job is None and plan.placement.job is not None:
        # Made outside of any job, it is now this one's, and nobody else's to clean or to change.
        write_sentinel(directory, replace(sentinel, job=plan.placement.job))
    return _done(plan, peers, [*landed, *labels], copied, time.monotonic() - started)


def _announcement(plan: StagePlan) -> Iterator[str]:
    """What the user should see before anything is copied."""
    files, target = plan.selection.files, plan.target
    kind = f", {target.kind}" if target.kind else ""
    yield (
        f"{printable(str(plan.inventory.source))}: {counted(len(files), 'file')}, "
        f"{sized(plan.selection.bytes)}, to {printable(str(target.path))} ({target.why}{kind})"
    )
    if is_memory(target.kind):
        yield (
            f"{printable(str(target.path))} is memory ({target.kind}), of which this job may use "
            f"{sized(available())} more"
        )
    yield from plan.selection.notes


def _agree(plan: StagePlan, directory: StageDirectory, view: _View, peers: Peers) -> None:
    """Go on only if every node has the room, and all mean the same."""
    space = space_of(directory.descriptor)
    free = min(space.free, available()) if is_memory(plan.target.kind) else space.free
    lacking = sum(-(-file.bytes // space.block) * space.block for file in view.present.lacking)
    freed = sum(file.bytes // space.block * space.block for file in view.present.obsolete)
    start = NodeStart(
        host=plan.placement.host,
        node=peers.index,
        digest=plan.inventory.digest,
        target=str(directory.path),
        needed=max(0, lacking - freed) + _MARGIN if lacking else 0,
        free=free,
        options=plan.request.options,
    )
    peers.exchange(asdict(start), partial(agree_to_start, nodes=peers.count))


def _open_up(plan: StagePlan, directory: StageDirectory, view: _View) -> None:
    """From here on this is no copy, and what may be put here is on record."""
    remove_sentinel(directory)
    paths = {file.path for file in plan.selection.files} | view.planned
    if plan.inventory.manifest is not None:
        paths |= LABELS
    write_planned(
        directory,
        Planned(
            paths=tuple(sorted(paths)),
            job=plan.placement.job,
            shared=_is_shared(plan, view.sentinel),
            selection=plan.selection.digest,
        ),
    )
    remove_labels(plan, directory)
    _remove_obsolete(plan, directory, view)


def _remove_obsolete(plan: StagePlan, directory: StageDirectory, view: _View) -> None:
    """The files, and the directories left empty: a file may be about to get that name."""
    for file in view.present.obsolete:
        try:
            with opened_parent(directory.descriptor, file.path) as (parent, name):
                os.unlink(name, dir_fd=parent)
        except OSError as error:
            raise target_error(error, directory.path, f"removing {file.path}") from error
    # Also of those that a killed call has removed before.
    old = view.planned - {file.path for file in plan.selection.files}
    remove_empty_folders(directory.descriptor, old)


def _is_shared(plan: StagePlan, sentinel: Sentinel | None) -> bool:
    """Mended by a job that did not say so, what others share stays shared."""
    return plan.request.shared or (sentinel is not None and sentinel.shared)


def _bring(
    plan: StagePlan,
    directory: StageDirectory,
    present: Present,
    transfer: Transfer,
    watch: Watch,
    reporter: StageReporter,
) -> tuple[list[CopiedFile], list[CopiedFile]]:
    """Prove what can be proven, and copy the rest; returns both."""
    doubtful = sum(file.bytes for file in present.doubtful)
    lacking = sum(file.bytes for file in present.lacking)
    copied: list[CopiedFile] = []
    reporter.copying(len(present.doubtful) + len(present.lacking), doubtful + lacking)
    try:
        streams = plan.request.streams or default_streams()
        proven = rehash_files(directory.descriptor, present.doubtful, streams=streams, watch=watch)
        good = {file.path for file in proven}
        broken = [file for file in present.doubtful if file.path not in good]
        transfer([*present.lacking, *broken], watch, copied.append)
    finally:
        reporter.finished()
    return proven, copied


def _seal(
    plan: StagePlan,
    directory: StageDirectory,
    before: Sentinel | None,
    landed: Sequence[CopiedFile],
) -> None:
    """The copy is whole: say so, last."""
    write_sentinel(
        directory,
        Sentinel(
            source=str(plan.inventory.source),
            digest=plan.inventory.digest,
            selection=plan.selection.digest,
            job=plan.placement.job,
            shared=_is_shared(plan, before),
            files=tuple(sorted(landed, key=lambda file: file.path)),
            asked=plan.request.asked,
        ),
    )


def _done(
    plan: StagePlan,
    peers: Peers,
    landed: Sequence[CopiedFile],
    copied: Sequence[CopiedFile],
    seconds: float,
) -> NodeDone:
    count = sum(file.bytes for file in copied)
    data = [file for file in landed if file.path not in LABELS]
    return NodeDone(
        host=plan.placement.host,
        node=peers.index,
        files=len(copied),
        copied=count,
        reused=sum(file.bytes for file in data) - count,
        seconds=seconds,
        selection=plan.selection.digest,
        content=_content(data),
    )


def _content(landed: Sequence[CopiedFile]) -> str | None:
    """A digest that is the same on every node that holds the same; None if not all was hashed."""
    if any(file.sha256 is None for file in landed):
        return None
    lines = sorted([file.path, file.bytes, file.sha256] for file in landed)
    return hashlib.sha256(to_json(lines)).hexdigest()
