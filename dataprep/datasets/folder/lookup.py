"""Looks up the files that a list names: what is there becomes images of the index."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataprep.archives.listing import is_image_name, stem_of
from dataprep.system.filesystems import walk
from dataprep.system.messages import unreadable

_LOOKS: Final = 16  # files looked up at once: on a network each takes a while


def placed(listed: pa.Table, top: str) -> pa.Table:
    """With where the files of keys are below a directory."""
    keys = listed["key"]
    paths = pc.binary_join_element_wise(top, keys, "/") if top else keys
    return with_columns(listed, container=paths, offset=0)


def files_in(raw: Path, folder: str) -> dict[str, str]:
    """The files in a folder, by name; images also without suffix, where that is one alone."""
    there: list[str] = []
    with suppress(OSError):
        there = os.listdir(raw / folder)  # noqa: PTH208 - of any text
    images = [each for each in there if is_image_name(each)]
    numbers = Counter(map(stem_of, images))
    stems = {stem: each for each in images if numbers[stem := stem_of(each)] == 1}
    return {each: each for each in there} | stems | {each: each for each in images}


class Stems:
    """Finds files that a list names without their suffix, or without their folder, or both.

    It is the only image that can be meant: in the folder that is named, or where none is, below the
    directory that listed paths start from, as in sets whose images are in several parts.

    Attributes:
        found: how many, without their suffix.
        below: how many, without their folder.
    """

    def __init__(self, raw: Path, top: str) -> None:
        self._files_in = cache(partial(files_in, raw))
        self._top, self._images_below = top, cache(partial(_images_below, raw, top))
        self.found = self.below = 0

    def complete(self, path: str) -> str:
        """The path of the file; as it is if there is no such file, or more than one."""
        folder, _, stem = path.rpartition("/")
        whole = stem if is_image_name(stem) else self._files_in(folder).get(stem, stem)
        if whole == stem and folder == self._top and (only := self._images_below().get(stem)):
            self.below += 1
            return only
        self.found += whole != stem
        return path[: len(path) - len(stem)] + whole


def _images_below(raw: Path, top: str) -> dict[str, str]:
    """The images in folders below a directory, by their names and by their stems; only ones."""
    found: dict[str, str] = {}
    for below, entries in walk(raw / top):
        for entry in entries if below else ():
            if is_image_name(entry.name):
                path = f"{top}/{below}/{entry.name}".lstrip("/")
                for name in (entry.name, stem_of(entry.name)):
                    found[name] = "" if name in found else path
    return found


def look_up(
    raw: Path, listed: pa.Table, place: str, stems: Stems | None = None
) -> tuple[pa.Table, pa.Table]:
    """Rows of the files that are there, and of those that are not.

    Args:
        listed: with the path of each in ``container``.
        place: the list, for what is missing.
        stems: what finds files that are listed without their suffix; None: nothing does.

    Raises:
        SourceError: a file cannot be looked at.
    """
    paths = listed["container"].to_pylist()
    step = max(1, -(-len(paths) // _LOOKS))
    pieces = [paths[at : at + step] for at in range(0, len(paths), step)]
    with ThreadPoolExecutor(_LOOKS) as pool:
        found = list(chain.from_iterable(pool.map(lambda some: _look(raw, some), pieces)))
    if stems is not None and None in found:
        paths = [
            path if it else stems.complete(path) for path, it in zip(paths, found, strict=True)
        ]
        found = [it or _look(raw, [path])[0] for path, it in zip(paths, found, strict=True)]
        listed = listed.set_column(
            listed.column_names.index("container"), "container", pa.array(paths, pa.string())
        )
    size = pa.array([each and each[0] for each in found], pa.int64())
    mtime = pa.array([each and each[1] for each in found], pa.int64())
    there = size.is_valid()
    images = with_columns(listed, status="image", size=size, container_mtime=mtime).filter(there)
    images = with_columns(images, modified=pc.divide(images["container_mtime"], 1_000_000_000))
    missing = listed.select(["key", "split"]).filter(pc.invert(there))
    return images, with_columns(missing, status="missing", container=place)


def _look(raw: Path, paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """The size and the modification time in nanoseconds of each; None where there is no file."""
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            status = os.stat(f"{raw}/{path}")  # noqa: PTH116 - a Path takes as long as the call
        except (FileNotFoundError, NotADirectoryError):
            found.append(None)
        except OSError as error:
            raise unreadable(path, error) from error
        else:
            is_file = stat.S_ISREG(status.st_mode)
            found.append((status.st_size, status.st_mtime_ns) if is_file else None)
    return found


def with_columns(table: pa.Table, **columns: Any) -> pa.Table:
    """With more columns; a value stands in every row."""
    for name, value in columns.items():
        is_column = isinstance(value, (pa.Array, pa.ChunkedArray))
        table = table.append_column(name, value if is_column else pa.repeat(value, len(table)))
    return table
