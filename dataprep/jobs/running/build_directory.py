"""Where shards are built, whether there is room for them, and how their directories are striped.

Formats that are not written from front to back are built on node-local storage first. LMDB and
HDF5 write here and there, which parallel and network file systems answer slowly and lock badly;
one sequential copy is what they like. Elsewhere the files are built in place.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DatasetError, SinkError
from dataprep.formats import ShardName, WrittenFile
from dataprep.jobs.running.job import Job
from dataprep.system.durable_files import PARTIAL, storage_error
from dataprep.system.filesystems import (
    filesystem_of,
    is_network,
    node_local_scratch,
    scratch_places,
)
from dataprep.system.lustre import LUSTRE, LfsError, carry_out, explain_other, plan_directories
from dataprep.system.messages import sized
from dataprep.system.regular_files import open_regular
from dataprep.system.throttle import pay

_CHUNK = 1 << 22


@dataclass(slots=True)
class BuiltFiles:
    """Where a sink writes, and where its files must be in the end: in ``out``."""

    paths: Sequence[Path]
    targets: Sequence[Path]
    out: Path

    def deliver(self, written: Sequence[WrittenFile]) -> None:
        """Copy what was built elsewhere, checking that it is what the sink wrote.

        Raises:
            SinkError: it is not; or the output directory is full, and the like.
        """
        for path, target, file in zip(self.paths, self.targets, written, strict=True):
            if path == target:
                continue
            try:
                found = _copy(path, target)
            except OSError as error:
                raise storage_error(error, self.out, f"copying from {path}") from error
            if found != file.sha256:
                raise SinkError(
                    f"{path}: what was copied from here is not what was written; "
                    "check this node's storage, then run the same command again"
                )


@contextmanager
def building(targets: Sequence[Path], job: Job) -> Iterator[BuiltFiles]:
    """The paths that a shard's files are written to; removed afterwards if they are elsewhere.

    Raises:
        SinkError: the output is on a network file system and no other storage can be found; or
            that is full, and the like.
    """
    scratch, out = build_place(job), job.request.out
    if scratch is None:
        yield BuiltFiles(targets, targets, out)
        return
    directory = scratch / f"{_prefix(out)}{secrets.token_hex(4)}{PARTIAL}"
    try:
        directory.mkdir(mode=0o700)
        yield BuiltFiles([directory / target.name for target in targets], targets, out)
    except OSError as error:
        raise storage_error(error, scratch, f"building files of {out}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def remove_build_directories(out: Path, build_dir: Path | None) -> None:
    """Delete what killed runs of the same output left on this machine; hold its lock."""
    for place in {*scratch_places(), *([build_dir] if build_dir else [])}:
        for path in place.glob(f"{_prefix(out)}*{PARTIAL}"):
            if path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid():
                shutil.rmtree(path, ignore_errors=True)


def _prefix(out: Path) -> str:
    """Names the output directory, so that another job's files are left alone."""
    return f".dataprep-{hashlib.sha256(os.fsencode(out.resolve())).hexdigest()[:16]}-"


def build_place(job: Job) -> Path | None:
    """Where the shards' files are built; None if in their place.

    Raises:
        SinkError: the output is on a network file system and no other storage can be found.
    """
    request = job.request
    if not job.sink.seeks or request.build_dir is not None:
        return request.build_dir if job.sink.seeks else None
    kind = filesystem_of(request.out)
    if not is_network(kind):
        return None
    found = node_local_scratch()
    if found is None:
        raise SinkError(
            f"{request.out} is on {kind}, where {job.sink.name} files cannot be built well, "
            "and no node-local scratch was found; name some with --build_dir"
        )
    return found


def check_free_space(job: Job, pending: Sequence[ShardName], *, at_once: int) -> None:
    """Refuse a job that cannot fit; a quota is not seen here: it shows as a full disk.

    Args:
        at_once: how many of them are built at the same time, at most.

    Raises:
        SinkError: the file system has less room than the pending shards need, or the one that
            they are built on less than those need that are built at once.
    """
    needed = job.estimate_bytes(pending)
    places = [(job.request.out, needed, job.remedy)]
    if (place := build_place(job)) is not None:
        share = needed * min(at_once, len(pending)) // len(pending)
        places.append((place, share, "choose another --build_dir, or more --num_shards"))
    for place, size, remedy in places:
        free = shutil.disk_usage(place).free
        if size > free:
            raise SinkError(f"{place}: about {sized(size)} needed, {sized(free)} free; {remedy}")


def _copy(source: Path, target: Path) -> str:
    """Copy and flush; returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with open_regular(source) as reading, target.open("xb", buffering=0) as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            rest = memoryview(chunk)
            while rest:
                rest = rest[writing.write(rest) :]
            pay(len(chunk))
        os.fsync(writing.fileno())
    return digest.hexdigest()


def lay_out(job: Job, pending: Sequence[ShardName], report: Callable[[str], None]) -> None:
    """Set the layout of the directories that shards are written to, temporary files included.

    Shapes no byte of the output, so a job may be resumed with another.

    Raises:
        LfsError: a layout was asked for, and `lfs` failed or is not there.
        DatasetError: one was asked for, and the site does not give it.
    """
    striping = job.request.striping
    if striping.count == "off":
        return
    out = job.request.out
    kind = filesystem_of(out)
    if kind != LUSTRE:
        if striping.asked:
            report(explain_other(kind, out))
        return
    try:
        for plan in plan_directories(_largest(job, pending), striping):
            given, line = carry_out(plan)
            if not given and not striping.is_optional:
                raise DatasetError(
                    f"layout of {line}; nothing was written: ask for what the site allows, or "
                    "leave out --lustre_stripe to go on with what is in force"
                )
            report(f"{'' if given else 'note: '}layout of {line}")
    except LfsError as error:
        if not striping.is_optional:
            raise
        report(f"note: no layout is set: {error}")


def _largest(job: Job, pending: Sequence[ShardName]) -> dict[Path, int]:
    """The directories of the shards' data, with the size of a shard; sidecars are small."""
    largest: defaultdict[Path, int] = defaultdict(int)
    for split in job.splits:
        shards = [shard for shard in pending if shard.split == split.name]
        if not shards:
            continue
        paths = (job.sink.paths(shard, job.request.layout)[0] for shard in shards)
        # Where each shard has a directory of its own, those inherit from the one around them.
        place = Path(os.path.commonpath({(job.request.out / path).parent for path in paths}))
        largest[place] = max(largest[place], job.estimate_bytes(shards) // len(shards))
    return largest
