"""Where shards of formats with one file a split by default go."""

from __future__ import annotations

from pathlib import PurePosixPath

from dataprep.sinks.base import Layout, ShardName


def shard_path(shard: ShardName, layout: Layout, suffix: str) -> PurePosixPath:
    """The place of one of a shard's files, relative to the output directory.

    A shard that is its whole split is named after it, as ``im2rec`` and Caffe's scripts do:
    ``train.rec``. Of several, each has its number: ``train/train-00000-of-00004.rec``, without the
    directory if the layout is flat.
    """
    if shard.count == 1:
        return PurePosixPath(shard.split + suffix)
    name = f"{shard}{suffix}"
    return PurePosixPath(name) if layout == "flat" else PurePosixPath(shard.split, name)
