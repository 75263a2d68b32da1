"""What the HDF5 formats are alike in as sinks: one file a shard, and perhaps a master of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

from typing_extensions import override

from dataprep.sinks.base import DatasetInfo, FinishedShard, Layout, ShardName, Sink, WrittenFile
from dataprep.sinks.hdf5_file import library_versions
from dataprep.sinks.hdf5_master import USUAL_SHARDS, master_paths, write_master
from dataprep.sinks.naming import shard_path


class OneHdf5File(Sink):
    """A shard is an HDF5 file that h5py reads; a base class, no format."""

    seeks: ClassVar[bool] = True
    reference: ClassVar[str] = "h5py"

    columns_bytes: ClassVar[int] = 50
    """Of one image in the small datasets: a label and a key of 40."""

    @override
    def versions(self) -> Mapping[str, str]:
        """Of the libraries that lay the files out."""
        return library_versions()

    @override
    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """One file."""
        return (shard_path(shard, layout, ".h5"),)

    @override
    def overhead(self) -> int:
        """The small datasets."""
        return self.columns_bytes


class Hdf5WithMaster(OneHdf5File):
    """Several shards also have one virtual file over them all; a base class, no format."""

    usual_shards: ClassVar[int | None] = USUAL_SHARDS

    rebased: ClassVar[Mapping[str, str]] = {}
    """Datasets of n + 1 offsets, and the datasets they point into."""

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """The master, if there are several shards."""
        return master_paths(split, count)

    @override
    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
        statistics: object,
    ) -> Sequence[WrittenFile]:
        """Write the master."""
        return write_master(paths, info, shards, sink=self.name, rebased=self.rebased)
