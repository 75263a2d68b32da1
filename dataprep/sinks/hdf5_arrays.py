"""HDF5 with decoded images, all of one size: an array per image, as numpy wants it.

``images`` is uint8 [n, height, width, channels]; ``labels``, ``keys`` and attributes are as in
`dataprep.sinks.hdf5_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from dataprep.errors import SinkError, UsageError
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.sinks.hdf5_file import label_array, labels_of, large_column, open_file
from dataprep.sinks.hdf5_master import Hdf5WithMaster
from dataprep.sinks.hdf5_records import RecordsReader, RecordsWriter


def one_shape(info: DatasetInfo, sink: str) -> tuple[int, int, int]:
    """(height, width, channels) of every image.

    Raises:
        UsageError: images have different sizes.
    """
    if info.size is None:
        raise UsageError(f"sink {sink} needs images of one size; ask for one, or choose sink hdf5")
    return (*info.size, info.channels)


def raw_pixels(example: Example, shape: tuple[int, int, int]) -> bytes:
    """The pixels, height by width by channels.

    Raises:
        SinkError: it is an encoded image, or has another size.
    """
    height, width, channels = shape
    if example.format != "RAW":
        raise SinkError(f"its format is {example.format}, expected RAW pixels")
    size = (example.height, example.width)
    if size != (height, width) or len(example.encoded) != height * width * channels:
        raise SinkError(
            f"has {example.height} x {example.width} pixels (height x width) in "
            f"{len(example.encoded)} bytes, expected {height} x {width} in "
            f"{height * width * channels} ({channels} channels)"
        )
    return example.encoded


class Hdf5ArraysWriter(RecordsWriter):
    """Writes one shard."""

    sink: ClassVar[str] = "hdf5-arrays"

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self._shape = one_shape(info, self.sink)
        super().__init__(path, info, self._shape)

    def image_bytes(self, example: Example) -> bytes:
        """The pixels as they are."""
        return raw_pixels(example, self._shape)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The labels."""
        return {"labels": label_array(self.labels, self.info, single="<i8", several="u1")}


class Hdf5ArraysReader(RecordsReader):
    """Reads one shard, or a whole split through its master."""

    sink: ClassVar[str] = "hdf5-arrays"

    def load(self) -> int:
        """Keep the labels."""
        shape = (None, *(self.info.size or (None, None)), self.info.channels)
        self.images = large_column(self.file, "images", "u1", shape)
        count = len(self.images)
        self._labels = self.label_rows("labels", count, single="i8", several="u1")
        return count

    def example(self, number: int) -> Example:
        """One row of the images."""
        pixels = self.image_rows(number, number + 1)[0]
        size = (pixels.shape[0], pixels.shape[1])
        return self.assemble(number, pixels.tobytes(), "RAW", size, self._labels[number])


class Hdf5ArraysSink(Hdf5WithMaster):
    """``--sink hdf5-arrays``."""

    name: ClassVar[str] = "hdf5-arrays"
    summary: ClassVar[str] = "HDF5, uint8 pixels (n, height, width, channels); h5py"
    keeps_attributes: ClassVar[bool] = True

    @property
    def pixels(self) -> bool:
        """It stores pixels."""
        return True

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5ArraysWriter:
        """Start a shard."""
        self.check(info)
        return Hdf5ArraysWriter(paths[0], info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5ArraysReader:
        """Open a shard, or a master."""
        return Hdf5ArraysReader(paths[0], info)

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """As a user of h5py reads it."""
        with open_file(paths[0]) as file:
            for pixels, label in zip(file["images"], file["labels"], strict=True):
                yield pixels.tobytes(), labels_of(np.asarray(label))
