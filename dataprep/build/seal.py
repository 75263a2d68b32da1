"""The last step: account for every image, decide, and write the manifest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from dataprep.build.build_directory import building, check_written
from dataprep.build.commit import CommitRecord, CommittedFile, publish, temporary_files
from dataprep.build.job import Job, SplitJob
from dataprep.build.joined_rows import Counted, join_rows
from dataprep.build.lock import check_held
from dataprep.build.manifest import seal_manifest
from dataprep.build.request import MaxBad
from dataprep.errors import DatasetError, RejectedError
from dataprep.images import Statistics
from dataprep.index.records import conspicuous
from dataprep.sinks import FinishedShard, ShardName
from dataprep.system.durable_files import sync_directory, write_durably
from dataprep.system.messages import printable
from dataprep.system.state_files import to_json

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 10  # rejected images spelled out on the terminal; all of them are in the table


@dataclass(frozen=True, slots=True)
class Sealed:
    """What is sealed.

    Attributes:
        unmatched: images that are listed but missing, or there but not listed.
        spread: the largest difference of any class's count between two shards of a stratified
            split, if an image has any number of classes; None if there is none.
    """

    records: int
    bytes: int
    shards: int
    rejected: int
    noted: int
    unmatched: int = 0
    spread: int | None = None


def seal(
    job: Job,
    identity: Mapping[str, object],
    records: Sequence[CommitRecord],
    *,
    max_bad: MaxBad,
    keep_rejected: bool,
    report: Callable[[str], None],
    missing: int = 0,
    unlisted: int = 0,
    others: Iterable[pa.Table] = (),
    statistics: Mapping[str, Any] | None = None,
) -> Sealed:
    """Write the manifest, if no more images were rejected than the user allows.

    Every decision is made from the commit records, so accepting rejected images later costs no
    second pass over the data.

    Args:
        job: what was built.
        identity: everything that shapes the bytes of the output.
        records: the commit record of every shard, all of them found intact.
        max_bad: how many images may be rejected, missing or not listed.
        keep_rejected: whether to copy rejected images.
        report: takes one line for the user.
        missing: how many images are listed but not there.
        unlisted: how many are there but not listed.
        others: rows of the table of records, of images that no shard was to have.
        statistics: of the splits' images, if they are known from before.

    Raises:
        RejectedError: more were rejected; nothing is sealed, everything is kept.
        LockedError: another run has taken the directory over.
    """
    rejected = sum(record.rejected for record in records)
    bad = rejected + missing + unlisted
    for split, key, container, reason in islice(rejected_images(job, records), _SHOWN):
        report(printable(f"rejected: {split}: {key} in {container}: {reason}"))
    if rejected > _SHOWN:
        report(f"rejected: and {rejected - _SHOWN} more; `dataprep status` lists them all")
    if keep_rejected:
        keep_rejected_images(job, rejected_keys(job, records))
    images = sum(split.images for split in job.splits) + missing
    if not max_bad.allows(bad, images):
        others = f" and {missing + unlisted} missing or not listed" if missing + unlisted else ""
        raise RejectedError(
            f"{rejected} of {images:,} images rejected{others}, --max_bad allows {max_bad}; "
            f"the shards are kept, {_seal_state(job)}",
            rejected=bad,
        )
    _check_complete(job, records)
    by_split = {
        split.name: [record for record in records if record.split == split.name]
        for split in job.splits
    }
    joined = join_rows(job, records, others)
    known = statistics or {}
    files = {split.name: make_split_files(job, split, by_split[split.name]) for split in job.splits}
    manifest = seal_manifest(
        {
            **identity,
            "classes": [list(entry) for entry in job.output.info.classes],
            "records_table": joined.described,
            "totals": joined.totals,
            "splits": {
                name: describe_split(shards, files[name], joined.splits[name], known.get(name))
                for name, shards in by_split.items()
            },
        }
    )
    # The manifest must never outlive a shard's rename in a power cut.
    out = job.workspace.out
    written = [*chain(*files.values()), *chain(*(record.files for record in records))]
    for directory in {out, *((out / file.path).parent for file in written)}:
        sync_directory(directory)
    check_held(job.workspace, job.lease)
    write_durably(job.workspace.manifest, to_json(manifest))
    sync_directory(out)
    return Sealed(
        records=sum(record.records for record in records),
        bytes=sum(file.bytes for file in written),
        shards=len(records),
        rejected=joined.totals["rejected"],
        noted=joined.totals["repaired"] + joined.totals["warned"],
        unmatched=missing + unlisted,
        spread=_worst_spread(manifest) if job.output.info.multilabel else None,
    )


def _worst_spread(manifest: Mapping[str, Any]) -> int | None:
    """The worst of all stratified splits of several shards; None if there is no such split."""
    several = [
        int(split["class_spread"])
        for name, split in manifest["splits"].items()
        if len(split["shards"]) > 1 and manifest["shuffle"][name] == "stratified"
    ]
    return max(several, default=None)


def _seal_state(job: Job) -> str:
    return "and so is an earlier seal" if job.workspace.manifest.exists() else "but not sealed"


def _check_complete(job: Job, records: Sequence[CommitRecord]) -> None:
    for split in job.splits:
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
    output, out = job.output, job.workspace.out
    sink = output.load_sink()
    names = sink.split_paths(split.name, split.shards, output.layout)
    if not names:
        return []
    finals = [out / name for name in names]
    shards = [_finished(out, record) for record in records]
    statistics = merged_statistics(records)
    with temporary_files(finals) as temporaries:
        with building(temporaries, output) as places:
            written = sink.finish_split(places.paths, output.info, shards, statistics)
            check_written(sink, places.paths, written)
            places.deliver(written)
        publish(temporaries, finals)
    return [
        CommittedFile(str(name), file.bytes, file.sha256)
        for name, file in zip(names, written, strict=True)
    ]


def _finished(out: Path, record: CommitRecord) -> FinishedShard:
    return FinishedShard(
        paths=tuple(out / file.path for file in record.files),
        names=tuple(PurePosixPath(file.path) for file in record.files),
        records=record.records,
    )


def describe_split(
    records: Sequence[CommitRecord],
    files: Sequence[CommittedFile],
    counted: Counted,
    known: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One split of the manifest.

    Args:
        records: the commit record of every shard of the split, by number.
        files: those made once for the whole split.
        counted: what the table of records says of it.
        known: statistics of the images from before, if none were collected now.
    """
    counts = [record.records for record in records]
    statistics = merged_statistics(records)
    return {
        "images_found": sum(counts) + counted.totals["rejected"],
        "records": sum(counts),
        **counted.totals,
        "bytes": sum(record.total_bytes for record in records),
        "records_per_shard": [min(counts), max(counts)],
        "class_spread": counted.class_spread,
        "label_set_spread": counted.label_set_spread,
        "class_records": {str(label): count for label, count in counted.classes.items()},
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


def keep_rejected_images(job: Job, rejected: Iterable[tuple[ShardName, Collection[str]]]) -> None:
    """Copy rejected images, given by shard and key, from the raw data to ``OUT/rejected/<split>/``.

    Raises:
        SourceError: the raw data cannot be read any more.
    """

    def keep(split: str, key: str, data: bytes) -> None:
        directory = job.workspace.rejected / split
        directory.mkdir(parents=True, exist_ok=True)
        write_durably(directory / safe_file_name(key), data)

    job.keep_rejected(rejected, keep)


def rejected_images(
    job: Job, records: Sequence[CommitRecord]
) -> Iterator[tuple[str, str, str, str]]:
    """Split, key, container and reason of every rejected image."""
    columns = ("status", "split", "key", "container", "reason")
    for record in records:
        if record.rejected:
            for status, *found in conspicuous(job.workspace.rows(record.shard), columns):
                if status == "rejected":
                    yield tuple(found)


def rejected_keys(
    job: Job, records: Sequence[CommitRecord]
) -> Iterator[tuple[ShardName, list[str]]]:
    """The shards that have any, and their keys."""
    for record in records:
        if record.rejected:
            yield record.shard, [key for _, key, *_ in rejected_images(job, [record])]


def safe_file_name(key: str) -> str:
    """A file name for a key, which is data from an archive and may hold anything."""
    plain = key.replace("/", "_")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", plain).lstrip(".")[-200:]
    if name == plain:
        return name
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}-{name}"
