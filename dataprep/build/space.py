"""How much room a job needs, asked before the first byte is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from dataprep.build.build_directory import build_place
from dataprep.build.job import Job
from dataprep.errors import SinkError
from dataprep.sinks import ShardName
from dataprep.system.messages import sized


def check_free_space(job: Job, pending: Sequence[ShardName], *, at_once: int) -> None:
    """Refuse a job that cannot fit; a quota is not seen here: it shows as a full disk.

    Args:
        job: what is to be built.
        pending: the shards that are not there yet.
        at_once: how many of them are built at the same time, at most.

    Raises:
        SinkError: the file system has less room than the pending shards need, or the one that
            they are built on less than those need that are built at once.
    """
    needed = job.estimate_bytes(pending) if pending else 0
    _require(
        job.workspace.out,
        needed,
        "free some space, choose another output directory, or shrink the images (--resize)",
    )
    place = build_place(job.output)
    if place is not None and pending:
        share = needed * min(at_once, len(pending)) // len(pending)
        _require(place, share, "choose another --build_dir, or more --num_shards")


def _require(place: Path, needed: int, remedy: str) -> None:
    free = shutil.disk_usage(place).free
    if needed > free:
        raise SinkError(f"{place}: about {sized(needed)} needed, {sized(free)} free; {remedy}")
