"""What the HDF5 formats share: how a file is made, described, opened and checked.

Every file has, on its root group, the attributes ``dataprep_format`` (the sink's name),
``dataprep_version`` (of that layout, an integer), ``colorspace``, ``multilabel`` (0 or 1),
``classes`` (identifiers) and ``class_names``.

Attributes of examples are a dataset each, ``attributes/<name>``, a row a record: int64, or
fixed-length UTF-8 padded with zeros, like keys. HDF5 knows no missing rows: they hold what the
dataset's HDF5 attribute ``missing`` says, the smallest int64 or the empty text.
"""

from __future__ import annotations

import errno
import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.sinks.base import damage
from dataprep.sinks.example import MISSING, DatasetInfo, to_bytes, to_text
from dataprep.system.messages import printable
from dataprep.system.regular_files import require_regular
from dataprep.tables import Value
from dataprep_schemas.manifest import Color

LAYOUT_VERSION = 1
GROUP = "attributes"
HDF5_1_8 = h5py.h5f.LIBVER_V18
HDF5_1_10 = h5py.h5f.LIBVER_V110

_LONGEST = 4096  # bytes of a text: the longest is what every row of its dataset takes


class NewFile(io.FileIO):
    """A new file for HDF5's driver for Python file objects; remembers the first failed write.

    After that, writes seem to succeed and do nothing, so that HDF5 closes in order: it cannot give
    up a file on a full disk by itself (a close that fails leaves it open until the process ends).

    Args:
        path: must not exist.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "x+")
        self._failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of it, or note why not."""
        rest = memoryview(data)
        size = len(rest)
        try:
            while rest and self._failure is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self._failure = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Set the file's size, or note why not."""
        try:
            if self._failure is None:
                super().truncate(size)
        except OSError as error:
            self._failure = error
        return size or 0

    def discard(self) -> None:
        """From now on, write nothing."""
        self._failure = self._failure or OSError(errno.ECANCELED, "given up")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise the OSError that HDF5 was not told of, whatever it made of that."""
        try:
            yield
        finally:
            if self._failure is not None:
                raise OSError(self._failure.errno, self._failure.strerror) from self._failure


def create(disk: NewFile, version: int) -> h5py.File:
    """HDF5's view of a new file, without times of day.

    Args:
        version: `HDF5_1_8` or `HDF5_1_10`, which then can read it. Both protect what is not data
            by checksums, the first all but the index of chunks.
    """
    creation: Any = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_obj_track_times(False)
    access: Any = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(version, version)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, disk)
    return h5py.File(h5py.h5f.create(b"new", h5py.h5f.ACC_TRUNC, creation, access))


def open_file(path: Path) -> h5py.File:
    """Open for reading without locks: Lustre and NFS often refuse them, and nobody writes.

    To be called in the process that reads: HDF5's state does not survive a fork. Without a cache,
    HDF5 reads of a chunk just what is asked for.

    Raises:
        SinkError: it is damaged, no HDF5 file, or would have other files read.
    """
    require_regular(path)
    with damage(path, "HDF5 structure"):
        file = h5py.File(path, "r", locking=False, rdcc_nbytes=0)
    try:
        _check_plain(file, path)
    except BaseException:
        file.close()
        raise
    return file


def _check_plain(file: h5py.File, path: Path) -> None:
    with damage(path, "HDF5 structure"):
        wrong = _what_leads_out(file, path.stat().st_size)
    if wrong is not None:
        raise SinkError(
            f"{path}: {printable(wrong)}; expected plain datasets: somebody made it so; make the "
            "shard again"
        )


def _what_leads_out(group: h5py.Group, size: int, depth: int = 2) -> str | None:
    """What is not in the file itself, or cannot be, if anything is not."""
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            return f"{name} is a link to something else"
        found = group[name]
        if isinstance(found, h5py.Group):
            inner = _what_leads_out(found, size, depth - 1) if depth > 1 else f"{name} is a group"
            if inner is not None:
                return inner
        elif not isinstance(found, h5py.Dataset):
            return f"{name} is a type"
        elif found.is_virtual or found.external:
            return f"the data of {name} are in other files"
        elif found.nbytes > size:
            return f"{name} has {found.nbytes:,} bytes, more than the file"
    return None


def describe(file: h5py.File, info: DatasetInfo, sink: str, more: Mapping[str, str]) -> None:
    """Write the attributes that all formats have, and ``more``."""
    file.attrs["dataprep_format"] = sink
    file.attrs["dataprep_version"] = np.int64(LAYOUT_VERSION)
    file.attrs["colorspace"] = info.colorspace
    file.attrs["multilabel"] = np.uint8(info.multilabel)
    for name, value in more.items():
        file.attrs[name] = value
    for name, column in (("classes", 0), ("class_names", 1)):
        texts = np.empty(len(info.classes), h5py.string_dtype())
        texts[:] = [to_bytes(entry[column]) for entry in info.classes]
        file.attrs.create(name, texts, dtype=h5py.string_dtype())


def read_info(file: h5py.File, info: DatasetInfo, sink: str) -> DatasetInfo:
    """What the file says of its data set.

    Raises:
        SinkError: it is another sink's, or a later version's, or the caller knows of other classes.
    """
    found = file.attrs["dataprep_format"], int(file.attrs["dataprep_version"])
    if found != (sink, LAYOUT_VERSION):
        raise SinkError(f"its format and version are {found}, expected {(sink, LAYOUT_VERSION)}")
    columns = ([_text(it) for it in file.attrs[name]] for name in ("classes", "class_names"))
    classes = tuple(zip(*columns, strict=True))
    if info.classes and info.classes != classes:
        pairs = zip_longest(classes, info.classes)
        here, there = next(pair for pair in pairs if pair[0] != pair[1])
        raise SinkError(f"its class {here} is not that of the data set, {there}")
    multilabel = bool(file.attrs["multilabel"])
    colorspace: Color = "Grayscale" if str(file.attrs["colorspace"]) == "Grayscale" else "RGB"
    return replace(info, classes=classes, multilabel=multilabel, colorspace=colorspace)


def _text(value: str | bytes) -> str:
    return to_text(value if isinstance(value, bytes) else to_bytes(value))


def add_dataset(file: h5py.File, name: str, data: npt.NDArray[Any]) -> h5py.Dataset:
    """Add a contiguous dataset, without times of day."""
    return file.create_dataset(name, data=data, track_times=False)


def text_bytes(text: str) -> bytes:
    """A text as it is stored: padded with zeros, as long as the longest of its dataset.

    Raises:
        SinkError: it ends in a zero, or would make all others too long.
    """
    data = to_bytes(text)
    if data.endswith(b"\0") or len(data) > _LONGEST:
        raise SinkError(
            f"HDF5 holds no text that ends in a zero byte or has more than {_LONGEST} bytes, and "
            f"it has one of {len(data)}: choose sink tfrecord or webdataset"
        )
    return data


def text_array(texts: Sequence[bytes]) -> npt.NDArray[Any]:
    """Fixed-length UTF-8 strings: half the size of variable ones, as keys are alike."""
    longest = max(map(len, texts), default=0)
    return np.array(texts, dtype=h5py.string_dtype("utf-8", max(longest, 1)))


def label_array(
    labels: Sequence[Sequence[int]], info: DatasetInfo, *, single: str, several: str
) -> npt.NDArray[Any]:
    """Labels of a shard.

    Args:
        labels: 0-based indices of every record.
        info: says whether they are one a record.
        single: the numpy type of a vector (n,) of class indices.
        several: the numpy type of a matrix (n, classes) of zeros and ones.
    """
    if not info.multilabel:
        return np.array([label for (label,) in labels], dtype=single)
    matrix = np.zeros((len(labels), len(info.classes)), dtype=several)
    for row, chosen in zip(matrix, labels, strict=True):
        row[list(chosen)] = 1
    return matrix


def labels_of(row: npt.NDArray[Any], info: DatasetInfo) -> tuple[int, ...]:
    """The inverse of `label_array` for one record."""
    return info.labels_of(row.tolist()) if np.ndim(row) else (int(row),)


class AttributeColumns:
    """Collects the attributes of a shard's records: 8 bytes each, or a text.

    Raises:
        SinkError: one has a name that cannot be a dataset's.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._columns: dict[str, array[int] | list[bytes]] = {}
        for name, kind in info.attributes:
            if "/" in name:
                raise SinkError(f"HDF5 cannot hold an attribute called {name!r}, with a /")
            self._columns[name] = array("q") if kind == "int" else []

    def row(self, attributes: Mapping[str, Value]) -> list[int | bytes]:
        """What `add` is to be given; what is missing included.

        Raises:
            SinkError: HDF5 cannot have one of the texts.
        """
        return [
            text_bytes(str(attributes.get(name, "")))
            if isinstance(rows, list)
            else int(attributes.get(name, MISSING))
            for name, rows in self._columns.items()
        ]

    def add(self, row: Sequence[Any]) -> None:
        """Append a record's row."""
        for rows, value in zip(self._columns.values(), row, strict=True):
            rows.append(value)

    def write(self, file: h5py.File) -> None:
        """Add the datasets; nothing at all if the data set has no attributes."""
        if self._columns:  # the group without times of day
            creation: Any = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
            creation.set_obj_track_times(False)
            h5py.h5g.create(file.id, GROUP.encode(), gcpl=creation)
        for name, rows in self._columns.items():
            data = text_array(rows) if isinstance(rows, list) else np.array(rows, "<i8")
            dataset = add_dataset(file, f"{GROUP}/{name}", data)
            dataset.attrs["missing"] = "" if isinstance(rows, list) else np.int64(MISSING)


def read_attributes(file: h5py.File) -> dict[str, npt.NDArray[Any]]:
    """The columns of attributes, by name."""
    group = file.get(GROUP, {})
    return {name: group[name][...] for name in sorted(group)}


def attributes_of(columns: Mapping[str, npt.NDArray[Any]], number: int) -> dict[str, Value]:
    """Those that a record has."""
    return {
        name: int(values[number]) if values.dtype.kind == "i" else to_text(bytes(values[number]))
        for name, values in columns.items()
        if values[number] not in (MISSING, b"")
    }
