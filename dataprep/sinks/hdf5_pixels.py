"""HDF5 with decoded images, all of one size: for numpy, and for Caffe's HDF5Data layer.

``hdf5-arrays``: ``images`` is uint8 [n, height, width, channels]; ``labels``, ``keys`` and
attributes are as in `dataprep.sinks.hdf5_encoded`.

``hdf5-caffe``: ``data`` is float32 [n, channels, height, width], 0 to 255, channels in the order
B, G, R: the layer converts nothing, and Caffe's models are trained so. ``label`` is float32 [n],
0-based, or [n, classes] of zeros and ones. Caffe reads the datasets that are named as tops and
leaves ``keys`` alone. It loads whole files, and counts their elements in a C int
(caffe/src/caffe/layers/hdf5_data_layer.cpp, caffe/src/caffe/blob.cpp). ``train.txt`` has the path
of every shard, relative to the output directory, where Caffe is to be run: Caffe takes them
relative to its working directory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.sinks import FinishedShard, Layout, Record, WrittenFile, hdf5
from dataprep.sinks.example import DatasetInfo, Example, to_bytes
from dataprep.sinks.hashed_file import write_file

_INT_MAX = 2**31 - 1


class _PixelsSink(hdf5.FileSink):
    overhead: ClassVar[int] = 50  # of the small datasets: a label and a key of 40

    @property
    @override
    def pixels(self) -> bool:
        return True


class Hdf5ArraysWriter(hdf5.FileWriter):
    """Writes one shard for numpy."""

    sink: ClassVar[str] = "hdf5-arrays"

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info, (*(info.size or ()), info.channels))


class Hdf5ArraysReader(hdf5.FileReader):
    """Reads one shard for numpy."""

    sink: ClassVar[str] = "hdf5-arrays"

    def read(self, number: int) -> Example:
        """One row of the images."""
        pixels = self.rows[number]
        return self.example(number, pixels.tobytes(), kind="RAW", size=pixels.shape[:2])


class Hdf5ArraysSink(_PixelsSink):
    """``--sink hdf5-arrays``."""

    name: ClassVar[str] = "hdf5-arrays"
    summary: ClassVar[str] = "HDF5, uint8 pixels (n, height, width, channels); h5py"
    keeps_attributes: ClassVar[bool] = True
    usual_shards: ClassVar[int | None] = 64  # few enough to keep open
    Writer = Hdf5ArraysWriter
    Reader = Hdf5ArraysReader

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        with hdf5.open_file(paths[0]) as file:
            for pixels, label in zip(file["images"], file["labels"], strict=True):
                yield pixels.tobytes(), hdf5.labels_of(label, info)


class Hdf5CaffeWriter(hdf5.FileWriter):
    """Writes one shard for Caffe."""

    sink: ClassVar[str] = "hdf5-caffe"
    images: ClassVar[str] = "data"
    version: ClassVar[int] = hdf5.HDF5_1_8  # Caffe's

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._shape = (*(info.size or (0, 0)), info.channels)
        self._most = _most_images(info)
        super().__init__(paths, info, (info.channels, *self._shape[:2]), "<f4")

    @override
    def image_bytes(self, example: Example) -> bytes:
        """The pixels turned to float32, (channel, height, width) and B, G, R."""
        if len(self.keys) >= self._most:
            raise SinkError(
                f"Caffe cannot load a file of more than {self._most} such images "
                f"({_INT_MAX} values); ask for more shards"
            )
        pixels = np.frombuffer(example.encoded, np.uint8).reshape(self._shape)
        return bytes(pixels[:, :, ::-1].transpose(2, 0, 1).astype("<f4", order="C").data)

    @override
    def columns(self) -> dict[str, hdf5.Column]:
        return {"label": self.label_column(single="<f4", several="<f4")}

    @override
    def description(self) -> dict[str, str]:
        """What the shape of the data does not tell."""
        return {"channel_order": "BGR" if self.info.channels == 3 else "Grayscale"}


class Hdf5CaffeReader(hdf5.FileReader):
    """Reads one shard; gives the pixels back as they came, uint8 (height, width, channel) RGB."""

    sink: ClassVar[str] = "hdf5-caffe"
    images: ClassVar[str] = "data"
    labels: ClassVar[str] = "label"

    def read(self, number: int) -> Example:
        """One row of the data."""
        planes = self.rows[number]
        pixels = planes[::-1].transpose(1, 2, 0).astype(np.uint8)
        return self.example(number, pixels.tobytes(), kind="RAW", size=pixels.shape[:2])


class Hdf5CaffeSink(_PixelsSink):
    """``--sink hdf5-caffe``."""

    name: ClassVar[str] = "hdf5-caffe"
    summary: ClassVar[str] = "HDF5, float32 BGR (n, channels, height, width); Caffe's HDF5Data"
    value_bytes: ClassVar[int] = 4
    Writer = Hdf5CaffeWriter
    Reader = Hdf5CaffeReader

    @override
    def most_images(self, info: DatasetInfo) -> int | None:
        """As many as have 2^31 - 1 values: 14,266 of 224 x 224 x 3."""
        return _most_images(info)

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        return (PurePosixPath(f"{split}.txt"),)

    @override
    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
    ) -> Sequence[WrittenFile]:
        """Write the list."""
        listing = to_bytes("".join(f"{shard.names[0]}\n" for shard in shards))
        return [write_file(path, listing) for path in paths]

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """As a user of h5py reads it, put back into rows of R, G, B."""
        with hdf5.open_file(paths[0]) as file:
            for planes, label in zip(file["data"], file["label"], strict=True):
                image = np.stack(planes[::-1], axis=-1).astype(np.uint8)
                yield image.tobytes(), hdf5.labels_of(label, info)


def _most_images(info: DatasetInfo) -> int:
    height, width = info.size or (0, 0)
    labels = len(info.classes) if info.multilabel else 1
    return _INT_MAX // max(height * width * info.channels, labels, 1)
