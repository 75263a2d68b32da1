"""What the one copier of a node does, once it holds the lock and knows the other nodes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from dataprep.build.workspace import foreign_files
from dataprep.errors import StagingError
from dataprep.staging.claim import claim, is_current
from dataprep.staging.copying.files import default_streams, rehash_files
from dataprep.staging.copying.watch import Watch
from dataprep.staging.errand import Errand
from dataprep.staging.inventory import SourceFile
from dataprep.staging.labels import LABELS, labels_here, remove_labels, write_labels
from dataprep.staging.landed import Landed
from dataprep.staging.nodes.agreement import NodeDone, NodeStart, agree_to_finish, agree_to_start
from dataprep.staging.nodes.peers import Peers
from dataprep.staging.present import Present, find_present
from dataprep.staging.progress import Progress
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.target.beneath import opened_parent
from dataprep.staging.target.cleaning import PLAN, read_plan, write_plan
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.node_lock import node_lock, try_lock
from dataprep.staging.target.partials import remove_partials
from dataprep.staging.target.sentinel import (
    SENTINEL,
    Sentinel,
    remove_sentinel,
    write_sentinel,
)
from dataprep.system.filesystems import is_memory, space_of
from dataprep.system.memory import available
from dataprep.system.messages import counted, printable, sized
from dataprep.system.state_files import to_json

# Brings files into the target: copies them from the source, or takes part in a broadcast.
Transfer = Callable[[Sequence[SourceFile], Watch, Callable[[Landed], None]], None]

_MARGIN = 1 << 20  # for directories, the sentinel and the like


@dataclass(frozen=True, slots=True)
class _Brought:
    """What has been done on this node: files found good by hashing, and files copied."""

    proven: list[Landed] = field(default_factory=list)
    copied: list[Landed] = field(default_factory=list)


def run_copier(
    errand: Errand,
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
        errand: what is to be where.
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
    _sweep_if_free(errand, directory)
    _agree(errand, directory, _look(errand, directory), peers)
    if peers.index == 0:
        for line in _announcement(errand):
            reporter.line(line)
    patience = errand.request.patience
    with node_lock(directory, patience=patience, on_wait=progress.waiting) as lock:
        assert lock is not None  # noqa: S101  # nothing but the lock was waited for
        progress.tell(lock)
        started = time.monotonic()
        done = _make_whole(errand, directory, peers, transfer, watch, reporter, started)
    on_whole()
    reports = [NodeDone.from_json(report) for report in peers.exchange(done.to_json())]
    try:
        lines = agree_to_finish(reports)
    except StagingError:
        remove_sentinel(directory)  # nobody knows whose bytes are the right ones
        remove_labels(errand, directory)
        raise
    if peers.index == 0 or len(reports) == 1:
        for line in lines:
            reporter.line(line)


@dataclass(frozen=True, slots=True)
class _View:
    """What is in the target before anything is changed."""

    sentinel: Sentinel | None
    planned: frozenset[str]
    present: Present


def _look(errand: Errand, directory: StageDirectory) -> _View:
    sentinel = claim(errand, directory)
    planned = read_plan(directory)
    for path in _strangers(errand, directory, planned):
        raise StagingError(
            f"{printable(str(path))} is not of this data set, but readers would take it in; "
            "move it away, or stage into another directory (--to)"
        )
    present = find_present(
        directory,
        errand.inventory,
        errand.selection,
        sentinel,
        planned=planned,
        verify=errand.request.verify,
        hashed=errand.request.hashed,
    )
    return _View(sentinel, planned, present)


def _sweep(errand: Errand, directory: StageDirectory) -> None:
    """Remove what killed copiers have left half-done; the lock must be held."""
    names = {*read_plan(directory), *(file.path for file in errand.selection.files)}
    directory.remove_unfinished((PLAN, SENTINEL))
    remove_partials(directory.descriptor, names)


def _sweep_if_free(errand: Errand, directory: StageDirectory) -> None:
    """It takes room that is about to be counted."""
    with try_lock(directory) as held:
        if held:
            _sweep(errand, directory)


def _make_whole(
    errand: Errand,
    directory: StageDirectory,
    peers: Peers,
    transfer: Transfer,
    watch: Watch,
    reporter: StageReporter,
    started: float,
) -> NodeDone:
    """Bring what is lacking, now that nobody else does; the lock must be held."""
    _sweep(errand, directory)
    view = _look(errand, directory)
    present, sentinel = view.present, view.sentinel
    was_whole = present.is_whole and is_current(sentinel, errand)
    labels = labels_here(errand, directory) if was_whole else None
    if labels is None:
        _open_up(errand, directory, view)
    brought = _bring(errand, directory, present, transfer, watch, reporter)
    landed = [*present.good, *brought.proven, *brought.copied]
    if labels is None:
        labels = write_labels(errand, directory)
        _seal(errand, directory, sentinel, [*landed, *labels])
    elif sentinel is not None and sentinel.job is None and errand.placement.job is not None:
        # Made outside of any job, it is now this one's, and nobody else's to clean or to change.
        write_sentinel(directory, replace(sentinel, job=errand.placement.job))
    return _done(errand, peers, [*landed, *labels], brought.copied, time.monotonic() - started)


def _announcement(errand: Errand) -> Iterator[str]:
    """What the user should see before anything is copied."""
    files, target = errand.selection.files, errand.target
    kind = f", {target.kind}" if target.kind else ""
    yield (
        f"{printable(str(errand.inventory.source))}: {counted(len(files), 'file')}, "
        f"{sized(errand.selection.bytes)}, to {printable(str(target.path))} ({target.why}{kind})"
    )
    if target.warning:
        yield target.warning
    yield from errand.selection.notes


def _agree(errand: Errand, directory: StageDirectory, view: _View, peers: Peers) -> None:
    """Go on only if every node has the room, and all mean the same."""
    space = space_of(directory.descriptor)
    free = min(space.free, available()) if is_memory(errand.target.kind) else space.free
    lacking = sum(-(-file.bytes // space.block) * space.block for file in view.present.lacking)
    freed = sum(file.bytes // space.block * space.block for file in view.present.obsolete)
    start = NodeStart(
        host=errand.placement.host,
        node=peers.index,
        digest=errand.inventory.digest,
        selection=errand.selection.digest,
        target=str(directory.path),
        needed=max(0, lacking - freed) + _MARGIN if lacking else 0,
        free=free,
        options=_options(errand.request),
    )
    reports = [NodeStart.from_json(report) for report in peers.exchange(start.to_json())]
    agree_to_start(reports, peers.count)


def _options(request: StageRequest) -> str:
    """What must be the same on every node, for comparison only."""
    chosen = (sorted(request.splits), request.share, request.replicas, sorted(request.whole))
    return repr((*chosen, request.verify, request.hashed, request.broadcast))


def _strangers(
    errand: Errand, directory: StageDirectory, planned: Collection[str]
) -> Iterator[Path]:
    """Files in the target that its readers would take for shards."""
    manifest = errand.inventory.manifest
    if manifest is not None:
        ours = {*planned, *(file.path for file in errand.selection.files)}
        yield from foreign_files(manifest["splits"], {directory.path / path for path in ours})


def _open_up(errand: Errand, directory: StageDirectory, view: _View) -> None:
    """From here on this is no copy, and what may be put here is on record."""
    remove_sentinel(directory)
    paths = {file.path for file in errand.selection.files} | view.planned
    if errand.inventory.manifest is not None:
        paths |= LABELS
    write_plan(
        directory,
        paths,
        errand.placement.job,
        shared=_is_shared(errand, view.sentinel),
        selection=errand.selection.digest,
    )
    remove_labels(errand, directory)
    _remove_obsolete(errand, directory, view)


def _remove_obsolete(errand: Errand, directory: StageDirectory, view: _View) -> None:
    """The files, and the directories left empty: a file may be about to get that name."""
    for file in view.present.obsolete:
        try:
            with opened_parent(directory.descriptor, file.path) as (parent, name):
                os.unlink(name, dir_fd=parent)
        except OSError as error:
            raise StagingError(
                f"{printable(f'{directory.path}/{file.path}')}, staged earlier, cannot be "
                f"removed: {error.strerror}; check this node's storage"
            ) from error
    # Also of those that a killed call has removed before.
    old = view.planned - {file.path for file in errand.selection.files}
    folders = {str(above) for path in old for above in PurePosixPath(path).parents} - {"."}
    for folder in sorted(folders, key=lambda each: each.count("/"), reverse=True):
        with suppress(OSError), opened_parent(directory.descriptor, folder) as (parent, name):
            os.rmdir(name, dir_fd=parent)


def _is_shared(errand: Errand, sentinel: Sentinel | None) -> bool:
    """Mended by a job that did not say so, what others share stays shared."""
    return errand.request.shared or (sentinel is not None and sentinel.shared)


def _bring(
    errand: Errand,
    directory: StageDirectory,
    present: Present,
    transfer: Transfer,
    watch: Watch,
    reporter: StageReporter,
) -> _Brought:
    """Prove what can be proven, and copy the rest."""
    doubtful = sum(file.bytes for file in present.doubtful)
    lacking = sum(file.bytes for file in present.lacking)
    brought = _Brought()
    reporter.copying(len(present.doubtful) + len(present.lacking), doubtful + lacking)
    try:
        broken = rehash_files(
            directory.descriptor,
            present.doubtful,
            streams=errand.request.streams or default_streams(),
            watch=watch,
            on_good=brought.proven.append,
        )
        transfer([*present.lacking, *broken], watch, brought.copied.append)
    finally:
        reporter.finished()
    return brought


def _seal(
    errand: Errand, directory: StageDirectory, before: Sentinel | None, landed: Sequence[Landed]
) -> None:
    """The copy is whole: say so, last."""
    write_sentinel(
        directory,
        Sentinel(
            source=str(errand.inventory.source),
            digest=errand.inventory.digest,
            selection=errand.selection.digest,
            job=errand.placement.job,
            shared=_is_shared(errand, before),
            files=tuple(sorted(landed, key=lambda file: file.path)),
            asked=errand.request.asked,
        ),
    )


def _done(
    errand: Errand,
    peers: Peers,
    landed: Sequence[Landed],
    copied: Sequence[Landed],
    seconds: float,
) -> NodeDone:
    count = sum(file.bytes for file in copied)
    data = [file for file in landed if file.path not in LABELS]
    return NodeDone(
        host=errand.placement.host,
        node=peers.index,
        files=len(copied),
        copied=count,
        reused=sum(file.bytes for file in data) - count,
        seconds=seconds,
        selection=errand.selection.digest,
        content=_content(data),
    )


def _content(landed: Sequence[Landed]) -> str | None:
    """A digest that is the same on every node that holds the same; None if not all was hashed."""
    if any(file.sha256 is None for file in landed):
        return None
    lines = sorted([file.path, file.bytes, file.sha256] for file in landed)
    return hashlib.sha256(to_json(lines)).hexdigest()
