"""Attributes of examples in HDF5: a dataset each, ``attributes/<name>``, a row a record.

Numbers are int64; text is fixed-length UTF-8, padded with zeros, like keys. HDF5 knows no missing
rows: they hold what the dataset's HDF5 attribute ``missing`` says, which is no value: the smallest
int64, or the empty text.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.index import Value
from dataprep.sinks.annotations import MISSING, attributes_to_store
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.sinks.hdf5_file import add_dataset, column, key_array

GROUP = "attributes"

_NAME = re.compile(r"[A-Za-z0-9_]+")
_LONGEST = 4096  # bytes of a text: the longest is what every row of its dataset takes


class AttributeColumns:
    """Collects the attributes of a shard's records: 8 bytes each, or a text.

    Args:
        info: says which there are.

    Raises:
        SinkError: one has a name that cannot be a dataset's.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._info = info
        self._numbers: dict[str, array[int]] = {}
        self._texts: dict[str, list[bytes]] = {}
        for name, kind in info.attributes:
            if not _NAME.fullmatch(name):
                raise SinkError(
                    f"HDF5 cannot hold an attribute called {name!r}: use letters, digits and _"
                )
            if kind == "int":
                self._numbers[name] = array("q")
            else:
                self._texts[name] = []

    def checked(self, example: Example, where: str) -> dict[str, Value]:
        """What `add` is to be given.

        Raises:
            SinkError: the data set or HDF5 cannot have it.
        """
        try:
            found = attributes_to_store(example, self._info)
        except SinkError as error:
            raise SinkError(f"{where}: {error}") from error
        for name in self._texts:
            size = len(text := _encoded(found.get(name, "")))
            if size > _LONGEST or text.endswith(b"\0"):
                raise SinkError(
                    f"{where}: HDF5 holds no text that ends in a zero byte, and none of more than "
                    f"{_LONGEST} bytes, since all of its dataset are as long; its attribute {name} "
                    f"has {size} bytes: choose sink tfrecord or webdataset"
                )
        return found

    def add(self, attributes: Mapping[str, Value]) -> None:
        """Append a record's row."""
        for name, numbers in self._numbers.items():
            numbers.append(int(attributes.get(name, MISSING)))
        for name, texts in self._texts.items():
            texts.append(_encoded(attributes.get(name, "")))

    def write(self, file: h5py.File) -> None:
        """Add the datasets; nothing at all if the data set has no attributes."""
        for name, _ in self._info.attributes:
            data: npt.NDArray[Any] = (
                np.array(self._numbers[name], "<i8")
                if name in self._numbers
                else key_array(self._texts[name])
            )
            add_dataset(file, f"{GROUP}/{name}", data)
            mark_missing(file[f"{GROUP}/{name}"])


def mark_missing(dataset: h5py.Dataset) -> None:
    """Say in the file what stands for a missing value."""
    dataset.attrs["missing"] = np.int64(MISSING) if dataset.dtype.kind == "i" else ""


def attribute_datasets(file: h5py.File) -> list[str]:
    """The names of the datasets of attributes, as they are in the root group."""
    return [f"{GROUP}/{name}" for name in sorted(file[GROUP])] if GROUP in file else []


class StoredAttributes:
    """The attributes of a file's records, read whole.

    Args:
        file: an open file.
        count: how many records it has.

    Raises:
        ValueError: a dataset is not as `AttributeColumns` writes it; and whatever h5py raises.
    """

    def __init__(self, file: h5py.File, count: int) -> None:
        self._columns = {
            name.removeprefix(f"{GROUP}/"): column(
                file, name, "i8" if file[name].dtype.kind == "i" else "S", (count,)
            )
            for name in attribute_datasets(file)
        }

    def __getitem__(self, number: int) -> dict[str, Value]:
        """Those that the record has."""
        rows = ((name, values[number]) for name, values in self._columns.items())
        return {
            name: int(value)
            if isinstance(value, np.integer)
            else bytes(value).decode("utf-8", "surrogateescape")
            for name, value in rows
            if value not in (MISSING, b"")
        }


def _encoded(text: Value) -> bytes:
    return str(text).encode("utf-8", "surrogateescape")
