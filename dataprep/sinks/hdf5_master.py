"""One virtual HDF5 file over a split's shards, for readers that want one dataset.

``OUT/train.h5`` has the datasets of a shard, those of ``OUT/train/*.h5`` joined along their first
axis. Small ones are copies, so that reading them opens no shard; the images stay where they are,
and are a virtual dataset. Shards are named relative to the file, so that the directory may be
moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import h5py
import numpy as np
import numpy.typing as npt
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo, FinishedShard, Layout, WrittenFile
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.hdf5_file import (
    GROUP,
    HDF5_1_10,
    NewFile,
    add_group,
    attribute_datasets,
    create,
    damage,
    describe,
    mark_missing,
    open_file,
)
from dataprep.sinks.hdf5_records import Hdf5FileSink

IMAGES = "images"
"""The dataset that stays in the shards."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A dataset of one shard: its file, the same relative to the master, and what it is."""

    path: Path
    source: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Hdf5WithMaster(Hdf5FileSink):
    """Several shards also have one virtual file over them all; a base class, no format."""

    # Through the virtual file HDF5 keeps every shard open that it has read, gives zeros for those
    # that it cannot open any more, and looks at all at every read.
    usual_shards: ClassVar[int | None] = 64

    rebased: ClassVar[Mapping[str, str]] = {}
    """Datasets of n + 1 offsets, and the datasets they point into."""

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """The virtual file, if there are several shards; one alone has its name."""
        return (PurePosixPath(f"{split}.h5"),) if count > 1 else ()

    @override
    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
        statistics: object,
    ) -> Sequence[WrittenFile]:
        """Write the virtual file.

        Raises:
            SinkError: the shards do not fit together.
            OSError: it could not be written.
        """
        if not paths:
            return ()
        (path,) = paths
        columns = _columns(shards)
        disk = NewFile(path)
        try:
            with disk.told(), create(disk, HDF5_1_10) as file:
                add_group(file, any(name.startswith(GROUP) for name in columns))
                for name, parts in columns.items():
                    if name == IMAGES:
                        _write_virtual(file, name, parts)
                    else:
                        _write_joined(file, name, parts, columns.get(self.rebased.get(name, "")))
                for name in attribute_datasets(file):
                    mark_missing(file[name])
                describe(file, info, self.name, {})
        finally:
            disk.close()
        return (hash_finished(path),)


def _columns(shards: Sequence[FinishedShard]) -> dict[str, list[_Part]]:
    """The datasets that all shards have, without reading them."""
    columns: dict[str, list[_Part]] = {}
    for number, shard in enumerate(shards):
        path = shard.paths[0]
        with open_file(path) as file, damage(path, "header"):
            for name in [*sorted(set(file) - {GROUP}), *attribute_datasets(file)]:
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
    shape = (rows, *parts[0].shape[1:])
    joined = file.create_dataset(name, shape, dtype, track_times=False)
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
