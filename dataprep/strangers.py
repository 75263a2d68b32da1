"""Files that are not a data set's own, but that its readers would take in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path


def strangers(splits: Collection[str], own: Collection[Path]) -> Iterator[Path]:
    """What lies where the shards are and is called like one: ``train-00000-of-00004.tar``.

    Args:
        splits: their names.
        own: every file of the data set; those it would be mistaken for lie beside them.
    """
    known = set(own)
    places = {path.parent for path in own}
    # A shard may be a directory that holds its files, such as Caffe's databases.
    shard_directories = {
        place
        for place in places
        for split in splits
        if place.name.startswith(f"{split}-") and "-of-" in place.name
    }
    known |= shard_directories
    places = (places - shard_directories) | {place.parent for place in shard_directories}
    for directory in sorted(places):
        for split in splits:
            for path in sorted(directory.glob(f"{split}-*-of-*")):
                if path not in known:
                    yield path
