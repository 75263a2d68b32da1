"""Files beside a data set that its readers would take for a part of it."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def foreign_files(out: Path, splits: Collection[str], own: Iterable[str]) -> Iterator[str]:
    """Files that are not the data set's own, but that its readers would take in.

    That is what begins like a shard, since readers are told ``train-*``; and in a directory called
    after its split what ends like one, since they are told ``train/*.tar``. Hidden files are not.

    Args:
        own: every file of the data set; those it would be mistaken for lie beside them. Relative,
            with ``/``, as what is found is.
    """
    prefixes = tuple(f"{split}-" for split in splits)
    known: dict[str, set[str]] = defaultdict(set)  # names, by directory; there may be 300,000
    for path in own:
        place, _, name = path.rpartition("/")
        above, _, folder = place.rpartition("/")
        # A shard may be a directory that holds its files, such as Caffe's databases.
        if "-of-" in folder and folder.startswith(prefixes):
            known[above].add(folder)
        else:
            known[place].add(name)
    for place, names in sorted(known.items()):
        directory = out / place
        alike = names if directory.name in splits else ()
        endings = tuple({PurePosixPath(name).suffix for name in alike} - {""})
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for name in sorted({*os.listdir(directory)} - names):  # noqa: PTH208  # names will do
                if name.startswith(prefixes) or (name.endswith(endings) and name[0] != "."):
                    yield f"{place}/{name}" if place else name
