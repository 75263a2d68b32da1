"""``--keep_rejected``: the bytes of what is not in the data set, for whoever wants to look."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from dataprep.assembly.commit import Rejected
from dataprep.assembly.job import Job
from dataprep.assembly.workspace import write_durably
from dataprep.errors import SourceError
from dataprep.index import Row
from dataprep.sources import read_image


def keep_rejected_images(job: Job, rejected: Sequence[tuple[str, Rejected]]) -> None:
    """Copy rejected images, by split, from the raw data to ``OUT/rejected/<split>/``.

    Raises:
        SourceError: the raw data cannot be read any more.
    """
    for split, image in rejected:
        row = Row(image.key, image.source, image.offset, image.size, 0, 0)
        try:
            data = read_image(job.raw, row)
        except SourceError as error:
            raise SourceError(f"--keep_rejected: {error}") from error
        directory = job.workspace.rejected / split
        directory.mkdir(parents=True, exist_ok=True)
        write_durably(directory / safe_file_name(image.key), data)


def safe_file_name(key: str) -> str:
    """A file name for a key, which is data from an archive and may hold anything."""
    plain = key.replace("/", "_")
    name = re.sub(r"[^A-Za-z0-9._-]", "_", plain).lstrip(".")[-200:]
    if name == plain:
        return name
    return f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}-{name}"
