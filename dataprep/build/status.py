"""How far a job is: read from its directory alone, running, dead or finished, on any host."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from dataprep.build.claim import read_job
from dataprep.build.commit import CommitRecord, finished_shards, images_under_way
from dataprep.build.lock import LEASE_SECONDS, sight
from dataprep.build.manifest import (
    PART,
    explain_staged_half,
    is_staged_half,
    read_manifest,
    read_part,
)
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Holder:
    """Who held the lock at one moment.

    Attributes:
        host: where it runs.
        process: its number there.
        is_running: whether it is alive; None if that cannot be told from this host.
        since: when it took the lock, in seconds since 1970 by the file system's clock.
        silent_seconds: how long ago it showed a sign of life. Compares a time of the file system
            with this host's, so it is wrong by as much as they differ.
    """

    host: str
    process: int
    is_running: bool | None
    since: float
    silent_seconds: float

    @property
    def works(self) -> bool:
        """Whether it seems to work."""
        if self.is_running is None:
            return self.silent_seconds <= LEASE_SECONDS
        return self.is_running


def holder(workspace: Workspace) -> Holder | None:
    """Who is in the lock; None if there is none, or it cannot be read."""
    try:
        found = sight(workspace.lock)
    except OSError:
        return None
    marker = None if found is None else found.marker
    if found is None or marker is None:
        return None
    silent = max(time.time() - found.modified / 1e9, 0.0)
    return Holder(marker.host, marker.process, marker.is_alive(), marker.since, silent)


@dataclass(frozen=True, slots=True)
class SplitStatus:
    """One split: shards and images that are done, and that there will be."""

    name: str
    shards: int
    shards_done: int
    images: int
    images_done: int


@dataclass(frozen=True, slots=True)
class Status:
    """A job.

    Attributes:
        splits: what is to be made; empty while the raw data is still being indexed.
        under_way: images in shards that are being written.
        records: the commit records of the shards that are there.
        sealed: whether the manifest has been written.
        holder: the run that holds the directory, if one does.
        images_per_second: of the run that is working now, once it has committed a shard.
        part: what of the data set was staged here, e.g. ``part 2 of 4``; None if all of it, or if
            it was made here.
    """

    splits: tuple[SplitStatus, ...]
    under_way: int
    records: tuple[CommitRecord, ...]
    sealed: bool
    holder: Holder | None
    images_per_second: float | None
    part: str | None = None

    @property
    def works(self) -> bool:
        """Whether somebody seems to work here."""
        return self.holder is not None and self.holder.works


def read_status(out: Path) -> Status:
    """Look at an output directory without touching it.

    Raises:
        DatasetError: there is no job in it, but maybe half a copy; or it is not clear which part
            of a data set is.
    """
    workspace = Workspace(out)
    if not workspace.private.is_dir() and not workspace.manifest.exists():
        if is_staged_half(out):
            raise DatasetError(explain_staged_half(out))
        raise DatasetError(f"{out}: nothing of dataprep's here; is this the --local_scratch_dir?")
    # First, and once: a run may end, or begin, while the rest is read.
    held = holder(workspace)
    records = finished_shards(workspace)
    # Without a look into the manifest where there is no need, as it takes longer than the rest.
    staged = workspace.manifest.exists() and (out / PART).exists()
    part = read_part(out, read_manifest(out)) if staged else None
    return Status(
        splits=_splits(workspace, records),
        under_way=images_under_way(workspace),
        records=tuple(records),
        sealed=workspace.manifest.exists(),
        holder=held,
        images_per_second=_rate(workspace, records, held),
        part=None if part is None else str(part),
    )


def _splits(workspace: Workspace, records: list[CommitRecord]) -> tuple[SplitStatus, ...]:
    if not workspace.job.exists():
        return ()
    identity = read_job(workspace)["identity"]
    return tuple(
        SplitStatus(
            name=split,
            shards=shards,
            shards_done=sum(record.split == split for record in records),
            images=identity["input"][split]["images"],
            images_done=sum(record.images for record in records if record.split == split),
        )
        for split, shards in sorted(identity["num_shards"].items())
    )


def _rate(workspace: Workspace, records: list[CommitRecord], held: Holder | None) -> float | None:
    """Images a second since the run that holds the lock took it."""
    if held is None:
        return None
    try:
        made = [
            (status.st_mtime, record.images)
            for record in records
            if (status := workspace.record(record.shard).stat()).st_mtime > held.since
        ]
    except FileNotFoundError:
        return None  # a record that another run has just replaced
    if not made:
        return None
    return sum(images for _, images in made) / (max(moment for moment, _ in made) - held.since)
