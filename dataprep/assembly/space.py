"""How much room a job needs, asked before the first byte is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from dataprep.assembly.deck import read_shard, read_slices
from dataprep.assembly.job import Job
from dataprep.errors import ImageError, SinkError
from dataprep.images import Recipe, prepare
from dataprep.plugins import load_sink
from dataprep.sinks import ShardName
from dataprep.sources import read_image
from dataprep.wording import sized

_SAMPLE = 32  # images converted to learn how much smaller they become


def check_free_space(job: Job, pending: Sequence[ShardName]) -> None:
    """Refuse a job that cannot fit.

    Exact to about 1 % where images pass through; where they are resized, estimated from a
    sample of the first pending shard. A quota is not seen here: it shows as a full disk.

    Raises:
        SinkError: the file system has less room than the pending shards need.
    """
    needed = estimate_bytes(job, pending)
    free = shutil.disk_usage(job.workspace.out).free
    if needed > free:
        raise SinkError(
            f"{job.workspace.out}: about {sized(needed)} needed, {sized(free)} free; "
            "free some space, choose another --local_scratch_dir, or shrink the images (--resize)"
        )


def estimate_bytes(job: Job, pending: Sequence[ShardName]) -> int:
    """The size of the pending shards together, in bytes."""
    if not pending:
        return 0
    slices = {split.name: read_slices(job.workspace, split.name) for split in job.splits}
    images = sum(slices[shard.split].images[shard.number] for shard in pending)
    source = sum(slices[shard.split].source_bytes[shard.number] for shard in pending)
    ratio = _measured_ratio(job, pending[0]) if _changes_size(job.recipe) else 1.0
    return int(source * ratio) + images * load_sink(job.sink).overhead()


def _changes_size(recipe: Recipe) -> bool:
    plain = Recipe()
    return (recipe.resize, recipe.center_crop, recipe.encoding, recipe.color) != (
        plain.resize,
        plain.center_crop,
        plain.encoding,
        plain.color,
    )


def _measured_ratio(job: Job, shard: ShardName) -> float:
    source = made = 0
    for row in read_shard(job.workspace, shard)[:_SAMPLE]:
        try:
            made += len(prepare(read_image(job.raw, row), job.recipe).data)
        except ImageError:
            continue
        source += row.size
    return made / source if source else 1.0
