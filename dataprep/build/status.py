"""How far a job is: read from its directory alone, running, dead or finished, on any host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dataprep.build.commit import CommitRecord, finished_shards, images_under_way
from dataprep.build.identity import read_job
from dataprep.build.lock import Holder, holder
from dataprep.build.manifest import explain_staged_half, is_staged_half, read_manifest
from dataprep.build.part import NAME as PART
from dataprep.build.part import read_part
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError


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
    return Status(
        splits=_splits(workspace, records),
        under_way=images_under_way(workspace),
        records=tuple(records),
        sealed=workspace.manifest.exists(),
        holder=held,
        images_per_second=_rate(workspace, records, held),
        part=_part(workspace),
    )


def _part(workspace: Workspace) -> str | None:
    out = workspace.out
    if not workspace.manifest.exists() or not (out / PART).exists():
        return None  # without a look into the manifest, which takes longer than the rest
    part = read_part(out, read_manifest(out))
    return None if part is None else str(part)


def _splits(workspace: Workspace, records: list[CommitRecord]) -> tuple[SplitStatus, ...]:
    if not workspace.job.exists():
        return ()
    identity = cast("Mapping[str, Any]", read_job(workspace)["identity"])
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
    if held is None or held.since is None:
        return None  # nobody works here
    start = held.since
    try:
        made = [
            (status.st_mtime, record.images)
            for record in records
            if (status := workspace.record(record.shard).stat()).st_mtime > start
        ]
    except FileNotFoundError:
        return None  # a record that another run has just replaced
    if not made:
        return None
    return sum(images for _, images in made) / (max(time for time, _ in made) - start)
