"""``--keep_rejected``: the bytes of what is not in the data set, for whoever wants to look."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from dataprep.assembly.commit import Rejected
from dataprep.assembly.job import Job
from dataprep.durable_files import write_durably
from dataprep.sinks import ShardName


def keep_rejected_images(job: Job, rejected: Mapping[ShardName, Sequence[Rejected]]) -> None:
    """Copy rejected images, by shard, from the raw data to ``OUT/rejected/<split>/``.

    Raises:
        SourceError: the raw data cannot be read any more.
    """

    def keep(split: str, key: str, data: bytes) -> None:
        directory = job.workspace.rejected / split
        directory.mkdir(parents=True, exist_ok=True)
        write_durably(directory / safe_file_name(key), data)

    job.keep_rejected(rejected, keep)


def safe_file_name(key: str) -> str:
    """A file name for a key, which is data from an archive and may hold anything."""
    plain = key.replace("/", "_")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", plain).lstrip(".")[-200:]
    if name == plain:
        return name
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}-{name}"
