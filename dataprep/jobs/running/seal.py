"""The last step: account for every image, decide, join the rows of all shards, seal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from dataprep.errors import DatasetError
from dataprep.formats import FinishedShard
from dataprep.images import Statistics
from dataprep.jobs.output.commit import publish, temporary_files
from dataprep.jobs.output.lock import Lease, check_held
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.build_directory import building
from dataprep.jobs.running.job import Job, SplitJob
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import sync_directory, write_durably
from dataprep.system.job_limits import usable_cores
from dataprep.system.messages import counted, some_of
from dataprep.system.state_files import encode, file_sha256, hashed
from dataprep.system.throttle import pay
from dataprep.tables.records import row_groups
from dataprep.tables.sealing import SplitCounts, WrittenRecords, write_rows
from dataprep_schemas import manifest as shapes
from dataprep_schemas.manifest import File, Identity, Manifest, Shard, Split
from dataprep_schemas.state import CommitRecord

if TYPE_CHECKING:
    import pyarrow as pa


def seal(
    job: Job,
    identity: Identity,
    records: Sequence[CommitRecord],
    report: Callable[[str], None],
    *,
    others: Iterable[pa.Table] = (),
    statistics: Mapping[str, shapes.Statistics | None] | None = None,
) -> SealedSet:
    """Account for every image, and write the manifest.

    Args:
        identity: everything that shapes the bytes of the output.
        records: the commit record of every shard, all of them found intact.
        others: rows of the table of records, of images that no shard was to have.
        statistics: of the splits' images, if they are known from before.

    Raises:
        DatasetError: a shard was damaged since it was written, where that was to be looked at; it
            is forgotten, and made anew by the next run.
        LockedError: another run has taken the directory over.
    """
    _check_complete(job.splits, records)
    if job.request.verify_before_seal:
        report(f"reading {counted(len(records), 'shard')} again")
        _reread(job, records)
    joined = join_rows(job, records, others)
    splits: dict[str, Split] = {}
    for split in sorted(job.splits, key=lambda each: each.name):
        shards = [record for record in records if record.shard.split == split.name]
        made = merged_statistics(shards)
        known = (statistics or {}).get(split.name)
        splits[split.name] = describe_split(
            joined.splits[split.name],
            [Shard(record.records, record.files) for record in shards],
            make_split_files(job, split, shards),
            known if made is None else made.summary(),
        )
    manifest = hashed(
        Manifest(
            **{name: getattr(identity, name) for name in Identity.__struct_fields__},
            classes=job.info.classes,
            records_table=joined.file,
            totals=joined.totals,
            splits=splits,
        )
    )
    # The manifest must never outlive a shard's rename in a power cut, nor its directories.
    sync_above(job.request.out, (file.path for file in manifest.files()))
    publish_manifest(job.workspace, job.lease, encode(manifest))
    return SealedSet.of(job.request.out, manifest)


def sync_above(out: Path, names: Iterable[str]) -> None:
    """Make the renames of files last, in every directory that there is above one."""
    for directory in {out / above for name in names for above in Path(name).parents}:
        if directory.exists():
            sync_directory(directory)


def describe_split(
    counts: SplitCounts,
    shards: Sequence[Shard],
    files: tuple[File, ...],
    statistics: shapes.Statistics | None,
) -> Split:
    """What the manifest says of a split, given what the table of records says of it."""
    records = [shard.records for shard in shards]
    return Split(
        **asdict(counts),
        images_found=sum(records) + counts.rejected,
        records=sum(records),
        bytes=sum(shard.bytes for shard in shards),
        records_per_shard=(min(records), max(records)),
        shards=tuple(shards),
        files=files,
        statistics=statistics,
    )


def publish_manifest(workspace: Workspace, lease: Lease, manifest: bytes) -> None:
    """The data set is sealed from here on.

    Raises:
        LockedError: another run has taken the directory over.
    """
    write_durably(workspace.manifest, manifest, check=partial(check_held, lease))
    sync_directory(workspace.out)


def _reread(job: Job, records: Sequence[CommitRecord]) -> None:
    """Compare every shard, as storage gives it back, with what was written."""

    def is_as_written(record: CommitRecord) -> bool:
        for file in record.files:
            path = job.request.out / file.path
            with path.open("rb") as opened:  # what this machine still has in memory proves nothing
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            if file_sha256(path, pay) != file.sha256:
                return False
        return True

    with ThreadPoolExecutor(usable_cores()) as pool:
        good = [*pool.map(is_as_written, records)]
    damaged = [record.shard for record, is_good in zip(records, good, strict=True) if not is_good]
    if damaged:
        check_held(job.lease)
        job.workspace.manifest.unlink(missing_ok=True)  # an earlier seal's, of these shards
        sync_directory(job.workspace.out)
        for shard in damaged:
            job.workspace.record(shard).unlink()
        raise DatasetError(
            f"{some_of([str(shard) for shard in damaged])}: not what was written there, so nothing "
            "is sealed; check the storage and run the same command again: it makes only "
            f"{counted(len(damaged), 'shard')} anew"
        )


def _check_complete(splits: Sequence[SplitJob], records: Sequence[CommitRecord]) -> None:
    for split in splits:
        found = sum(record.images for record in records if record.shard.split == split.name)
        if found != split.images:
            raise DatasetError(
                f"{split.name}: the commit records account for {found} images, the raw data has "
                f"{split.images}; a record was damaged: use --overwrite to start anew"
            )
    for record in records:
        if record.records == 0:
            raise DatasetError(
                f"{record.shard} is empty: all its {record.images} images were rejected; "
                "mend the raw data or use fewer --num_shards, and --overwrite"
            )


def make_split_files(
    job: Job, split: SplitJob, records: Sequence[CommitRecord]
) -> tuple[File, ...]:
    """Write them anew, to the same bytes, from the commit records and the shards themselves.

    Raises:
        SinkError: they cannot be written.
    """
    sink, out = job.sink, job.request.out
    names = sink.split_paths(split.name, split.shards, job.request.layout)
    if not names:
        return ()
    finals = [out / name for name in names]
    shards = [
        FinishedShard(
            paths=tuple(out / file.path for file in record.files),
            names=tuple(PurePosixPath(file.path) for file in record.files),
            records=record.records,
        )
        for record in records
    ]
    with temporary_files(finals) as temporaries:
        with building(temporaries, job) as places:
            written = sink.finish_split(places.paths, job.info, shards)
            places.deliver(written)
        publish(temporaries, finals, partial(check_held, job.lease))
    return tuple(
        File(str(name), file.bytes, file.sha256) for name, file in zip(names, written, strict=True)
    )


def merged_statistics(records: Sequence[CommitRecord]) -> Statistics | None:
    """The statistics of all shards together; None if none were collected."""
    collected = [record.statistics for record in records if record.statistics is not None]
    if not collected:
        return None
    merged = Statistics()
    for statistics in collected:
        merged.merge(statistics)
    return merged


def join_rows(
    job: Job, records: Sequence[CommitRecord], others: Iterable[pa.Table]
) -> WrittenRecords:
    """Write ``records.parquet``, whole or not at all, and add up what it holds.

    Memory is bounded: rows of records are read and written some at a time.

    Args:
        others: rows of images that are in no shard. Missing columns are null.

    Raises:
        DatasetError: the rows of a shard are damaged; running again makes the shard again.
    """
    from dataprep_schemas.tables import schema_of

    workspace = job.workspace
    records = sorted(records, key=lambda record: (record.shard.split, record.shard.number))
    return write_rows(
        workspace.records,
        workspace.private,
        schema_of("records", job.fields),
        stored=_rows(workspace, records, stored=True),
        rest=chain(_rows(workspace, records, stored=False), others),
        rows=sum(record.images for record in records),
        shards={split.name: split.shards for split in job.splits},
        multilabel=job.info.multilabel,
        check=partial(check_held, job.lease),
    )


def _rows(
    workspace: Workspace, records: Sequence[CommitRecord], *, stored: bool
) -> Iterator[pa.Table]:
    """Rows of shards: of the records, or of the rejected images."""
    import pyarrow.compute as pc

    chosen = pc.is_valid if stored else pc.is_null
    for record in records:
        if stored or record.rejected:
            for table in row_groups(workspace.rows(record.shard)):
                yield table.filter(chosen(table["position"])) if record.rejected else table
