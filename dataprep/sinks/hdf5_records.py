"""The HDF5 formats' writers and readers: images appended to one dataset, columns behind them.

The images' dataset has chunks of 64 KiB, or one image if that is more, which are handed to HDF5
when they are full: its cache is not asked. They are not compressed, so that an image is read
without the rest of its chunks.
"""

from __future__ import annotations

import resource
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import h5py
import numpy as np
import numpy.typing as npt
from h5py._objects import phil

from dataprep.errors import SinkError
from dataprep.index import Box
from dataprep.sinks.annotations import labels_to_store
from dataprep.sinks.base import (
    DatasetInfo,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
    shard_path,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.hdf5_file import (
    HDF5_1_10,
    AttributeColumns,
    NewFile,
    StoredAttributes,
    add_dataset,
    column,
    create,
    damage,
    describe,
    key_bytes,
    labels_of,
    library_versions,
    open_file,
    read_info,
    text_array,
)

_CHUNK = 64 << 10  # bytes; larger ones make small files large
_BUFFER = 1 << 20  # bytes that are handed over at once
_OTHER_FILES = 64  # that a process has open: libraries, pipes, sockets


class RecordsWriter(ShardWriter):
    """Appends images; holds keys and labels, about 100 bytes a record, until the end.

    Args:
        path: must not exist.
        info: what the attributes say.
        row: the shape of an image in its dataset; empty if that is one row of bytes.
        dtype: of its values.
    """

    sink: ClassVar[str]
    images: ClassVar[str] = "images"
    """The dataset of images."""

    version: ClassVar[int] = HDF5_1_10
    """Of HDF5, to read it."""

    keeps_attributes: ClassVar[bool] = True
    """Whether `Example.attributes` are stored."""

    def __init__(
        self, path: Path, info: DatasetInfo, row: tuple[int, ...] = (), dtype: str = "u1"
    ) -> None:
        self.path = path
        self.info = info
        self.keys: list[bytes] = []
        self.labels: list[Sequence[int]] = []
        self._attributes = AttributeColumns(info) if self.keeps_attributes else None
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

    def write(self, example: Example) -> None:
        """Append one example."""
        where = f"record {len(self.keys)} ({example.key})"
        key = key_bytes(example.key, where)
        try:
            labels = labels_to_store(example, self.info)
            attributes = self._attributes.checked(example) if self._attributes else {}
            image = self.image_bytes(example)
        except SinkError as error:
            raise SinkError(f"{where}: {error}") from error
        self._pending.append(image)
        self._pending_bytes += len(image)
        if self._pending_bytes >= max(_BUFFER, self._chunk_bytes):
            self._write_chunks()
        self.keys.append(key)
        self.labels.append(labels)
        if self._attributes:
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
            if self._attributes:
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
        """What the dataset of images gets; also notes what `columns` will need.

        Raises:
            SinkError: the format cannot hold it. It does not name the example.
        """

    @abstractmethod
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """The small datasets but the keys."""

    def attributes(self) -> dict[str, str]:
        """Attributes besides those of every format."""
        return {}


class RecordsReader(ShardReader):
    """Random access; keys, labels and offsets are read whole when it is opened.

    Args:
        path: the shard, or the virtual file over a split's shards.
        info: classes come from the file if it has none.
    """

    sink: ClassVar[str]

    images: h5py.Dataset
    """Set by `load`."""

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self.path = path
        self.file = open_file(path)
        try:
            with damage(path, "header"):
                self.info = read_info(self.file, info, self.sink)
                self._length = self.load()
                self._keys = column(self.file, "keys", "S", (self._length,))
                self._attributes = StoredAttributes(self.file, self._length)
                virtual = self.images.is_virtual
                self._sources = _Sources(self.file, self.images) if virtual else None
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many examples it holds."""
        return self._length

    def __getitem__(self, number: int) -> Example:
        """Example ``number``, in one read."""
        if not 0 <= number < self._length:
            raise IndexError(f"{self.path}: there is no record {number} of {self._length}")
        if not self.file:
            raise SinkError(f"{self.path}: the reader is closed")
        with damage(self.path, f"record {number}"):
            return self.example(number)

    def close(self) -> None:
        """Close the file, and those behind it."""
        self.file.close()

    def image_rows(self, start: int, end: int) -> npt.NDArray[Any]:
        """A part of the images that lies within one shard."""
        if self._sources is not None and start < end:
            self._sources.check(start)
        rows: npt.NDArray[Any] = self.images[start:end]
        return rows

    def label_rows(self, name: str, count: int, *, single: str, several: str) -> npt.NDArray[Any]:
        """The labels of ``count`` records; as `label_array` of these types wrote them."""
        if not self.info.multilabel:
            return column(self.file, name, single, (count,))
        return column(self.file, name, several, (count, len(self.info.classes) or None))

    def assemble(
        self,
        number: int,
        encoded: bytes,
        kind: str,
        size: tuple[int, int],
        label: npt.NDArray[Any],
        boxes: tuple[Box, ...] = (),
        box_labels: tuple[int, ...] = (),
    ) -> Example:
        """The example, from what each format stores in its own way.

        Args:
            number: of the record.
            encoded: the image.
            kind: its format.
            size: (height, width) in pixels.
            label: its row of the labels.
            boxes: its bounding boxes.
            box_labels: what they show.
        """
        labels = labels_of(label)
        return Example(
            key=self._key(number),
            encoded=encoded,
            format=kind,
            height=size[0],
            width=size[1],
            colorspace=self.info.colorspace,
            labels=labels,
            synset=self.info.identifiers(labels),
            class_name=self.info.names(labels),
            boxes=boxes,
            box_labels=box_labels,
            attributes=self._attributes[number],
        )

    @abstractmethod
    def load(self) -> int:
        """Check the datasets, keep what `example` needs, and return the number of records."""

    @abstractmethod
    def example(self, number: int) -> Example:
        """A record that exists."""

    def _key(self, number: int) -> str:
        return bytes(self._keys[number]).decode("utf-8", "surrogateescape")


class _Sources:
    """The shards behind a virtual dataset, each opened before HDF5 reads it the first time.

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
            (source.vspace.get_select_bounds()[0][0], source.file_name, source.dset_name)
            for source in dataset.virtual_sources()
        )
        self._starts = [start for start, _, _ in sources]
        self._sources = [(folder / path.replace("%%", "%"), name) for _, path, name in sources]
        self._checked: set[int] = set()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit != resource.RLIM_INFINITY and len(sources) + _OTHER_FILES > limit:
            raise SinkError(
                f"{file.filename} has {len(sources)} shards, and a process may open {limit} files; "
                f"say ulimit -n {len(sources) + _OTHER_FILES}, or read the shards one by one"
            )
        for path, _ in self._sources:
            if not path.is_file():
                raise SinkError(f"{file.filename}: its shard {path} is missing; put it back there")

    def check(self, row: int) -> None:
        """Check that the shard that holds this row of the dataset can be opened.

        Raises:
            SinkError: it is damaged.
        """
        number = bisect_right(self._starts, row) - 1
        if number >= 0 and number not in self._checked:
            path, name = self._sources[number]
            with open_file(path) as file, damage(path, f"dataset {name}"):
                large_rows = file[name].shape[0]
            end = self._starts[number + 1] if number + 1 < len(self._starts) else None
            if end is not None and self._starts[number] + large_rows != end:
                raise SinkError(f"{path}: has {large_rows} rows, expected others; make it again")
            self._checked.add(number)


class Hdf5FileSink(Sink):
    """A shard is an HDF5 file that h5py reads; a base class, no format."""

    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    reference: ClassVar[str] = "h5py"

    columns_bytes: ClassVar[int] = 50
    """Of one image in the small datasets: a label and a key of 40."""

    def versions(self) -> Mapping[str, str]:
        """Of the libraries that lay the files out."""
        return library_versions()

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """One file."""
        return (shard_path(shard, layout, ".h5"),)

    def overhead(self) -> int:
        """The small datasets."""
        return self.columns_bytes
