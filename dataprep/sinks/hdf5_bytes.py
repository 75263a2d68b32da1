"""HDF5 with encoded images: ``train.h5``, or ``train/train-00000-of-00004.h5`` and a master.

The images' bytes lie one after another in one contiguous dataset: image ``i`` is
``images[offsets[i]:offsets[i + 1]]``. That is smaller than variable-length
arrays, two to thirty times faster to write, and an image is one read of exactly its bytes
(``python -m benchmarks.hdf5_layout``).

========================  ===================  ====================================================
``images``                uint8 [bytes]        JPEG and PNG files
``offsets``               int64 [n + 1]        into ``images``
``labels``                int64 [n]            0-based; multi-label: uint8 [n, classes] of 0 and 1
``keys``                  string [n]           fixed-length UTF-8, padded with zeros
``heights``, ``widths``   int32 [n]            pixels
``formats``               enum [n]             JPEG = 0, PNG = 1
``boxes``                 float32 [boxes, 4]   xmin, ymin, xmax, ymax as fractions
``box_offsets``           int64 [n + 1]        into ``boxes``
``box_labels``            int64 [boxes]        0-based, -1 where nothing is said; only in
                                               multi-label data sets that have boxes
``attributes/<name>``     int64 or string [n]  see `dataprep.sinks.hdf5_attributes`
========================  ===================  ====================================================
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import numpy.typing as npt
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.index import Box
from dataprep.sinks.annotations import box_labels_to_store
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.sinks.hdf5_file import column, label_array, labels_of, large_column, open_file
from dataprep.sinks.hdf5_master import Hdf5WithMaster
from dataprep.sinks.hdf5_records import RecordsReader, RecordsWriter

_FORMATS = ("JPEG", "PNG")
_NOTHING_SAID = -1  # of what a box shows


class Hdf5Writer(RecordsWriter):
    """Writes one shard."""

    sink: ClassVar[str] = "hdf5"

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        super().__init__(path, info)
        self._offsets = array("q", [0])
        self._sizes: list[tuple[int, int]] = []
        self._formats = bytearray()
        self._boxes: list[Box] = []
        self._box_offsets = array("q", [0])
        self._box_labels = array("q")

    def image_bytes(self, example: Example) -> bytes:
        """The file as it is."""
        if example.format not in _FORMATS:
            raise SinkError(f"its format is {example.format}, expected JPEG or PNG")
        box_labels = box_labels_to_store(example, self.info)
        if box_labels and not self.info.boxes:
            raise SinkError("has box labels in a data set without boxes")
        self._box_labels.extend(box_labels or [_NOTHING_SAID] * len(example.boxes))
        self._formats.append(_FORMATS.index(example.format))
        self._offsets.append(self._offsets[-1] + len(example.encoded))
        self._sizes.append((example.height, example.width))
        self._boxes.extend(example.boxes)
        self._box_offsets.append(len(self._boxes))
        return example.encoded

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """See the top of this file."""
        sizes = np.array(self._sizes, "<i4").reshape(-1, 2)
        formats = h5py.enum_dtype({name: code for code, name in enumerate(_FORMATS)}, "u1")
        columns: dict[str, npt.NDArray[Any]] = {
            "offsets": np.array(self._offsets, "<i8"),
            "labels": label_array(self.labels, self.info, single="<i8", several="u1"),
            "heights": np.ascontiguousarray(sizes[:, 0]),
            "widths": np.ascontiguousarray(sizes[:, 1]),
            "formats": np.array(self._formats, formats),
            "boxes": np.array(self._boxes, "<f4").reshape(-1, 4),
            "box_offsets": np.array(self._box_offsets, "<i8"),
        }
        # By what the data set is, not by what is in the shard: all have the same datasets.
        if self.info.multilabel and self.info.boxes:
            columns["box_labels"] = np.array(self._box_labels, "<i8")
        return columns


class Hdf5Reader(RecordsReader):
    """Reads one shard, or a whole split through its master."""

    sink: ClassVar[str] = "hdf5"

    def load(self) -> int:
        """Everything but the images."""
        self.images = large_column(self.file, "images", "u1", (None,))
        self._offsets = _offsets(self.file, "offsets", len(self.images), None)
        count = len(self._offsets) - 1
        self._labels = self.label_rows("labels", count, single="i8", several="u1")
        self._heights = column(self.file, "heights", "i4", (count,))
        self._widths = column(self.file, "widths", "i4", (count,))
        self._formats = column(self.file, "formats", "u1", (count,))
        self._boxes = column(self.file, "boxes", "f4", (None, 4))
        self._box_offsets = _offsets(self.file, "box_offsets", len(self._boxes), count + 1)
        self._box_labels = (
            column(self.file, "box_labels", "i8", (len(self._boxes),))
            if "box_labels" in self.file
            else np.full(len(self._boxes), _NOTHING_SAID)
        )
        return count

    def example(self, number: int) -> Example:
        """One slice of the images."""
        start, end = self._offsets[number : number + 2]
        first, last = self._box_offsets[number : number + 2]
        return self.assemble(
            number,
            self.image_rows(int(start), int(end)).tobytes(),
            _FORMATS[self._formats[number]],
            (int(self._heights[number]), int(self._widths[number])),
            self._labels[number],
            tuple(tuple(box) for box in self._boxes[first:last].tolist()),
            tuple(it for it in self._box_labels[first:last].tolist() if it != _NOTHING_SAID),
        )


def _offsets(file: h5py.File, name: str, total: int, length: int | None) -> npt.NDArray[Any]:
    offsets = column(file, name, "i8", (length,))
    if not len(offsets) or offsets[0] or offsets[-1] != total or (np.diff(offsets) < 0).any():
        raise ValueError(f"{name} do not rise from 0 to {total}")
    return offsets


class Hdf5Sink(Hdf5WithMaster):
    """``--sink hdf5``."""

    name: ClassVar[str] = "hdf5"
    summary: ClassVar[str] = "HDF5, encoded images in one flat array with offsets; h5py"
    keeps_boxes: ClassVar[bool] = True
    keeps_attributes: ClassVar[bool] = True
    columns_bytes: ClassVar[int] = 100  # bytes of all small datasets together, with a key of 40
    rebased: ClassVar[Mapping[str, str]] = {"offsets": "images", "box_offsets": "boxes"}

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5Writer:
        """Start a shard."""
        return Hdf5Writer(paths[0], info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> Hdf5Reader:
        """Open a shard, or a master."""
        return Hdf5Reader(paths[0], info)

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """As a user of h5py reads it."""
        with open_file(paths[0]) as file:
            images, labels, offsets = file["images"], file["labels"], file["offsets"][:]
            for number, label in enumerate(labels[:]):
                encoded = images[offsets[number] : offsets[number + 1]].tobytes()
                yield encoded, labels_of(np.asarray(label))
