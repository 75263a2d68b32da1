"""Images that are not in the data set: which, and with ``--keep_rejected`` their bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from dataprep.build.commit import CommitRecord
from dataprep.build.job import Job
from dataprep.index.records import conspicuous
from dataprep.sinks import ShardName
from dataprep.system.durable_files import write_durably


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
