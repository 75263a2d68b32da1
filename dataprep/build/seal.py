"""The last step: account for every image, decide, join the rows of all shards, seal."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from dataprep.build.build_directory import building
from dataprep.build.commit import (
    CommitRecord,
    CommittedFile,
    publish,
    rejected_images,
    temporary_files,
)
from dataprep.build.job import Job, SplitJob
from dataprep.build.lock import Lease, check_held
from dataprep.build.request import MaxBad
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError, RejectedError
from dataprep.images import Statistics
from dataprep.sealed.manifest import seal_manifest
from dataprep.sinks import FinishedShard
from dataprep.system.cores import usable_cores
from dataprep.system.durable_files import partial_path, rename, sync_directory, write_durably
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.state_files import file_sha256, to_json
from dataprep.system.throttle import pay
from dataprep.tables import records as records_table
from dataprep.tables.records import STATUSES, STORED, parquet_writer, row_groups

if TYPE_CHECKING:
    import pyarrow as pa

    from dataprep.tables.database import Database


_SHOWN = 10  # rejected images spelled out on the terminal; all of them are in the table
_GROUP: Final = 1 << 16  # rows; of a shard of ImageNet's usual 1024, few groups have any
_SUMMED: Final = STATUSES[1:]


def seal(
    job: Job,
    identity: Mapping[str, object],
    records: Sequence[CommitRecord],
    *,
    max_bad: MaxBad,
    report: Callable[[str], None],
    missing: int = 0,
    unlisted: int = 0,
    others: Iterable[pa.Table] = (),
    statistics: Mapping[str, Any] | None = None,
    before: tuple[int, int] = (0, 0),
) -> Mapping[str, Any]:
    """Write the manifest, if no more images were rejected than the user allows.

    Every decision is made from the commit records, so accepting rejected images later costs no
    second pass over the data.

    Args:
        identity: everything that shapes the bytes of the output.
        records: the commit record of every shard, all of them found intact.
        max_bad: how many images may be rejected, missing or not listed.
        missing: how many images are listed but not there.
        unlisted: how many are there but not listed, and names to exclude that no image has.
        others: rows of the table of records, of images that no shard was to have.
        statistics: of the splits' images, if they are known from before.
        before: how many images the data set has that this is to be added to, and how many others
            were rejected for it: what is allowed is allowed of all together.

    Returns:
        The manifest.

    Raises:
        RejectedError: more were rejected; nothing is sealed, everything is kept.
        DatasetError: a shard was damaged since it was written, where that was to be looked at; it
            is forgotten, and made anew by the next run.
        LockedError: another run has taken the directory over.
    """
    rejected = sum(record.rejected for record in records)
    for name, key, container, reason in islice(rejected_images(job.workspace, records), _SHOWN):
        report(printable(f"rejected: {name}: {key} in {container}: {reason}"))
    if rejected > _SHOWN:
        report(f"rejected: and {rejected - _SHOWN} more; `dataprep status` lists them all")
    bad = before[1] + rejected + missing + unlisted
    images = before[0] + sum(split.images for split in job.splits) + missing
    if not max_bad.allows(bad, images):
        odd = missing + unlisted
        more = f" and {odd} missing, not listed, or only in --exclude" if odd else ""
        sealed = (
            "and so is an earlier seal" if job.workspace.manifest.exists() else "but not sealed"
        )
        raise RejectedError(
            f"{before[1] + rejected} of {images:,} images rejected{more}, --max_bad allows "
            f"{max_bad}; the shards are kept, {sealed}",
            rejected=bad,
        )
    _check_complete(job.splits, records)
    if job.request.verify_before_seal:
        report(f"reading {counted(len(records), 'shard')} again")
        _reread(job, records, "sealed" if before[0] == 0 else "added to the data set")
    joined = join_rows(job, records, others)
    splits: dict[str, Any] = {}
    for split in job.splits:
        shards = [record for record in records if record.split == split.name]
        known = (statistics or {}).get(split.name)
        files = make_split_files(job, split, shards)
        splits[split.name] = describe_split(shards, files, joined["splits"][split.name], known)
    manifest = seal_manifest(
        {
            **identity,
            "classes": [list(entry) for entry in job.info.classes],
            **joined,
            "splits": splits,
        }
    )
    # The manifest must never outlive a shard's rename in a power cut, nor its directories.
    out = job.request.out
    written = [*chain(*(split["files"] for split in splits.values()))]
    written += [asdict(file) for record in records for file in record.files]
    for directory in {out / above for file in written for above in Path(file["path"]).parents}:
        sync_directory(directory)
    publish_manifest(job.workspace, job.lease, to_json(manifest))
    return manifest


def publish_manifest(workspace: Workspace, lease: Lease, manifest: bytes) -> None:
    """The data set is sealed from here on.

    Raises:
        LockedError: another run has taken the directory over.
    """
    write_durably(workspace.manifest, manifest, check=partial(check_held, lease))
    sync_directory(workspace.out)


def _reread(job: Job, records: Sequence[CommitRecord], done: str) -> None:
    """Compare every shard, as storage gives it back, with what was written; before it is `done`."""

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
            f"is {done}; check the storage and run the same command again: it makes only "
            f"{counted(len(damaged), 'shard')} anew"
        )


def _check_complete(splits: Sequence[SplitJob], records: Sequence[CommitRecord]) -> None:
    for split in splits:
        found = sum(record.images for record in records if record.split == split.name)
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
) -> list[CommittedFile]:
    """Write them anew, to the same bytes, from the commit records and the shards themselves.

    Raises:
        SinkError: they cannot be written.
    """
    sink, out = job.sink, job.request.out
    names = sink.split_paths(split.name, split.shards, job.request.layout)
    if not names:
        return []
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
            written = sink.finish_split(places.paths, job.info, shards, merged_statistics(records))
            places.deliver(written)
        publish(temporaries, finals, partial(check_held, job.lease))
    return [
        CommittedFile(str(name), file.bytes, file.sha256)
        for name, file in zip(names, written, strict=True)
    ]


def describe_split(
    records: Sequence[CommitRecord],
    files: Sequence[CommittedFile],
    counted: Mapping[str, Any],
    known: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One split of the manifest.

    Args:
        records: the commit record of every shard of the split, by number.
        counted: what the table of records says of it; see `join_rows`.
    """
    counts = [record.records for record in records]
    statistics = merged_statistics(records)
    return {
        "images_found": sum(counts) + counted["rejected"],
        "records": sum(counts),
        **counted,
        "bytes": sum(record.total_bytes for record in records),
        "records_per_shard": [min(counts), max(counts)],
        "shards": [
            {"records": record.records, "files": [asdict(file) for file in record.files]}
            for record in records
        ],
        "files": [asdict(file) for file in files],
        "statistics": known if statistics is None else statistics.summary(),
    }


def merged_statistics(records: Sequence[CommitRecord]) -> Statistics | None:
    """The statistics of all shards together; None if none were collected."""
    collected = [record.statistics for record in records if record.statistics is not None]
    if not collected:
        return None
    merged = Statistics()
    for statistics in collected:
        merged.merge(Statistics.from_json(statistics))
    return merged


def join_rows(
    job: Job, records: Sequence[CommitRecord], others: Iterable[pa.Table]
) -> Mapping[str, Any]:
    """Write ``records.parquet``, whole or not at all, and add up what it holds.

    Memory is bounded: rows of records are read and written some at a time.

    Args:
        others: rows of images that are in no shard. Missing columns are null.

    Returns:
        What the manifest says of it: ``records_table``, the file; ``totals``: how many records
        there are, and rows of each other status, those of no split, too; ``splits``: rows of each
        status but ``records``, ``class_records`` by class index, where one with several labels
        counts for each, ``class_spread``: the largest difference of any class's count between two
        shards, and ``label_set_spread``: the same of any set of labels that records have together,
        0 where they have one each.

    Raises:
        DatasetError: the rows of a shard are damaged; running again makes the shard again.
    """
    from dataprep_schemas.tables import schema_of

    workspace = job.workspace
    records = sorted(records, key=lambda record: (record.split, record.number))
    return write_rows(
        workspace.records,
        workspace.private,
        schema_of("records", job.attributes),
        stored=_rows(workspace, records, stored=True),
        rest=chain(_rows(workspace, records, stored=False), others),
        rows=sum(record.images for record in records),
        shards={split.name: split.shards for split in job.splits},
        multilabel=job.info.multilabel,
        check=partial(check_held, job.lease),
    )


def write_rows(
    path: Path,
    scratch: Path,
    schema: pa.Schema,
    *,
    stored: Iterable[pa.Table],
    rest: Iterable[pa.Table],
    rows: int,
    shards: Mapping[str, int],
    multilabel: bool,
    check: Callable[[], object] = lambda: None,
) -> Mapping[str, Any]:
    """Write a table of records, whole or not at all, and add up what it holds; see `join_rows`.

    Args:
        scratch: a directory for what does not fit into memory.
        stored: rows of records, by split, shard and position.
        check: as for `dataprep.system.durable_files.rename`.
    """
    from dataprep.tables.database import open_database, tables

    temporary = partial_path(path)
    try:
        with open_database(scratch, [temporary], rows=rows) as database:
            described = _write(temporary, chain(stored, _sorted(database, rest, schema)), schema)
            database.execute(f"create view records as from {tables([temporary])}")
            totals = _totals(database)
            splits = {
                split: totals[split] | _by_class(database, split, count, multilabel=multilabel)
                for split, count in shards.items()
            }
        rename(temporary, path, check)
    finally:
        temporary.unlink(missing_ok=True)
    everything = {status: sum(of[status] for of in totals.values()) for status in _SUMMED}
    unstored = sum(everything[status] for status in _SUMMED if status not in STORED)
    everything["records"] = described["rows"] - unstored
    return {"records_table": described, "totals": everything, "splits": splits}


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


def _sorted(
    database: Database, tables: Iterable[pa.Table], schema: pa.Schema
) -> Iterator[pa.Table]:
    """Rows that are not records, in an order that depends on nothing but themselves."""
    import pyarrow as pa

    from dataprep.tables.arrow import fitted
    from dataprep.tables.database import quoted
    from dataprep.tables.images import column_list

    rest = pa.concat_tables([schema.empty_table(), *(fitted(table, schema) for table in tables)])
    statuses = ", ".join(map(quoted, STATUSES))
    ordered = database.from_arrow(rest).order(
        f"list_position([{statuses}], status), split nulls last, {column_list(schema.names)}"
    )
    for batch in ordered.to_arrow_reader(_GROUP):
        yield pa.Table.from_batches([batch]).cast(schema)


def _write(path: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> dict[str, Any]:
    """In groups of equal size, whatever the tables' are; returns what the manifest says of it."""
    from dataprep.tables.arrow import blocks

    rows = 0
    with path.open("xb") as file:
        with parquet_writer(file, schema) as writer:
            for table in blocks(tables, _GROUP):
                writer.write_table(table, row_group_size=_GROUP)
                rows += len(table)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    return {"path": records_table.NAME, "bytes": size, "sha256": file_sha256(path), "rows": rows}


def _totals(database: Database) -> defaultdict[str | None, dict[str, int]]:
    """How many rows have each status, by split; records are only said to be such."""
    totals = defaultdict[str | None, dict[str, int]](lambda: dict.fromkeys(_SUMMED, 0))
    found = database.sql("select split, status, count(*) from records group by all").fetchall()
    for split, status, number in found:
        if status in _SUMMED:
            totals[split][status] = number
    return totals


_CLASSES = """
with counts as (
    select shard, label, count(*) as records
    from (select shard, unnest(labels) as label from records
          where split = $split and position is not null)
    group by all
)
select label, sum(records)::bigint,
       max(records) - if(count(*) < $shards, 0, min(records))
from counts group by label order by label
"""

_LABEL_SETS = """
with counts as (
    select shard, labels, count(*) as records from records
    where split = $split and position is not null group by all
)
select coalesce(max(spread), 0) from (
    select max(records) - if(count(*) < $shards, 0, min(records)) as spread
    from counts group by labels
)
"""


def _by_class(database: Database, split: str, shards: int, *, multilabel: bool) -> dict[str, Any]:
    about = {"split": split, "shards": shards}
    classes = database.execute(_CLASSES, about).fetchall()
    found = database.execute(_LABEL_SETS, about).fetchone() if multilabel else None
    return {
        "class_records": {str(label): number for label, number, _ in classes},
        "class_spread": max((spread for *_, spread in classes), default=0),
        "label_set_spread": found[0] if found else 0,
    }
