"""Starts ``dataprep imagenet`` on a raw tree, each time into a fresh output directory."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks import raw_set
from benchmarks.measure import Usage, run
from benchmarks.setting import Setting

IMAGES_PER_SHARD = 1000  # ImageNet's 1024 shards hold 1252 each


def imagenet(
    setting: Setting,
    images: int,
    *options: str,
    shard: int | None = IMAGES_PER_SHARD,
    watched: bool = False,
    program: str = "dataprep",
) -> Usage:
    """Prepare a tree of so many images, flush it to disk, and delete it.

    Args:
        setting: where.
        images: how many.
        options: of ``dataprep imagenet``.
        shard: images in each shard; None for as many shards as the format's users get.
        watched: look at the memory of every process.
        program: the module that is run.
    """
    raw = raw_set.tree(setting, images)
    counts = () if shard is None else ("--num_shards", f"train={max(images // shard, 1)}")
    with fresh(setting.work / "out") as out:
        usage = run(
            [
                *(sys.executable, "-m", program, "imagenet"),
                *("--raw_data_dir", raw, "--local_scratch_dir", out),
                *("--splits", "train", *counts, *options),
            ],
            flush=True,
            watched=watched,
        )
        return replace(usage, written_bytes=_size(out))


@contextmanager
def fresh(directory: Path) -> Iterator[Path]:
    """A path where nothing is, and where nothing is left."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
