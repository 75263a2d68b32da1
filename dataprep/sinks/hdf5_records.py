"""The HDF5 formats' writers and readers: images appended to one dataset, columns behind them.

The images' dataset has chunks of 64 KiB, or one image if that is more, which are handed to HDF5
when they are full: its cache is not asked. They are not compressed, so that an image is read
without the rest of its chunks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy as np
import numpy.typing as npt
from h5py._objects import phil
from typing_extensions import override

from dataprep.sinks.base import ShardReader, ShardWriter, Sink, WrittenFile, damage
from dataprep.sinks.example import DatasetInfo, Example, to_text
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.hdf5_file import (
    HDF5_1_10,
    AttributeColumns,
    NewFile,
    add_dataset,
    attributes_of,
    create,
    describe,
    labels_of,
    open_file,
    read_attributes,
    read_info,
    text_array,
    text_bytes,
)

_CHUNK = 64 << 10  # bytes; larger ones make small files large
_BUFFER = 1 << 20  # bytes that are handed over at once


class RecordsWriter(ShardWriter):
    """Appends images; holds keys and labels, about 100 bytes a record, until the end.

    Args:
        path: must not exist.
        row: the shape of an image in its dataset; empty if that is one row of bytes.
    """

    sink: ClassVar[str]
    images: ClassVar[str] = "images"
    """The dataset of images."""

    version: ClassVar[int] = HDF5_1_10
    """Of HDF5, to read it."""

    def __init__(
        self, path: Path, info: DatasetInfo, row: tuple[int, ...] = (), dtype: str = "u1"
    ) -> None:
        super().__init__(info, pixels=bool(row))
        self.path = path
        self.keys: list[bytes] = []
        self.labels: list[Sequence[int]] = []
        self._attributes = AttributeColumns(info)
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._row_bytes = prod(row) * np.dtype(dtype).itemsize
        rows = max(_CHUNK // max(self._row_bytes, 1), 1)
        self._chunk_bytes = rows * self._row_bytes
        self._rows_written = 0
        self._disk = NewFile(path)
        try:
            self._file = create(self._disk, self.version)
            with self._disk.told():
                self._dataset = self._file.create_dataset(
                    self.images,
                    (0, *row),
                    dtype,
                    maxshape=(None, *row),
                    chunks=(rows, *row),
                    track_times=False,
                )
        except BaseException:
            self._disk.close()
            raise

    @override
    def append(self, example: Example) -> None:
        """Append one example."""
        key, attributes = text_bytes(example.key), self._attributes.row(example.attributes)
        image = self.image_bytes(example)
        self._pending.append(image)
        self._pending_bytes += len(image)
        if self._pending_bytes >= max(_BUFFER, self._chunk_bytes):
            self._write_chunks()
        self.keys.append(key)
        self.labels.append(example.labels)
        self._attributes.add(attributes)

    def close(self) -> Sequence[WrittenFile]:
        """Add the columns and the attributes."""
        with self._disk.told():
            rows = self._rows_written + self._pending_bytes // self._row_bytes
            self._pending.append(bytes(-self._pending_bytes % self._chunk_bytes))
            self._write_chunks()
            self._dataset.resize(rows, axis=0)
            for name, data in self.columns().items():
                add_dataset(self._file, name, data)
            add_dataset(self._file, "keys", text_array(self.keys))
            self._attributes.write(self._file)
            describe(self._file, self.info, self.sink, self.attributes())
            self._file.close()
        self._disk.close()
        return (hash_finished(self.path),)

    def abandon(self) -> None:
        """Close the file."""
        if not self._disk.closed:
            self._disk.discard()
            self._pending.clear()
            with suppress(Exception):  # HDF5 may miss what could not be written
                self._file.close()
            self._disk.close()

    def _write_chunks(self) -> None:
        """Hand over all full chunks of what is pending."""
        data = memoryview(b"".join(self._pending))
        full = len(data) - len(data) % self._chunk_bytes
        rows = self._chunk_bytes // self._row_bytes
        origin = (0,) * (self._dataset.ndim - 1)
        # h5py's own lock: of all its calls, write_direct_chunk alone does not take it, and HDF5 is
        # no place for two threads.
        with self._disk.told(), phil:
            self._dataset.resize(self._rows_written + full // self._row_bytes, axis=0)
            for start in range(0, full, self._chunk_bytes):
                chunk = data[start : start + self._chunk_bytes]
                self._dataset.id.write_direct_chunk((self._rows_written, *origin), chunk)
                self._rows_written += rows
        self._pending = [bytes(data[full:])]
        self._pending_bytes = len(data) - full

    @abstractmethod
    def image_bytes(self, example: Example) -> bytes:
        """What the dataset of images gets; also notes what `columns` will need."""

    @abstractmethod
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The small datasets but the keys."""

    def attributes(self) -> dict[str, str]:
        """Attributes besides those of every format."""
        return {}


class RecordsReader(ShardReader):
    """Random access; all but the images is read whole when it is opened.

    Args:
        info: classes come from the file if it has none.
    """

    sink: ClassVar[str]
    images: ClassVar[str] = "images"
    labels: ClassVar[str] = "labels"

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        super().__init__(path, info)
        self.file = open_file(path)
        try:
            with damage(path, "header"):
                self.info = read_info(self.file, info, self.sink)
                self.rows = self.file[self.images]
                self.columns: dict[str, npt.NDArray[Any]] = {
                    name: dataset[...]
                    for name, dataset in self.file.items()
                    if name != self.images and isinstance(dataset, h5py.Dataset)
                }
                self._attributes = read_attributes(self.file)
                self._records = len(self.columns["keys"])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many examples it holds."""
        return self._records

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def example(self, number: int, encoded: bytes, **more: Any) -> Example:
        """The example, from its image, the columns, and what `DatasetInfo.example` takes."""
        return self.info.example(
            to_text(bytes(self.columns["keys"][number])),
            encoded,
            labels_of(self.columns[self.labels][number], self.info),
            attributes=attributes_of(self._attributes, number),
            **more,
        )


class Hdf5FileSink(Sink):
    """A shard is an HDF5 file that h5py reads; a base class, no format."""

    suffixes: ClassVar[tuple[str, ...]] = (".h5",)
    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    reference: ClassVar[str] = "h5py"
    overhead: ClassVar[int] = 50  # of the small datasets: a label and a key of 40

    @override
    def stores_classes(self, info: DatasetInfo) -> bool:
        """In each file's header."""
        return True

    @override
    def versions(self) -> Mapping[str, str]:
        """Of the libraries that lay the files out."""
        return {"h5py": h5py.__version__, "hdf5": h5py.version.hdf5_version}
