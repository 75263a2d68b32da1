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
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.index import Value
from dataprep.sinks.annotations import MISSING, attributes_to_store
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.system.messages import printable

LAYOUT_VERSION = 1
GROUP = "attributes"
HDF5_1_8 = h5py.h5f.LIBVER_V18
HDF5_1_10 = h5py.h5f.LIBVER_V110

_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_]+")
_LONGEST = 4096  # bytes of a text: the longest is what every row of its dataset takes
_LOCKING_DIFFERS = "file locking flag values don't match"  # HDF5's own words

# What says nothing about the file's contents, so that the caller may explain it.
_NOT_DAMAGE = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EMFILE, errno.ENFILE}
    | {errno.EIO, errno.ESTALE, errno.ENOSPC}
)


def library_versions() -> dict[str, str]:
    """What lays the files out."""
    return {"h5py": h5py.__version__, "hdf5": h5py.version.hdf5_version}


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
        disk: the file.
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


@contextmanager
def damage(path: Path, place: str) -> Iterator[None]:
    """Turn what h5py and numpy raise about a damaged file into a SinkError naming ``place``.

    A SinkError from within stays as it is.
    """
    try:
        yield
    except SinkError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NOT_DAMAGE:
            raise
        said = " ".join(str(error).split())
        if _LOCKING_DIFFERS in said:
            raise SinkError(
                f"{path} is open with HDF5's locks in this process, and dataprep opens it without; "
                "say locking=False there too, or HDF5_USE_FILE_LOCKING=FALSE"
            ) from error
        raise SinkError(
            f"{path}: {place} cannot be read: {said}; the file is damaged or not ours, "
            "make the shard again"
        ) from error


def open_file(path: Path) -> h5py.File:
    """Open for reading without locks: Lustre and NFS often refuse them, and nobody writes.

    To be called in the process that reads: HDF5's state does not survive a fork. Without a cache,
    HDF5 reads of a chunk just what is asked for.

    Raises:
        SinkError: it is damaged, or no HDF5 file.
    """
    with damage(path, "HDF5 structure"):
        return h5py.File(path, "r", locking=False, rdcc_nbytes=0)


def formats_of(path: Path) -> Iterator[str | None]:
    """The sink that wrote a file, by its attribute; None if that is not there.

    Raises:
        SinkError: it is damaged, or no HDF5 file.
    """
    with open_file(path) as file, damage(path, "attribute dataprep_format"):
        found = file.attrs.get("dataprep_format")
        yield found if isinstance(found, str) else None


def describe(file: h5py.File, info: DatasetInfo, sink: str, more: Mapping[str, str]) -> None:
    """Write the attributes that all formats have, and ``more``.

    Raises:
        SinkError: a class has a zero byte in its name.
    """
    file.attrs["dataprep_format"] = sink
    file.attrs["dataprep_version"] = np.int64(LAYOUT_VERSION)
    file.attrs["colorspace"] = info.colorspace
    file.attrs["multilabel"] = np.uint8(info.multilabel)
    for name, value in more.items():
        file.attrs[name] = value
    for name, column in (("classes", 0), ("class_names", 1)):
        texts = np.empty(len(info.classes), h5py.string_dtype())
        texts[:] = [_text_bytes(entry[column]) for entry in info.classes]
        file.attrs.create(name, texts, dtype=h5py.string_dtype())


def _text_bytes(text: str) -> bytes:
    if "\0" in text:
        raise SinkError(f"HDF5 cannot hold the class {text!r}: there is a zero byte in it")
    return text.encode("utf-8", "surrogateescape")


def read_info(file: h5py.File, info: DatasetInfo, sink: str) -> DatasetInfo:
    """What the file says of its data set.

    Raises:
        SinkError: the caller knows of other classes.
        ValueError: it is another sink's, or a later version's; and whatever h5py raises.
    """
    found = file.attrs.get("dataprep_format")
    if found != sink:
        raise ValueError(f"attribute dataprep_format is {found!r}, not {sink!r}")
    version = int(file.attrs["dataprep_version"])
    if version != LAYOUT_VERSION:
        raise ValueError(f"layout version is {version}, this dataprep reads {LAYOUT_VERSION}")
    colorspace = file.attrs["colorspace"]
    if colorspace not in ("RGB", "Grayscale"):
        raise ValueError(f"colorspace is {colorspace!r}, not RGB or Grayscale")
    multilabel = int(file.attrs["multilabel"])
    if multilabel not in (0, 1):
        raise ValueError(f"attribute multilabel is {multilabel}, not 0 or 1")
    identifiers, names = (_texts(file.attrs[name]) for name in ("classes", "class_names"))
    if len(identifiers) != len(names):
        raise ValueError(f"{len(identifiers)} classes have {len(names)} names")
    classes = tuple(zip(identifiers, names, strict=True))
    if info.classes and info.classes != classes:
        raise SinkError(
            f"{file.filename}: its classes are not those of the data set: "
            f"{_difference(classes, info.classes)}; make the shard again"
        )
    return replace(info, classes=classes, multilabel=bool(multilabel), colorspace=str(colorspace))


def _difference(found: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]) -> str:
    for number, (here, there) in enumerate(zip(found, expected, strict=False)):
        if here != there:
            named, wanted = (printable(" ".join(entry)) for entry in (here, there))
            return f"number {number} is {named!r}, expected {wanted!r}"
    return f"it has {len(found)}, expected {len(expected)}"


def _texts(values: Sequence[object]) -> list[str]:
    texts = []
    for value in values:
        if not isinstance(value, (bytes, str)):
            raise TypeError("class names are not text")
        data = value if isinstance(value, bytes) else _encoded(value)
        texts.append(data.decode("utf-8", "surrogateescape"))
    return texts


def add_dataset(file: h5py.File, name: str, data: npt.NDArray[Any]) -> h5py.Dataset:
    """Add a contiguous dataset, without times of day."""
    return file.create_dataset(name, data=data, track_times=False)


def key_bytes(key: str, where: str) -> bytes:
    """A key as it is stored: padded with zeros, so that it must not end in one.

    Raises:
        SinkError: it does.
    """
    data = _encoded(key)
    if data.endswith(b"\0"):
        raise SinkError(f"{where}: HDF5 cannot hold the key {key!r}, it ends in a zero byte")
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


def labels_of(row: npt.NDArray[Any]) -> tuple[int, ...]:
    """The inverse of `label_array` for one record.

    Raises:
        ValueError: no class has such a number, or a vector has other numbers than 0 and 1.
    """
    if row.ndim == 0:
        label = int(row)
        if label < 0 or label != row:
            raise ValueError(f"label {row} is no class index")
        return (label,)
    if not np.isin(row, (0, 1)).all():
        raise ValueError("the label vector has other numbers than 0 and 1")
    return tuple(int(label) for label in np.flatnonzero(row))


def column(
    file: h5py.File, name: str, kind: str, shape: tuple[int | None, ...]
) -> npt.NDArray[Any]:
    """Read a small dataset whole, having checked that it is what it should be.

    Args:
        file: an open file.
        name: of the dataset.
        kind: its numpy kind and size, e.g. ``i8``; ``S`` for keys.
        shape: expected; None for what may have any size.
    """
    return np.asarray(large_column(file, name, kind, shape)[...])


def large_column(
    file: h5py.File, name: str, kind: str, shape: tuple[int | None, ...]
) -> h5py.Dataset:
    """A dataset that is not read yet, checked likewise."""
    dataset = file[name]
    if not isinstance(dataset, h5py.Dataset):
        raise TypeError(f"{name} is no dataset")
    if not dataset.dtype.str.lstrip("<|>").startswith(kind):
        raise ValueError(f"dataset {name} has the type {dataset.dtype}, expected {kind}")
    fits = len(dataset.shape) == len(shape) and all(
        wanted in (None, found) for found, wanted in zip(dataset.shape, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"dataset {name} has the shape {dataset.shape}, expected {shape}")
    return dataset


class AttributeColumns:
    """Collects the attributes of a shard's records: 8 bytes each, or a text.

    Args:
        info: says which there are.

    Raises:
        SinkError: one has a name that cannot be a dataset's.
    """

    def __init__(self, info: DatasetInfo) -> None:
        self._info = info
        self._columns: dict[str, array[int] | list[bytes]] = {}
        for name, kind in info.attributes:
            if not _ATTRIBUTE_NAME.fullmatch(name):
                raise SinkError(
                    f"HDF5 cannot hold an attribute called {name!r}: use letters, digits and _"
                )
            self._columns[name] = array("q") if kind == "int" else []

    def checked(self, example: Example) -> dict[str, Value]:
        """What `add` is to be given.

        Raises:
            SinkError: the data set or HDF5 cannot have it. It does not name the example.
        """
        found = attributes_to_store(example, self._info)
        for name, value in found.items():
            size = len(text := _encoded(value)) if isinstance(value, str) else 0
            if size > _LONGEST or (size and text.endswith(b"\0")):
                raise SinkError(
                    "HDF5 holds no text that ends in a zero byte, and none of more than "
                    f"{_LONGEST} bytes, since all of its dataset are as long; its attribute {name} "
                    f"has {size} bytes: choose sink tfrecord or webdataset"
                )
        return found

    def add(self, attributes: Mapping[str, Value]) -> None:
        """Append a record's row."""
        for name, rows in self._columns.items():
            if isinstance(rows, list):
                rows.append(_encoded(str(attributes.get(name, ""))))
            else:
                rows.append(int(attributes.get(name, MISSING)))

    def write(self, file: h5py.File) -> None:
        """Add the datasets; nothing at all if the data set has no attributes."""
        add_group(file, bool(self._columns))
        for name, rows in self._columns.items():
            data = text_array(rows) if isinstance(rows, list) else np.array(rows, "<i8")
            mark_missing(add_dataset(file, f"{GROUP}/{name}", data))


def add_group(file: h5py.File, wanted: bool) -> None:
    """Add the group of attributes, if it is wanted, without times of day."""
    if wanted:
        creation: Any = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
        creation.set_obj_track_times(False)
        h5py.h5g.create(file.id, GROUP.encode(), gcpl=creation)


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


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
