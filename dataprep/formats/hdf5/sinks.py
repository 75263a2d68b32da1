"""HDF5, three formats of it: ``train.h5``, or ``train/train-00000-of-00004.h5`` and so on.

docs/formats.md has a table of the datasets.

``hdf5``: encoded images, whose bytes lie one after another in one contiguous dataset. That is
smaller than variable-length arrays, two to thirty times faster to write, and an image is one read
of exactly its bytes.

``hdf5-arrays``: decoded images, all of one size.

``hdf5-caffe``: decoded images as Caffe's models are trained: its layer converts nothing. Caffe
reads the datasets that are named as tops and leaves ``keys`` alone. It loads whole files, and
counts their elements in a C int (caffe/src/caffe/layers/hdf5_data_layer.cpp,
caffe/src/caffe/blob.cpp). ``train.txt`` has the path of every shard, relative to the output
directory, where Caffe is to be run: Caffe takes them relative to its working directory.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import ClassVar

import h5py
import numpy as np
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.formats import FinishedShard, Layout, Record, WrittenFile
from dataprep.formats.example import DatasetInfo, Example, to_bytes
from dataprep.formats.hashed_file import write_file
from dataprep.formats.hdf5.file import (
    HDF5_1_8,
    Column,
    FileReader,
    FileSink,
    FileWriter,
    labels_of,
    open_file,
)
from dataprep_schemas.fields import BOX_LABELS, BOXES, EVERY, PLAIN, Box, KindName

_INT_MAX = 2**31 - 1
_FORMATS = ("JPEG", "PNG")
_NOTHING_SAID = -1  # of what a box shows


class Hdf5Writer(FileWriter):
    """Writes one shard."""

    sink: ClassVar[str] = "hdf5"

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        self._sizes: list[tuple[int, int]] = []
        self._formats = bytearray()
        self._boxes: list[Box] = []
        self._box_offsets = array("q", [0])
        self._box_labels = array("q")

    @override
    def image_bytes(self, example: Example) -> bytes:
        boxes, said = (example.fields.get(it.name, ()) for it in (BOXES, BOX_LABELS))
        self._box_labels.extend(said or [_NOTHING_SAID] * len(boxes))
        self._formats.append(_FORMATS.index(example.format))
        self._sizes.append((example.height, example.width))
        self._boxes.extend(boxes)
        self._box_offsets.append(len(self._boxes))
        return example.encoded

    @override
    def columns(self) -> dict[str, Column]:
        sizes = np.array(self._sizes, "<i4").reshape(-1, 2)
        formats = h5py.enum_dtype({name: code for code, name in enumerate(_FORMATS)}, "u1")
        columns: dict[str, Column] = {
            "offsets": np.array(self.stored.offsets, "<i8"),
            **super().columns(),
            "heights": np.ascontiguousarray(sizes[:, 0]),
            "widths": np.ascontiguousarray(sizes[:, 1]),
            "formats": np.array(self._formats, formats),
            "boxes": np.array(self._boxes, "<f4").reshape(-1, 4),
            "box_offsets": np.array(self._box_offsets, "<i8"),
        }
        # By what the data set is, not by what is in the shard: all have the same datasets.
        if BOX_LABELS in self.info.fields:
            columns[BOX_LABELS.name] = np.array(self._box_labels, "<i8")
        return columns


class Hdf5Reader(FileReader):
    """Reads one shard; images past the library, which takes four times as long as the system."""

    sink: ClassVar[str] = "hdf5"

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        with self.opening("images"):
            filters = self.rows.id.get_create_plist().get_nfilters()
            # 0 if others have stored the dataset in another way; then HDF5 reads it.
            self._chunk: int = 0 if filters or not self.rows.chunks else self.rows.chunks[0]
            chunks = len(self.rows) // self._chunk + 1 if self._chunk else 0
            self._places = array("Q", [0]) * chunks
            self._images = self.opened.enter_context(self.path.open("rb", buffering=0))

    @override
    def image(self, number: int) -> bytes:
        start, end = self._bounds(number)
        if not self._chunk:
            return bytes(self.rows[start:end].tobytes())
        file = self._images.fileno()
        encoded = b"".join([os.pread(file, size, at) for at, size in self._runs(start, end)])
        if len(encoded) != end - start:
            raise SinkError("the file ends within its image")
        return encoded

    @override
    def will_need(self, number: int) -> None:
        if self._chunk:
            for at, size in self._runs(*self._bounds(number)):
                os.posix_fadvise(self._images.fileno(), at, size, os.POSIX_FADV_WILLNEED)

    def _bounds(self, number: int) -> tuple[int, int]:
        """The rows of an image."""
        start, end = self.columns["offsets"][number : number + 2].tolist()
        if not 0 <= start <= end <= len(self.rows):
            raise SinkError("its offsets lie outside of the images")
        return start, end

    def _runs(self, start: int, end: int) -> list[tuple[int, int]]:
        """Offset and size in the file of each run of these bytes of the images."""
        runs: list[tuple[int, int]] = []
        while start < end:
            chunk, within = divmod(start, self._chunk)
            place = (self._places[chunk] or self._find(chunk)) + within
            size = min(end - start, self._chunk - within)
            if runs and sum(runs[-1]) == place:
                runs[-1] = (runs[-1][0], runs[-1][1] + size)
            else:
                runs.append((place, size))
            start += size
        return runs

    def _find(self, chunk: int) -> int:
        """Where a chunk is in the file; remembered."""
        place = self.rows.id.get_chunk_info_by_coord((chunk * self._chunk,)).byte_offset
        if place is None:
            raise SinkError("a chunk of its image was never written")
        self._places[chunk] = place
        return int(place)

    def read(self, number: int) -> Example:
        """The image, and its row of each column."""
        columns = self.columns
        first, last = columns["box_offsets"][number : number + 2].tolist()
        boxes = columns["boxes"][first:last].tolist()
        has_labels = BOX_LABELS.name in columns
        said = columns[BOX_LABELS.name][first:last].tolist() if has_labels else ()
        if len(boxes) != last - first:
            raise SinkError("its offsets lie outside of the boxes")
        return self.example(
            number,
            self.image(number),
            kind=_FORMATS[columns["formats"][number]],
            size=(int(columns["heights"][number]), int(columns["widths"][number])),
            fields={
                BOXES.name: tuple(map(tuple, boxes)),
                BOX_LABELS.name: tuple(label for label in said if label != _NOTHING_SAID),
            },
        )


class Hdf5Sink(FileSink):
    """``--sink hdf5``."""

    name: ClassVar[str] = "hdf5"
    summary: ClassVar[str] = "HDF5, encoded images in one flat array with offsets; h5py"
    keeps: ClassVar[Collection[KindName]] = EVERY
    usual_shards: ClassVar[int | None] = 64  # few enough to keep open
    overhead: ClassVar[int] = 100  # of all small datasets together, with a key of 40
    Writer = Hdf5Writer
    Reader = Hdf5Reader

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        with open_file(paths[0]) as file:
            images, labels, offsets = file["images"], file["labels"], file["offsets"][:]
            for number, label in enumerate(labels[:]):
                encoded = images[offsets[number] : offsets[number + 1]].tobytes()
                yield encoded, labels_of(label, info)


# --- Pixels ---


class _PixelsSink(FileSink):
    overhead: ClassVar[int] = 50  # of the small datasets: a label and a key of 40

    @property
    @override
    def pixels(self) -> bool:
        return True


class Hdf5ArraysWriter(FileWriter):
    """Writes one shard for numpy."""

    sink: ClassVar[str] = "hdf5-arrays"

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info, (*(info.size or ()), info.channels))


class Hdf5ArraysReader(FileReader):
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
    keeps: ClassVar[Collection[KindName]] = (*PLAIN, "texts")
    usual_shards: ClassVar[int | None] = 64  # few enough to keep open
    Writer = Hdf5ArraysWriter
    Reader = Hdf5ArraysReader

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        with open_file(paths[0]) as file:
            for pixels, label in zip(file["images"], file["labels"], strict=True):
                yield pixels.tobytes(), labels_of(label, info)


class Hdf5CaffeWriter(FileWriter):
    """Writes one shard for Caffe."""

    sink: ClassVar[str] = "hdf5-caffe"
    images: ClassVar[str] = "data"
    version: ClassVar[int] = HDF5_1_8  # Caffe's

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
                f"({_INT_MAX} values); ask for more shards with --num_shards"
            )
        pixels = np.frombuffer(example.encoded, np.uint8).reshape(self._shape)
        return bytes(pixels[:, :, ::-1].transpose(2, 0, 1).astype("<f4", order="C").data)

    @override
    def columns(self) -> dict[str, Column]:
        return {"label": self.label_column(single="<f4", several="<f4")}

    @override
    def description(self) -> dict[str, str]:
        """What the shape of the data does not tell."""
        return {"channel_order": "BGR" if self.info.channels == 3 else "Grayscale"}


class Hdf5CaffeReader(FileReader):
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
        self, paths: Sequence[Path], info: DatasetInfo, shards: Sequence[FinishedShard]
    ) -> Sequence[WrittenFile]:
        """Write the list."""
        listing = to_bytes("".join(f"{shard.names[0]}\n" for shard in shards))
        return [write_file(path, listing) for path in paths]

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """As a user of h5py reads it, put back into rows of R, G, B."""
        with open_file(paths[0]) as file:
            for planes, label in zip(file["data"], file["label"], strict=True):
                image = np.stack(planes[::-1], axis=-1).astype(np.uint8)
                yield image.tobytes(), labels_of(label, info)


def _most_images(info: DatasetInfo) -> int:
    height, width = info.size or (0, 0)
    labels = len(info.classes) if info.multilabel else 1
    return _INT_MAX // max(height * width * info.channels, labels, 1)
