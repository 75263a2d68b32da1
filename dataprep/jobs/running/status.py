"""How far a job is: read from its directory alone, running, dead or finished, on any host."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dataprep.errors import DatasetError
from dataprep.jobs.output.commit import are_there, finished_shards, images_under_way
from dataprep.jobs.output.lock import LEASE_SECONDS, is_alive, sight
from dataprep.jobs.output.workspace import Workspace, read_job
from dataprep.jobs.running.identity import recipe_of
from dataprep.sealed.set import PART, SealedSet, described, require_directory
from dataprep.system.messages import counted, printable
from dataprep.system.state_files import read_state
from dataprep_schemas.state import CommitRecord, Marker, StoredJob

_KILLED = (
    "process {process} on {host} was killed or ended without a word; if it was for want of memory, "
    "give the job more, or use fewer --workers"
)
_GROWING = (
    "sealed, but not finished is what --append or `dataprep compact` was making, which is below; "
    "run the same command again to resume"
)
_MERGING = (
    "what --append or `dataprep compact` made is not all in its place; run the same command again "
    "to finish"
)

State = Literal["running", "silent", "stopped", "rejected", "written", "incomplete", "sealed"]


@dataclass(frozen=True, slots=True)
class SplitStatus:
    """One split: shards and images that are done, and that there will be.

    Attributes:
        name: of the split.
        shards: how many there will be.
        shards_done: how many are finished.
        images: how many there will be, before any is rejected.
        images_done: of finished shards.
    """

    name: str
    shards: int
    shards_done: int
    images: int
    images_done: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far the job in a directory is.

    Attributes:
        out: the directory.
        state: ``running``; ``silent``: no sign of life, probably dead; ``stopped``: nobody works
            and shards are missing; ``rejected``: all shards are there, but more images were
            rejected than allowed; ``written``: all shards are there, not sealed; ``sealed``;
            ``incomplete``: sealed, but shards were removed since.
        description: the same in words, with what to do next.
        splits: how far each is; none while the raw data is still being indexed.
        under_way: images in shards that are being written.
        rejected: images that were rejected so far.
        noted: images that were repaired, or about which there is a warning.
        images_per_second: of the run that is working, once it has committed a shard.
        seconds_left: as that rate goes.
        recipe: where a command is to be run again, the options of it that shape the bytes, in words
            of the command line; else empty.
    """

    out: Path
    state: State
    description: str
    splits: tuple[SplitStatus, ...]
    under_way: int
    rejected: int
    noted: int
    images_per_second: float | None
    seconds_left: float | None
    recipe: str

    def __str__(self) -> str:
        """A line for the job, and one for each split."""
        lines = [f"{self.out}: {self.description}"]
        lines += [
            f"{split.name}: {split.shards_done} of {split.shards} shards, "
            f"{split.images_done:,} of {split.images:,} images"
            for split in self.splits
        ]
        if self.under_way:
            lines.append(f"{self.under_way:,} images in unfinished shards")
        if self.images_per_second is not None and self.seconds_left is not None:
            minutes = self.seconds_left / 60
            lines.append(
                f"{self.images_per_second:,.0f} images/s; about {minutes:.0f} minutes left"
            )
        if self.recipe:
            lines.append(f"recipe: {self.recipe}")
        return "\n".join(map(printable, lines))


def read_status(out: Path) -> JobStatus:
    """Look at an output directory without touching it.

    Raises:
        DatasetError: there is no job in it; or it is not clear which part of a data set is.
    """
    workspace = Workspace(out)
    if not workspace.private.is_dir():
        if not workspace.manifest.exists():
            require_directory(out)
            raise DatasetError(
                f"{out}: no job of dataprep's here; is this the --out of one? "
                "`dataprep stage --status` tells of a copy"
            )
        SealedSet.read(out)  # which may be somebody else's
    # First, and once: a run may end, or begin, while the rest is read.
    holder = _holder(workspace)
    added = Workspace(workspace.generation)
    merging, growing = workspace.journal.exists(), added.job.exists()
    begun = added if growing else workspace
    job = workspace if merging else begun
    records = finished_shards(job)
    splits = () if merging else _splits(job, records)
    rejected = sum(record.rejected for record in records)
    runs = _describe_run(*holder) if holder is not None else None
    works = runs is not None and runs[0] == "running"
    if runs is None and (merging or growing):
        runs = "stopped", _MERGING if merging else _GROWING
    state, description = runs or _describe_rest(workspace, splits, rejected)
    if holder is not None and state in ("silent", "stopped"):  # who ends by itself leaves no lock
        description += f"; {_KILLED.format(process=holder[0].process, host=holder[0].host)}"
    under_way = images_under_way(job) if works else 0
    rate = _rate(job, records, holder[0].since) if works and holder is not None else None
    stored = read_state(begun.job, StoredJob)
    left = sum(split.images - split.images_done for split in splits) - under_way
    return JobStatus(
        out=out,
        state=state,
        description=description,
        splits=splits,
        under_way=under_way,
        rejected=rejected,
        noted=sum(record.noted for record in records),
        images_per_second=rate,
        seconds_left=max(left, 0) / rate if rate else None,
        recipe=recipe_of(stored.identity) if stored and "same command" in description else "",
    )


def _holder(workspace: Workspace) -> tuple[Marker, float] | None:
    """Who is in the lock, and the seconds since a sign of life; None if there is nobody to tell of.

    Compares a time of the file system with this host's, so it is wrong by as much as they differ.
    """
    try:
        found = sight(workspace.lock)
    except OSError:
        return None
    if found is None or found.marker is None:
        return None
    return found.marker, max(time.time() - found.modified / 1e9, 0.0)


def _describe_run(marker: Marker, silent: float) -> tuple[State, str] | None:
    """Of a run that holds the lock; None if it is known to be dead."""
    alive = is_alive(marker)  # None: it cannot be told from this host
    who = f"process {marker.process} on {marker.host}"
    if alive is False:
        return None
    if alive:
        return "running", f"running, {who}"
    sign = f"last sign of life {silent:,.0f} s ago"
    if silent <= LEASE_SECONDS:
        return "running", f"running, {who}, {sign}"
    again = "run the same command again: it makes sure and resumes"
    return "silent", f"probably dead, {who}, {sign}; {again}"


def _describe_rest(
    workspace: Workspace, splits: Sequence[SplitStatus], rejected: int
) -> tuple[State, str]:
    """Where nobody works."""
    sealed = workspace.manifest.exists()
    missing = sum(split.shards - split.shards_done for split in splits)
    if sealed and missing:
        again = "run the same command again"
        if read_job(workspace).generations:
            again = "it grew by --append, so bring them back, or make it anew by --overwrite"
        text = f"sealed, but {counted(missing, 'shard')} missing; {again}"
        return "incomplete", text
    if sealed:
        # Without a look into the manifest where there is no need: it takes longer than the rest.
        part = SealedSet.read(workspace.out).part if (workspace.out / PART).exists() else None
        return "sealed", "sealed" if part is None else f"sealed, {described(part)}"
    if missing or not splits:
        return "stopped", "not running and not finished; run the same command again to resume"
    if rejected:
        text = f"not sealed: --max_bad {rejected} with the same command accepts what was rejected"
        return "rejected", text
    return "written", "every shard is there, not sealed; run the same command again to seal it"


def _splits(workspace: Workspace, records: list[CommitRecord]) -> tuple[SplitStatus, ...]:
    if not workspace.job.exists():
        return ()
    stored = read_job(workspace)
    if stored.generations and workspace.manifest.exists():
        return tuple(_grown_splits(workspace.out))
    made = stored.identity
    return tuple(
        SplitStatus(
            name=split,
            shards=shards,
            shards_done=sum(record.shard.split == split for record in records),
            images=made.input[split].images,
            images_done=sum(record.images for record in records if record.shard.split == split),
        )
        for split, shards in sorted(made.num_shards.items())
    )


def _grown_splits(out: Path) -> Iterator[SplitStatus]:
    """Those of a data set that --append added to: its commit records are its manifest."""
    for name, split in sorted(SealedSet.read(out).manifest.splits.items()):
        gone = [shard.records for shard in split.shards if not are_there(out, shard.files)]
        yield SplitStatus(
            name=name,
            shards=len(split.shards),
            shards_done=len(split.shards) - len(gone),
            images=split.images_found,
            images_done=split.images_found - sum(gone),
        )


def _rate(workspace: Workspace, records: list[CommitRecord], since: float) -> float | None:
    """Images a second since the run that holds the lock took it."""
    try:
        made = [
            (status.st_mtime, record.images)
            for record in records
            if (status := workspace.record(record.shard).stat()).st_mtime > since
        ]
    except FileNotFoundError:
        return None  # a record that another run has just replaced
    if not made:
        return None
    return sum(images for _, images in made) / (max(moment for moment, _ in made) - since)
