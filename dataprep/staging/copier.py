"""What the one copier of a node does, once it knows the other nodes: agree, copy, seal."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from dataprep.errors import StagingError
from dataprep.remote.store import Store
from dataprep.sealed.set import NAME as MANIFEST
from dataprep.sealed.set import PART
from dataprep.staging.agreement import (
    Alone,
    NodeDone,
    NodeStart,
    Peers,
    agree_to_finish,
    agree_to_start,
)
from dataprep.staging.broadcast import broadcast_files
from dataprep.staging.copying import copy_files, default_streams, rehash_files
from dataprep.staging.directory import (
    StageDirectory,
    opened_parent,
    remove_empty_folders,
    remove_file,
    remove_files,
    sync_folders,
    target_errors,
)
from dataprep.staging.existing import Present, look
from dataprep.staging.mpi import MpiPeers
from dataprep.staging.node_lock import node_lock, try_lock
from dataprep.staging.plan import StagePlan
from dataprep.staging.request import StageReporter
from dataprep.staging.sentinel import PLANNED, SENTINEL, planned_paths
from dataprep.staging.source import SourceFile
from dataprep.staging.writing import Progress, TargetWriter, Transfer
from dataprep.system.durable_files import is_partial
from dataprep.system.filesystems import filesystem_of, is_memory, space_of
from dataprep.system.job_limits import available_memory
from dataprep.system.messages import counted, printable, sized
from dataprep.system.state_files import digest_of, encode
from dataprep.system.throttle import Bandwidth
from dataprep_schemas.state import CopiedFile, Sentinel

_MARGIN = 1 << 20  # for directories, the sentinel and the like


@dataclass(frozen=True, slots=True)
class Copier:
    """The one process of a node that works on its target."""

    plan: StagePlan  # what is to be where
    directory: StageDirectory  # the target
    peers: Peers
    progress: Progress  # counts; stops everything when another node fails
    reporter: StageReporter  # told how it goes
    on_wait: Callable[[str], None]  # told who is waited for on this node

    def run(self, on_whole: Callable[[], None] = lambda: None) -> None:
        """Make this node's copy whole, and wait until those of the other nodes are.

        No other node is waited for while the target is locked, or two jobs could wait for each
        other.

        Args:
            on_whole: called when this node's copy is whole; others may not be yet.

        Raises:
            NoRoomError: a node has too little space; nothing was copied on any node.
            StagingError: a copy could not be made here or on another node.
        """
        directory, peers = self.directory, self.peers
        with try_lock(directory) as free:
            if free:
                self._sweep()  # what it takes is about to be counted
        start = self._start(look(self.plan, directory))
        peers.exchange(start, partial(agree_to_start, nodes=peers.count))
        if peers.index == 0:
            for line in self._announcement():
                self.reporter.line(line)
        with node_lock(directory, on_wait=self.on_wait):
            done = self._make_whole(time.monotonic())
            directory.check_current()  # all was done by descriptors, which follow a renamed target
        on_whole()
        agreed = peers.exchange(done, agree_to_finish)
        if agreed.trouble:
            directory.remove_private(SENTINEL)  # nobody knows whose bytes are the right ones
            self._remove_labels()
            raise StagingError(agreed.trouble)
        if peers.index == 0 or isinstance(peers, Alone):
            self.reporter.line(agreed.total)

    def _sweep(self) -> None:
        """Remove what killed copiers have left half-done; the lock must be held."""
        for name in self.directory.private_names():
            if is_partial(name) and name.startswith((f".{PLANNED}", f".{SENTINEL}")):
                self.directory.remove_private(name)
        names = {*planned_paths(self.directory), *(each.path for each in self.plan.selection.files)}
        remove_files(self.directory.descriptor, names, finished=False)

    def _start(self, present: Present) -> NodeStart:
        """What this node needs, and what it has."""
        plan, space = self.plan, space_of(self.directory.descriptor)
        in_memory = is_memory(filesystem_of(self.directory.path))
        free = min(space.free, available_memory()) if in_memory else space.free
        lacking = sum(-(-file.bytes // space.block) * space.block for file in present.lacking)
        freed = sum(file.bytes // space.block * space.block for file in present.obsolete)
        return NodeStart(
            host=plan.placement.host,
            node=self.peers.index,
            digest=plan.inventory.digest,
            target=printable(str(self.directory.path)),
            needed=max(0, lacking - freed) + _MARGIN if lacking else 0,
            free=free,
            options=plan.request.options,
        )

    def _announcement(self) -> Iterator[str]:
        """What the user should see before anything is copied."""
        selection, target = self.plan.selection, self.plan.target
        kind = filesystem_of(target.path)
        yield (
            f"{printable(str(self.plan.inventory.source))}: "
            f"{counted(len(selection.files), 'file')}, {sized(selection.bytes)}, to "
            f"{printable(str(target.path))} ({target.why}{kind and f', {kind}'})"
        )
        yield from selection.notes

    def _make_whole(self, started: float) -> NodeDone:
        """Bring what is lacking, now that nobody else does; the lock must be held."""
        plan, directory = self.plan, self.directory
        self._sweep()
        present = look(plan, directory)
        if not present.is_whole:
            self._open_up(present)
        proven, copied = self._bring(present)
        data = [*present.good, *proven, *copied]
        if not present.is_whole:
            # Also the names of those that a killed call has brought.
            sync_folders(directory.descriptor, (file.path for file in data))
            files = [*data, *self._write_labels()]
            directory.write_private(SENTINEL, self._sentinel(present, files))  # last
        elif present.sentinel and present.sentinel.job is None and plan.placement.job is not None:
            # Made outside of any job, it is now this one's, and nobody else's to clean or change.
            directory.write_private(SENTINEL, replace(present.sentinel, job=plan.placement.job))
        count = sum(file.bytes for file in copied)
        hashed = all(file.sha256 is not None for file in data)
        content = digest_of(sorted((file.path, file.bytes, file.sha256) for file in data))
        return NodeDone(
            host=plan.placement.host,
            node=self.peers.index,
            files=len(copied),
            copied=count,
            reused=sum(file.bytes for file in data) - count,
            seconds=time.monotonic() - started,
            selection=plan.selection.digest,
            content=content if hashed else None,
        )

    def _open_up(self, present: Present) -> None:
        """From here on this is no copy, and what may be put here is on record."""
        plan, target = self.plan, self.directory.descriptor
        self.directory.remove_private(SENTINEL)
        wanted = {file.path for file in plan.selection.files}
        paths = sorted({*wanted, *plan.labels, *present.planned})
        planned = [CopiedFile(path, 0, None, 0) for path in paths]
        self.directory.write_private(PLANNED, self._sentinel(present, planned))
        self._remove_labels()
        with target_errors(self.directory.path, "removing what is old"):
            for file in present.obsolete:
                with opened_parent(target, file.path) as (parent, name):
                    os.unlink(name, dir_fd=parent)
        # A file may be about to get a directory's name. Also of those removed by a killed call.
        remove_empty_folders(target, present.planned - wanted)

    def _remove_labels(self) -> None:
        """From here on it is no data set, nor a part of one."""
        for name in self.plan.labels:
            remove_file(self.directory.descriptor, name)

    def _write_labels(self) -> list[CopiedFile]:
        """Make it a data set, or a part of one, durably; the manifest last but the sentinel."""
        target, source = self.directory.descriptor, self.plan.inventory.source
        part, written = self.plan.selection.part, []
        for name, data in ((PART, part and encode(part)), (MANIFEST, self.plan.inventory.data)):
            if data:
                with TargetWriter(Transfer(source, target), SourceFile(name, len(data))) as writer:
                    writer.write(data, 0)
                    written.append(writer.finish())
                sync_folders(target, [name])
        return written

    def _sentinel(self, present: Present, files: Sequence[CopiedFile]) -> Sentinel:
        plan, before = self.plan, present.sentinel
        return Sentinel(
            source=str(plan.inventory.source),
            digest=plan.inventory.digest,
            selection=plan.selection.digest,
            job=plan.placement.job,
            # Mended by a job that did not say so, what others share stays shared.
            shared=plan.request.shared or (before is not None and before.shared),
            files=tuple(sorted(files, key=lambda file: file.path)),
            asked=plan.request.asked,
        )

    def _bring(self, present: Present) -> tuple[list[CopiedFile], list[CopiedFile]]:
        """Prove what can be proven, and copy the rest; returns both."""
        proven: list[CopiedFile] = []
        copied: list[CopiedFile] = []
        try:
            if present.doubtful:
                self._report(present.doubtful)
                proven = rehash_files(
                    self.directory.descriptor,
                    present.doubtful,
                    streams=default_streams(),
                    progress=self.progress,
                )
            good = {file.path for file in proven}
            bad = [file for file in present.doubtful if file.path not in good]
            self._report([*bad, *present.lacking])
            self._transfer([*bad, *present.lacking], copied.append)
        finally:
            self.reporter.finished()
        return proven, copied

    def _report(self, files: Sequence[SourceFile]) -> None:
        self.reporter.copying(len(files), sum(file.bytes for file in files))

    def _transfer(
        self, files: Sequence[SourceFile], on_copied: Callable[[CopiedFile], None]
    ) -> None:
        """Copy them from the source, or take part in a broadcast of what any node lacks."""
        plan, request, source = self.plan, self.plan.request, self.plan.inventory.source
        target, limit = self.directory.descriptor, Bandwidth(request.bandwidth)
        transfer = Transfer(source, target, request.verify, self.progress, on_copied, limit)
        if isinstance(self.peers, MpiPeers):
            lacking = {file.path for file in files}
            broadcast_files(self.peers, transfer, plan.copied_files, lacking=lacking)
        else:
            node = plan.placement.node
            copy_files(transfer, files, streams=default_streams(), node=node)
        if isinstance(source, Store) and source.retried and self.peers.index == 0:
            self.reporter.line(f"{counted(source.retried, 'request')} had to be tried again")
