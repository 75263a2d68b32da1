"""Files that are not a data set's own, but that its readers would take in."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path


def strangers(splits: Collection[str], own: Collection[Path]) -> Iterator[Path]:
    """What lies where the shards are and would be read with them.

    That is what begins like a shard, since readers are told ``train-*``; and in a directory called
    after its split what ends like one, since they are told ``train/*.tar``. Hidden files are not.

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
        patterns = [f"{split}-*" for split in splits]
        if directory.name in splits:
            endings = {path.suffix for path in known if path.parent == directory and path.suffix}
            patterns += [f"[!.]*{ending}" for ending in endings]
        found = {path for pattern in patterns for path in directory.glob(pattern)}
        yield from sorted(found - known)
