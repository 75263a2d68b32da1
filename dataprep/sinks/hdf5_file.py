"""What the HDF5 formats share: how a file is opened, described and checked.

Every file has, on its root group, the attributes ``dataprep_format`` (the sink's name),
``dataprep_version`` (of that layout, an integer), ``colorspace``, ``multilabel`` (0 or 1),
``classes`` (identifiers) and ``class_names``. HDF5 keeps an attribute within 64 KiB; longer lists
of classes become datasets of these names, and the attribute ``classes_are_datasets`` is 1.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from dataprep.errors import SinkError
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.hdf5_seal import check_seal
from dataprep.system.messages import printable

LAYOUT_VERSION = 1

CLASS_DATASETS = frozenset({"classes", "class_names"})
"""Datasets that are not a row a record, where there are too many classes for attributes."""

_CHUNK_CACHE = 1 << 20  # HDF5 2 takes 8 MiB a dataset; ours have no chunks
_ATTRIBUTE_LIMIT = 60 * 1024  # HDF5's is 64 KiB, header included
_ATTRIBUTE_STRING = 16  # a string in an attribute: a reference into the global heap

_LOCKING_DIFFERS = "file locking flag values don't match"  # HDF5's own words

# What says nothing about the file's contents, so that the caller may explain it.
_NOT_DAMAGE = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EMFILE, errno.ENFILE}
    | {errno.EIO, errno.ESTALE, errno.ENOSPC}
)


def library_versions() -> dict[str, str]:
    """What lays the files out."""
    return {"h5py": h5py.__version__, "hdf5": h5py.version.hdf5_version}


@contextmanager
def damage(path: Path, place: str) -> Iterator[None]:
    """Turn what h5py and numpy raise about a damaged file into a SinkError naming ``place``.

    A SinkError from within stays as it is.
    """
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        OSError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
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

    To be called in the process that reads: HDF5's state does not survive a fork.

    Raises:
        SinkError: it is damaged, or not ours.
    """
    check_seal(path)
    with damage(path, "HDF5 structure"):
        return h5py.File(path, "r", locking=False, rdcc_nbytes=_CHUNK_CACHE)


def format_of(path: Path) -> str | None:
    """The sink that wrote a file, by its attribute; None if that is not there.

    Raises:
        SinkError: it is damaged, or no HDF5 file of ours.
    """
    with open_file(path) as file, damage(path, "attribute dataprep_format"):
        found = file.attrs.get("dataprep_format")
        return found if isinstance(found, str) else None


def describe(file: h5py.File, info: DatasetInfo, sink: str, more: Mapping[str, str]) -> None:
    """Write the attributes that all formats have, and ``more``."""
    file.attrs["dataprep_format"] = sink
    file.attrs["dataprep_version"] = np.int64(LAYOUT_VERSION)
    file.attrs["colorspace"] = info.colorspace
    file.attrs["multilabel"] = np.uint8(info.multilabel)
    for name, value in more.items():
        file.attrs[name] = value
    too_many = _ATTRIBUTE_STRING * len(info.classes) > _ATTRIBUTE_LIMIT
    file.attrs["classes_are_datasets"] = np.uint8(too_many)
    for name, column in (("classes", 0), ("class_names", 1)):
        texts = np.empty(len(info.classes), h5py.string_dtype())
        texts[:] = [_text_bytes(entry[column]) for entry in info.classes]
        if too_many:
            add_dataset(file, name, texts)
        else:
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
    classes = _classes(file)
    if info.classes and info.classes != classes:
        raise SinkError(
            f"{file.filename}: its classes are not those of the data set: "
            f"{_difference(classes, info.classes)}; make the shard again"
        )
    return replace(info, classes=classes, multilabel=bool(multilabel), colorspace=str(colorspace))


def _classes(file: h5py.File) -> tuple[tuple[str, str], ...]:
    holder = file if file.attrs["classes_are_datasets"] else file.attrs
    identifiers, names = (_texts(holder[name]) for name in ("classes", "class_names"))
    if len(identifiers) != len(names):
        raise ValueError(f"{len(identifiers)} classes have {len(names)} names")
    return tuple(zip(identifiers, names, strict=True))


def _difference(found: Sequence[tuple[str, str]], expected: Sequence[tuple[str, str]]) -> str:
    for number, (here, there) in enumerate(zip(found, expected, strict=False)):
        if here != there:
            named, wanted = (printable(" ".join(entry)) for entry in (here, there))
            named, wanted = (printable(" ".join(entry)) for entry in (here, there))
            return f"number {number} is {named!r}, expected {wanted!r}"
    return f"it has {len(found)}, expected {len(expected)}"


def _texts(values: Any) -> list[str]:
    texts = []
    for value in values[:]:
        if not isinstance(value, (bytes, str)):
            raise TypeError("class names are not text")
        text = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        texts.append(text.decode("utf-8", "surrogateescape"))
    return texts


def add_dataset(file: h5py.File, name: str, data: npt.NDArray[Any]) -> None:
    """Add a contiguous dataset without the time of day, which h5py may put in."""
    file.create_dataset(name, data=data, track_times=False)


def key_bytes(key: str, where: str) -> bytes:
    """A key as it is stored: padded with zeros, so that it must not end in one.

    Raises:
        SinkError: it does.
    """
    data = key.encode("utf-8", "surrogateescape")
    if data.endswith(b"\0"):
        raise SinkError(f"{where}: HDF5 cannot hold the key {key!r}, it ends in a zero byte")
    return data


def key_array(keys: Sequence[bytes]) -> npt.NDArray[Any]:
    """Keys as fixed-length UTF-8 strings: half the size of variable ones, as keys are alike."""
    longest = max(map(len, keys), default=0)
    return np.array(keys, dtype=h5py.string_dtype("utf-8", max(longest, 1)))


def label_of(labels: Sequence[int], info: DatasetInfo, where: str) -> Sequence[int]:
    """The labels, if this data set can have them.

    Raises:
        SinkError: not exactly one of a single-label data set, or no class of a multi-label one.
    """
    if info.multilabel:
        if not all(0 <= label < len(info.classes) for label in labels):
            raise SinkError(
                f"{where}: labels {list(labels)} are not all below {len(info.classes)}, "
                "the number of classes"
            )
    elif len(labels) != 1:
        raise SinkError(f"{where}: has {len(labels)} labels, exactly one can be stored")
    return labels


def label_array(
    labels: Sequence[Sequence[int]], info: DatasetInfo, *, single: str, several: str
) -> npt.NDArray[Any]:
    """Labels of a shard.

    Args:
        labels: 0-based indices of every record, as `label_of` lets them through.
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
    dataset = large_column(file, name, kind, shape)
    return np.asarray(dataset[...])


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
