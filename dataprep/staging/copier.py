"""What the one copier of a node does, once it holds the lock and knows the other nodes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dataprep.canonical import to_json
from dataprep.errors import StagingError
from dataprep.filesystems import is_memory, space_of
from dataprep.part import NAME as PART
from dataprep.staging.claim import claim, is_current
from dataprep.staging.copying.files import default_streams, rehash_files
from dataprep.staging.copying.watch import Watch
from dataprep.staging.copying.writing import Landed
from dataprep.staging.errand import Errand
from dataprep.staging.inventory import SourceFile
from dataprep.staging.memory import available
from dataprep.staging.nodes.agreement import NodeDone, NodeStart, agree_to_finish, agree_to_start
from dataprep.staging.nodes.peers import Peers
from dataprep.staging.present import Present, find_present
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.target.cleaning import read_plan, write_plan
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.partials import remove_partials
from dataprep.staging.target.sentinel import (
    Sentinel,
    remove_sentinel,
    write_sentinel,
)
from dataprep.strangers import strangers
from dataprep.wording import counted, printable, sized

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
    on_whole: Callable[[], None],
) -> None:
    """Make this node's copy whole, and wait until those of the other nodes are.

    Args:
        errand: what is to be where.
        directory: the target; its lock is held.
        peers: the other nodes.
        transfer: brings the files that are lacking.
        watch: stops everything when another node fails.
        reporter: told how it goes.
        on_whole: called when this node's copy is whole; others may not be yet.

    Raises:
        NoRoomError: a node has too little space; nothing was copied anywhere.
        StagingError: a copy could not be made here or on another node.
    """
    sentinel = claim(errand, directory)
    planned = read_plan(directory)
    # They take room that is counted below.
    remove_partials(
        directory.descriptor, {*planned, *(file.path for file in errand.selection.files)}
    )
    present = find_present(
        directory,
        errand.inventory,
        errand.selection,
        sentinel,
        planned=planned,
        verify=errand.request.verify,
    )
    _agree(errand, directory, present, planned, peers)
    if peers.index == 0:
        for line in _announcement(errand):
            reporter.line(line)
    started = time.monotonic()
    was_whole = present.is_whole and is_current(sentinel, errand) and _is_noted(errand, directory)
    if not was_whole:
        _open_up(errand, directory, present, planned)
    brought = _bring(errand, directory, present, transfer, watch, reporter)
    if not was_whole:
        _close(errand, directory, [*present.good, *brought.proven, *brought.copied])
    on_whole()
    done = _done(errand, peers, present, brought, time.monotonic() - started)
    reports = [NodeDone.from_json(report) for report in peers.exchange(done.to_json())]
    lines = agree_to_finish(reports)
    if peers.index == 0 or len(reports) == 1:
        for line in lines:
            reporter.line(line)


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


def _agree(
    errand: Errand,
    directory: StageDirectory,
    present: Present,
    planned: Collection[str],
    peers: Peers,
) -> None:
    """Go on only if every node has the room, and all mean the same."""
    for path in _strangers(errand, directory, planned):
        raise StagingError(
            f"{printable(str(path))} is not of this data set, but readers would take it in; "
            "move it away, or stage into another directory (--to)"
        )
    space = space_of(directory.descriptor)
    free = min(space.free, available()) if is_memory(errand.target.kind) else space.free
    lacking = sum(-(-file.bytes // space.block) * space.block for file in present.lacking)
    start = NodeStart(
        host=errand.placement.host,
        node=peers.index,
        digest=errand.inventory.digest,
        selection=errand.selection.digest,
        target=str(directory.path),
        needed=lacking + _MARGIN if lacking else 0,
        free=free,
        options=_options(errand.request),
    )
    agree_to_start([NodeStart.from_json(report) for report in peers.exchange(start.to_json())])


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
        yield from strangers(manifest["splits"], {directory.path / path for path in ours})


def _open_up(
    errand: Errand, directory: StageDirectory, present: Present, planned: Collection[str]
) -> None:
    """From here on the copy is not whole, and what may be put here is on record."""
    remove_sentinel(directory)
    names = {file.path for file in errand.selection.files} | set(planned)
    if errand.inventory.manifest is not None:
        names.add(PART)
    job, shared = errand.placement.job, errand.request.shared
    write_plan(directory, names, job, shared=shared)
    for path in present.obsolete:
        try:
            os.unlink(path, dir_fd=directory.descriptor)
        except OSError as error:
            raise StagingError(
                f"{printable(f'{directory.path}/{path}')}, staged earlier, cannot be removed: "
                f"{error.strerror}; check this node's storage"
            ) from error


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


def _close(errand: Errand, directory: StageDirectory, landed: Sequence[Landed]) -> None:
    """The copy is whole: say so, last."""
    if errand.inventory.manifest is not None:
        part = errand.selection.part
        if part is None:
            directory.remove(PART)
        else:
            directory.write(PART, part.encode())
    write_sentinel(
        directory,
        Sentinel(
            source=str(errand.inventory.source),
            digest=errand.inventory.digest,
            selection=errand.selection.digest,
            job=errand.placement.job,
            shared=errand.request.shared,
            files=tuple(sorted(landed, key=lambda file: file.path)),
        ),
    )


def _is_noted(errand: Errand, directory: StageDirectory) -> bool:
    """Whether ``part.json`` is as it should be: two nodes' parts may be of the same files."""
    if errand.inventory.manifest is None:
        return True
    part = errand.selection.part
    return directory.read(PART) == (None if part is None else part.encode())


def _done(
    errand: Errand, peers: Peers, present: Present, brought: _Brought, seconds: float
) -> NodeDone:
    landed = [*present.good, *brought.proven, *brought.copied]
    copied = sum(file.bytes for file in brought.copied)
    return NodeDone(
        host=errand.placement.host,
        node=peers.index,
        files=len(brought.copied),
        copied=copied,
        reused=sum(file.bytes for file in landed) - copied,
        seconds=seconds,
        selection=errand.selection.digest,
        content=_content(landed),
    )


def _content(landed: Sequence[Landed]) -> str | None:
    """A digest that is the same on every node that holds the same; None if not all was hashed."""
    if any(file.sha256 is None for file in landed):
        return None
    lines = sorted([file.path, file.bytes, file.sha256] for file in landed)
    return hashlib.sha256(to_json(lines)).hexdigest()
