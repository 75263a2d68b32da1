"""How much room a job needs, asked before the first byte is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from dataprep.assembly.job import Job
from dataprep.errors import SinkError
from dataprep.sinks import ShardName
from dataprep.wording import sized


def check_free_space(job: Job, pending: Sequence[ShardName]) -> None:
    """Refuse a job that cannot fit; a quota is not seen here: it shows as a full disk.

    Raises:
        SinkError: the file system has less room than the pending shards need.
    """
    needed = job.estimate_bytes(pending) if pending else 0
    free = shutil.disk_usage(job.workspace.out).free
    if needed > free:
        raise SinkError(
            f"{job.workspace.out}: about {sized(needed)} needed, {sized(free)} free; "
            "free some space, choose another output directory, or shrink the images (--resize)"
        )
