"""HDF5 with decoded images, all of one size: an array per image, as numpy wants it.

``images`` is uint8 [n, height, width, channels]; ``labels``, ``keys`` and attributes are as in
`dataprep.sinks.hdf5_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy.typing as npt
from typing_extensions import override

from dataprep.sinks.example import DatasetInfo, Example
from dataprep.sinks.hdf5_file import label_array, labels_of, open_file
from dataprep.sinks.hdf5_records import Hdf5FileSink, RecordsReader, RecordsWriter


class Hdf5ArraysWriter(RecordsWriter):
    """Writes one shard."""

    sink: ClassVar[str] = "hdf5-arrays"

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        super().__init__(path, info, (*(info.size or ()), info.channels))

    @override
    def image_bytes(self, example: Example) -> bytes:
        """The pixels as they are."""
        return example.encoded

    @override
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The labels."""
        return {"labels": label_array(self.labels, self.info, single="<i8", several="u1")}


class Hdf5ArraysReader(RecordsReader):
    """Reads one shard."""

    sink: ClassVar[str] = "hdf5-arrays"

    def read(self, number: int) -> Example:
        """One row of the images."""
        pixels = self.rows[number]
        return self.example(number, pixels.tobytes(), kind="RAW", size=pixels.shape[:2])


class Hdf5ArraysSink(Hdf5FileSink):
    """``--sink hdf5-arrays``."""

    name: ClassVar[str] = "hdf5-arrays"
    summary: ClassVar[str] = "HDF5, uint8 pixels (n, height, width, channels); h5py"
    keeps_attributes: ClassVar[bool] = True
    usual_shards: ClassVar[int | None] = 64  # few enough to keep open

    @property
    @override
    def pixels(self) -> bool:
        """It stores pixels."""
        return True

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5ArraysWriter:
        """Start a shard."""
        self.check(info)
        return Hdf5ArraysWriter(paths[0], info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5ArraysReader:
        """Open a shard."""
        return Hdf5ArraysReader(paths[0], info)

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """As a user of h5py reads it."""
        with open_file(paths[0]) as file:
            for pixels, label in zip(file["images"], file["labels"], strict=True):
                yield pixels.tobytes(), labels_of(label, info)
