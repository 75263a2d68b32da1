"""One virtual HDF5 file over a split's shards, for readers that want one dataset.

``OUT/train.h5`` has the datasets of a shard, those of ``OUT/train/*.h5`` joined along their first
axis. Small ones are copies, so that reading them opens no shard; the images stay where they are,
and are a virtual dataset. Shards are named relative to the file, so that the directory may be
moved. HDF5 1.10 or later reads it.
"""

from __future__ import annotations

import resource
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo, FinishedShard, WrittenFile
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.hdf5_attributes import GROUP, attribute_datasets, mark_missing
from dataprep.sinks.hdf5_file import CLASS_DATASETS, damage, describe, open_file
from dataprep.sinks.hdf5_seal import check_seal
from dataprep.sinks.hdf5_stream import NotingFile, create_contiguous, laid_out

IMAGES = "images"
"""The dataset that stays in the shards."""

USUAL_SHARDS = 64
"""At most, unless the user says so. Through the virtual file HDF5 keeps every shard open that it
has read, gives zeros for those that it cannot open any more, and looks at all at every read."""

_OTHER_FILES = 64  # that a process has open: libraries, pipes, sockets


@dataclass(frozen=True, slots=True)
class _Part:
    """A dataset of one shard: its file, the same relative to the master, and what it is."""

    path: Path
    source: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def master_paths(split: str, count: int) -> tuple[PurePosixPath, ...]:
    """Where the virtual file goes; nowhere if there is one shard, which has its name."""
    return (PurePosixPath(f"{split}.h5"),) if count > 1 else ()


def write_master(
    paths: Sequence[Path],
    info: DatasetInfo,
    shards: Sequence[FinishedShard],
    *,
    sink: str,
    rebased: Mapping[str, str],
) -> Sequence[WrittenFile]:
    """Write the virtual file of a split.

    Args:
        paths: of the file; empty if there is to be none.
        info: what its attributes say.
        shards: all of the split, in order.
        sink: the format's name.
        rebased: datasets of n + 1 offsets, and the datasets they point into.

    Raises:
        SinkError: the shards do not fit together.
        OSError: it could not be written.
    """
    if not paths:
        return ()
    (path,) = paths
    columns = _survey(shards)
    disk = NotingFile(path)
    try:
        with laid_out(disk) as file:
            for name, parts in columns.items():
                if name == IMAGES:
                    _write_virtual(file, name, parts)
                elif name in rebased:
                    _write_joined(file, name, parts, columns[rebased[name]])
                else:
                    _write_joined(file, name, parts, None)
            for name in attribute_datasets(file):
                mark_missing(file[name])
            describe(file, info, sink, {})
        disk.finish()
    finally:
        disk.abandon()
    return (hash_finished(path),)


def _survey(shards: Sequence[FinishedShard]) -> dict[str, list[_Part]]:
    """The datasets that all shards have, without reading them."""
    columns: dict[str, list[_Part]] = {}
    for number, shard in enumerate(shards):
        path = shard.paths[0]
        with open_file(path) as file, damage(path, "header"):
            names = [*sorted(set(file) - CLASS_DATASETS - {GROUP}), *attribute_datasets(file)]
            for name in names:
                shape, dtype = file[name].shape, file[name].dtype
                part = _Part(path, str(shard.names[0]), shape, dtype)
                columns.setdefault(name, []).append(part)
        for name, parts in columns.items():
            if len(parts) != number + 1 or parts[-1].shape[1:] != parts[0].shape[1:]:
                raise SinkError(
                    f"{path}: dataset {name} does not fit that of {shards[0].paths[0]}; "
                    "make the split again"
                )
    return columns


def _write_virtual(file: h5py.File, name: str, parts: Sequence[_Part]) -> None:
    """Refer to the parts of all shards; h5py's own way would put the time of day in."""
    shape = (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
    properties: Any = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    space = h5py.h5s.create_simple(shape)
    start = 0
    for part in parts:
        if 0 not in part.shape:
            space.select_hyperslab((start, *(0 for _ in part.shape[1:])), part.shape)
            # HDF5 takes % in the name for the start of a pattern.
            source = part.source.replace("%", "%%").encode("utf-8", "surrogateescape")
            whole = h5py.h5s.create_simple(part.shape)
            properties.set_virtual(space, source, name.encode(), whole)
        start += part.shape[0]
    space.select_all()
    kind = h5py.h5t.py_create(parts[0].dtype, logical=True)
    h5py.h5d.create(file.id, name.encode(), kind, space, properties)


def _write_joined(
    file: h5py.File, name: str, parts: Sequence[_Part], targets: Sequence[_Part] | None
) -> None:
    """Copy a small dataset, a shard's at a time in memory.

    Args:
        file: the master.
        name: of the dataset.
        parts: what to copy.
        targets: if these are offsets, what they point into; the first of each shard is the last of
            the one before.
    """
    extra = int(targets is not None)
    rows = sum(part.shape[0] - extra for part in parts) + extra
    # Only texts differ in type, by their length.
    dtype = max((part.dtype for part in parts), key=lambda dtype: dtype.itemsize)
    if name.startswith(f"{GROUP}/"):
        file.require_group(GROUP)
    joined = create_contiguous(file, name, (rows, *parts[0].shape[1:]), dtype)
    row = base = 0
    for number, part in enumerate(parts):
        with open_file(part.path) as source, damage(part.path, f"dataset {name}"):
            values: npt.NDArray[Any] = source[name][...]
        if targets is not None:
            values = values + base
            base += targets[number].shape[0]
        if len(values):
            joined[row : row + len(values)] = values.astype(dtype)
        row += len(values) - extra


class Sources:
    """The shards behind a virtual dataset, each checked before HDF5 reads it the first time.

    What HDF5 cannot open it reads as zeros, without a word; and it keeps all open.

    Args:
        file: the master.
        dataset: of the images.

    Raises:
        SinkError: a shard is missing, or there are more than files may be open.
    """

    def __init__(self, file: h5py.File, dataset: h5py.Dataset) -> None:
        folder = Path(file.filename).parent
        sources = sorted(
            (source.vspace.get_select_bounds()[0][0], source.file_name)
            for source in dataset.virtual_sources()
        )
        self._starts = [start for start, _ in sources]
        self._paths = [folder / name.replace("%%", "%") for _, name in sources]
        self._checked: set[int] = set()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY and len(sources) + _OTHER_FILES > limit:
            raise SinkError(
                f"{file.filename} has {len(sources)} shards, and a process may open {limit} files; "
                f"say ulimit -n {len(sources) + _OTHER_FILES}, or read the shards one by one"
            )
        for path in self._paths:
            if not path.is_file():
                raise SinkError(f"{file.filename}: its shard {path} is missing; put it back there")

    def check(self, row: int) -> None:
        """Check the shard that holds this row of the dataset.

        Raises:
            SinkError: it is damaged.
        """
        number = bisect_right(self._starts, row) - 1
        if number >= 0 and number not in self._checked:
            check_seal(self._paths[number])
            self._checked.add(number)
