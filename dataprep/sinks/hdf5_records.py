"""What the HDF5 formats' writers and readers have in common: images in front, columns behind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import h5py
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.index import Box
from dataprep.sinks.base import DatasetInfo, ShardReader, ShardWriter, WrittenFile
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import hash_finished
from dataprep.sinks.hdf5_attributes import AttributeColumns, StoredAttributes
from dataprep.sinks.hdf5_file import (
    add_dataset,
    column,
    damage,
    describe,
    key_array,
    key_bytes,
    label_of,
    labels_of,
    open_file,
    read_info,
)
from dataprep.sinks.hdf5_master import Sources
from dataprep.sinks.hdf5_stream import StreamedFile


class RecordsWriter(ShardWriter):
    """Streams images; holds keys and labels, about 100 bytes a record, until the end.

    Args:
        path: must not exist.
        info: what the attributes say.
    """

    sink: ClassVar[str]
    images: ClassVar[str]
    """The dataset of images."""

    keeps_attributes: ClassVar[bool] = True
    """Whether `Example.attributes` are stored."""

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self.path = path
        self.info = info
        self.keys: list[bytes] = []
        self.labels: list[Sequence[int]] = []
        self._attributes = AttributeColumns(info) if self.keeps_attributes else None
        self._stream = StreamedFile(path)

    @property
    def size(self) -> int:
        """How many bytes of images have been written."""
        return self._stream.size

    def write(self, example: Example) -> None:
        """Append one example."""
        where = f"record {len(self.keys)} ({example.key})"
        key = key_bytes(example.key, where)
        labels = label_of(example.labels, self.info, where)
        attributes = self._attributes.checked(example, where) if self._attributes else {}
        self._stream.append(self.image_bytes(example, where))
        self.keys.append(key)
        self.labels.append(labels)
        if self._attributes:
            self._attributes.add(attributes)

    def close(self) -> Sequence[WrittenFile]:
        """Add the columns and the attributes."""
        shape, dtype = self.images_type()
        with self._stream.finish(self.images, shape, dtype) as file:
            for name, data in self.columns().items():
                add_dataset(file, name, data)
            add_dataset(file, "keys", key_array(self.keys))
            if self._attributes:
                self._attributes.write(file)
            describe(file, self.info, self.sink, self.attributes())
        return (hash_finished(self.path),)

    def abandon(self) -> None:
        """Close the file."""
        self._stream.abandon()

    @abstractmethod
    def image_bytes(self, example: Example, where: str) -> bytes:
        """What the dataset of images gets; also notes what `columns` will need."""

    @abstractmethod
    def images_type(self) -> tuple[tuple[int, ...], str]:
        """Shape and numpy type of the dataset of images."""

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
                self._sources = Sources(self.file, self.images) if virtual else None
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

    def keys(self) -> Iterator[str]:
        """The keys, without the images."""
        return map(self.key, range(self._length))

    def close(self) -> None:
        """Close the file, and those behind it."""
        self.file.close()

    def image_rows(self, start: int, end: int) -> npt.NDArray[Any]:
        """A part of the images that lies within one shard."""
        if self._sources is not None and start < end:
            self._sources.check(start)
        rows: npt.NDArray[Any] = self.images[start:end]
        return rows

    def key(self, number: int) -> str:
        """The key of a record."""
        return bytes(self._keys[number]).decode("utf-8", "surrogateescape")

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
            key=self.key(number),
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
