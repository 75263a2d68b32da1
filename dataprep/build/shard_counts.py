"""How many shards a split is cut into, when the user, the readers and the format may all care."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dataprep.build.job import Output
from dataprep.build.request import EVERY_SPLIT
from dataprep.errors import UsageError
from dataprep.sinks import Sink
from dataprep.system.messages import counted

# The counts of Google's imagenet_to_gcs, which tensorflow/models' reader insists on.
_PREFERRED = {"train": 1024}
_OTHERS = 128


def choose_shard_count(
    split: str,
    images: int,
    wanted: Mapping[str, int] | None,
    output: Output,
    *,
    like: int | None = None,
) -> int:
    """The count that was asked for, or the one that the format's users expect.

    Args:
        split: its name.
        images: how many it has.
        wanted: what the user asked for, if anything.
        output: the format, and what is true of every example.
        like: the count to take if none was asked for and the format allows it.

    Raises:
        UsageError: it does not fit the number of images, or the format's limits.
    """
    sink = output.load_sink()
    most = sink.most_images(output.info)
    if most == 0:
        raise UsageError(f"one such image is more than a file of {sink.name} can hold")
    least = 1 if most is None else math.ceil(images / most)
    asked = _asked(split, wanted)
    if asked is None:
        return max(like or default_shard_count(images, _preferred(split, sink)), least)
    check_shard_count(images, asked, split)
    if asked < least:
        raise UsageError(
            f"--num_shards {split}={asked}: a shard of {sink.name} holds at most {most:,} such "
            f"images, so {split} needs at least {least} shards"
        )
    return asked


def explain_shard_count(
    split: str, shards: int, wanted: Mapping[str, int] | None, output: Output
) -> str:
    """Why there are fewer shards than the readers of the field expect, if so."""
    preferred = _preferred(split, output.load_sink())
    if shards >= preferred or _asked(split, wanted) is not None:
        return ""
    return f" (fewer than the default {preferred}, so that each holds at least 100)"


def check_shard_count(count: int, shards: int, split: str) -> None:
    """Refuse a shard count that would leave a shard empty.

    Raises:
        UsageError: with the count that would work in its text.
    """
    if shards < 1:
        raise UsageError(f"--num_shards {split}={shards}: a split needs at least 1 shard")
    if shards > count:
        raise UsageError(
            f"--num_shards {split}={shards}: {split} has {counted(count, 'image')}, so "
            f"{counted(shards - count, 'shard')} would be empty; use at most {split}={count}"
        )


def default_shard_count(count: int, preferred: int, *, smallest: int = 100) -> int:
    """The shard count to use where the user gave none.

    ``preferred`` where that gives at least ``smallest`` examples a shard, else the largest
    power of two that does, and never less than 1.
    """
    if count >= preferred * smallest:
        return preferred
    fitting = max(count // smallest, 1)
    return int(1 << (fitting.bit_length() - 1))


def _asked(split: str, wanted: Mapping[str, int] | None) -> int | None:
    return None if wanted is None else wanted.get(split, wanted.get(EVERY_SPLIT))


def _preferred(split: str, sink: Sink) -> int:
    preferred = _PREFERRED.get(split, _OTHERS)
    return preferred if sink.usual_shards is None else min(preferred, sink.usual_shards)
