"""What the HDF5 formats share: how a file is made, described, opened and checked.

docs/formats.md has a table of what is in one. Images are appended to one dataset, in chunks of 64
KiB, or of one image if that is more; they are not compressed, so that an image is read without the
rest of its chunks. Behind it are columns, with a row a record each.
"""

from __future__ import annotations

import errno
import io
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import zip_longest
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import h5py
import numpy as np
import numpy.typing as npt
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.formats import PlainSink, ShardReader, ShardWriter, WrittenFile, damage
from dataprep.formats.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.formats.hashed_file import hash_finished
from dataprep.system.messages import printable
from dataprep.system.regular_files import require_regular
from dataprep_schemas.fields import CAPTIONS, MASK, MISSING, Field, Value, named
from dataprep_schemas.manifest import Color

LAYOUT_VERSION = 1
HDF5_1_8 = h5py.h5f.LIBVER_V18
HDF5_1_10 = h5py.h5f.LIBVER_V110

Column = npt.NDArray[Any]

_ATTRIBUTES = "attributes"
MASKS, MASK_OFFSETS = "masks", "mask_offsets"
_CHUNK = 64 << 10  # bytes; larger ones make small files large
_BUFFER = 1 << 20  # bytes that are handed over at once
_LONGEST = 4096  # bytes of a text: the longest is what every row of its dataset takes


class FileSink(PlainSink):
    """A shard is an HDF5 file that h5py reads; a base class, no format."""

    suffixes: ClassVar[tuple[str, ...]] = (".h5",)
    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("h5py",)
    reference: ClassVar[str] = "h5py"

    @override
    def stores_classes(self, info: DatasetInfo) -> bool:
        """In each file's header."""
        return True

    @override
    def versions(self) -> Mapping[str, str]:
        return {**super().versions(), "hdf5": h5py.version.hdf5_version}


# --- Writing ---


class FileWriter(ShardWriter):
    """Appends images; holds keys, labels and attributes, some 100 bytes a record, until the end.

    Args:
        row: the shape of an image in its dataset; empty if that is one row of bytes.
    """

    sink: ClassVar[str]
    images: ClassVar[str] = "images"
    """The dataset of images."""

    version: ClassVar[int] = HDF5_1_10
    """Of HDF5, to read it."""

    def __init__(
        self, paths: Sequence[Path], info: DatasetInfo, row: tuple[int, ...] = (), dtype: str = "u1"
    ) -> None:
        super().__init__(info, pixels=bool(row))
        (self.path,) = paths
        self.keys: list[bytes] = []
        self.labels: list[Sequence[int]] = []
        plain = (field for field in info.fields if field.rules.plain)
        self._values: dict[Field, list[int | float | bytes]] = {field: [] for field in plain}
        self._texts = {it: (list[bytes](), array("q", [0])) for it in info.fields if it == CAPTIONS}
        self._disk = _NewFile(self.path)
        try:
            self._file = _create(self._disk, self.version)
            self.stored = _Growing(self._disk, self._file, self.images, row, dtype)
            self._masks: _Growing | None = None
            if named(info.fields, MASK.kind):
                self._masks = _Growing(self._disk, self._file, MASKS, (), "u1")
        except BaseException:
            self._disk.close()
            raise

    @override
    def append(self, example: Example) -> None:
        key, said = _text_bytes(example.key), example.fields
        plain = (said.get(field.name, field.rules.missing) for field in self._values)
        values = [_text_bytes(it) if isinstance(it, str) else it for it in plain]
        texts = [[*map(_text_bytes, said.get(field.name, ()))] for field in self._texts]
        self.stored.append(self.image_bytes(example))
        if self._masks is not None:
            self._masks.append(said.get(MASK.name, b""))
        self.keys.append(key)
        self.labels.append(example.labels)
        for column, value in zip(self._values.values(), values, strict=True):
            column.append(value)
        for (every, offsets), found in zip(self._texts.values(), texts, strict=True):
            every += found
            offsets.append(len(every))

    def close(self) -> Sequence[WrittenFile]:
        """Add the columns and the attributes."""
        with self._disk.told():
            self.stored.finish()
            if self._masks is not None:
                self._masks.finish()
                self._add(MASK_OFFSETS, np.array(self._masks.offsets, "<i8"))
            for name, data in self.columns().items():
                self._add(name, data)
            self._add("keys", _text_column(self.keys))
            self._add_values()
            for field, (texts, offsets) in self._texts.items():
                self._add(field.name, _text_column(texts))
                self._add(_offsets_of(field), np.array(offsets, "<i8"))
            _describe(self._file, self.info, self.sink, self.description())
            self._file.close()
        self._disk.close()
        return (hash_finished(self.path),)

    def abandon(self) -> None:
        """Close the file without writing any more."""
        if not self._disk.closed:
            self._disk.failure = self._disk.failure or OSError(errno.ECANCELED, "given up")
            with suppress(Exception):  # HDF5 may miss what could not be written
                self._file.close()
            self._disk.close()

    def image_bytes(self, example: Example) -> bytes:
        """What the dataset of images gets; also notes what `columns` will need."""
        return example.encoded

    def columns(self) -> dict[str, Column]:
        """The small datasets but the keys."""
        return {"labels": self.label_column(single="<i8", several="u1")}

    def description(self) -> dict[str, str]:
        """HDF5 attributes of the file besides those of every format."""
        return {}

    def label_column(self, single: str, several: str) -> Column:
        """The labels of all records.

        Args:
            single: the numpy type of a vector (n,) of class indices.
            several: the numpy type of a matrix (n, classes) of zeros and ones.
        """
        if not self.info.multilabel:
            return np.array([label for (label,) in self.labels], dtype=single)
        matrix = np.zeros((len(self.labels), len(self.info.classes)), dtype=several)
        for row, chosen in zip(matrix, self.labels, strict=True):
            row[list(chosen)] = 1
        return matrix

    def _add(self, name: str, data: Column) -> h5py.Dataset:
        return self._file.create_dataset(name, data=data, track_times=False)

    def _add_values(self) -> None:
        """Add a dataset of each field that is a number or a text; nothing if there is none."""
        if self._values:  # the group without times of day
            creation: Any = h5py.h5p.create(h5py.h5p.GROUP_CREATE)
            creation.set_obj_track_times(False)
            h5py.h5g.create(self._file.id, _ATTRIBUTES.encode(), gcpl=creation)
        for field, values in self._values.items():
            kind, missing = field.rules.column, field.rules.missing
            is_text = isinstance(missing, str)
            data = _text_column(values) if is_text else np.array(values, kind)
            dataset = self._add(f"{_ATTRIBUTES}/{field.name}", data)
            dataset.attrs["missing"] = missing if is_text else data.dtype.type(missing)


def _offsets_of(field: Field) -> str:
    """The dataset that says where the values of each record begin: ``caption_offsets``."""
    return f"{field.name.removesuffix('s')}_offsets"


def _text_bytes(text: str) -> bytes:
    """A text as it is stored: padded with zeros, as long as the longest of its dataset."""
    data = to_bytes(text)
    if data.endswith(b"\0") or len(data) > _LONGEST:
        raise SinkError(
            f"HDF5 holds no text that ends in a zero byte or has more than {_LONGEST} bytes, and "
            f"it has one of {len(data)}: choose sink tfrecord or webdataset"
        )
    return data


def _text_column(texts: Sequence[Any]) -> Column:
    """Fixed-length UTF-8 strings: half the size of variable ones, as keys are alike."""
    longest = max(map(len, texts), default=0)
    return np.array(texts, dtype=h5py.string_dtype("utf-8", max(longest, 1)))


def _describe(file: h5py.File, info: DatasetInfo, sink: str, more: Mapping[str, str]) -> None:
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


class _Growing:
    """A dataset of images that is written from front to back, in whole chunks.

    Attributes:
        offsets: where each image begins, in bytes, and where the last ends.
    """

    def __init__(
        self, disk: _NewFile, file: h5py.File, name: str, row: tuple[int, ...], dtype: str
    ) -> None:
        row_bytes = prod(row) * np.dtype(dtype).itemsize
        rows = max(_CHUNK // max(row_bytes, 1), 1)
        self._disk, self._chunk_bytes = disk, rows * row_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.offsets = array("q", [0])
        with disk.told():
            self._dataset = file.create_dataset(
                name,
                (0, *row),
                dtype,
                maxshape=(None, *row),
                chunks=(rows, *row),
                track_times=False,
            )

    def append(self, image: bytes) -> None:
        """The next image."""
        self._pending.append(image)
        self._pending_bytes += len(image)
        self.offsets.append(self.offsets[-1] + len(image))
        if self._pending_bytes >= max(_BUFFER, self._chunk_bytes):
            self._write(self._pending_bytes - self._pending_bytes % self._chunk_bytes)

    def finish(self) -> None:
        """Write the rest."""
        self._write(self._pending_bytes)

    def _write(self, size: int) -> None:
        """Append the first bytes of what is pending: whole chunks, or in the end whole rows."""
        data = b"".join(self._pending)
        items = size // self._dataset.dtype.itemsize
        rows = np.frombuffer(data, self._dataset.dtype, items)
        rows = rows.reshape(-1, *self._dataset.shape[1:])
        start = len(self._dataset)
        if len(rows):
            with self._disk.told():
                self._dataset.resize(start + len(rows), axis=0)
                self._dataset[start:] = rows
        self._pending, self._pending_bytes = [data[size:]], len(data) - size


class _NewFile(io.FileIO):
    """A new file for HDF5's driver for Python file objects; remembers the first failed write.

    After that, writes seem to succeed and do nothing, so that HDF5 closes in order: it cannot give
    up a file on a full disk by itself, and of what failed it does not tell the reason.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "x+")
        self.failure: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all of it, or note why not."""
        rest = memoryview(data)
        size = len(rest)
        try:
            while rest and self.failure is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.failure = error
        return size

    @contextmanager
    def told(self) -> Iterator[None]:
        """Raise the OSError that HDF5 was not told of, whatever it made of that."""
        try:
            yield
        finally:
            if self.failure is not None:
                raise OSError(self.failure.errno, self.failure.strerror) from self.failure


def _create(disk: _NewFile, version: int) -> h5py.File:
    """HDF5's view of a new file: without times of day, and without a cache of chunks.

    Both versions protect what is not data by checksums, 1.8 all but the index of chunks.
    """
    creation: Any = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    creation.set_obj_track_times(False)
    access: Any = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(version, version)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    unused, slots, _, preemption = access.get_cache()
    access.set_cache(unused, slots, 0, preemption)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, disk)
    return h5py.File(h5py.h5f.create(b"new", h5py.h5f.ACC_TRUNC, creation, access))


# --- Reading ---


class FileReader(ShardReader):
    """Random access; all but the images is read whole when it is opened.

    Args:
        info: classes come from the file if it has none.
    """

    sink: ClassVar[str]
    images: ClassVar[str] = "images"
    labels: ClassVar[str] = "labels"

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        self.file = open_file(self.path)
        with self.opening("header"):
            self.opened.enter_context(self.file)
            self.info = _read_info(self.file, info, self.sink)
            self.rows = self.file[self.images]
            self.masks = self.file.get(MASKS)
            self.columns: dict[str, Column] = {
                name: dataset[...]
                for name, dataset in self.file.items()
                if name not in (self.images, MASKS) and isinstance(dataset, h5py.Dataset)
            }
            attributes = self.file.get(_ATTRIBUTES, {})
            self._values = {name: attributes[name][...] for name in sorted(attributes)}
            self._records = len(self.columns["keys"])

    def __len__(self) -> int:
        return self._records

    def example(
        self,
        number: int,
        encoded: bytes,
        fields: Mapping[str, Value] = MappingProxyType({}),
        **more: Any,
    ) -> Example:
        """The example, from its image, the columns, and what `DatasetInfo.example` takes."""
        return self.info.example(
            to_text(bytes(self.columns["keys"][number])),
            encoded,
            labels_of(self.columns[self.labels][number], self.info),
            fields={
                **dict(self._plain(number)),
                CAPTIONS.name: self._texts(number),
                MASK.name: self._mask(number),
                **fields,
            },
            **more,
        )

    def _plain(self, number: int) -> Iterator[tuple[str, Value]]:
        for name, column in self._values.items():
            value = column[number].item()
            if isinstance(value, bytes):
                value = to_text(value)
            if value != MISSING and value == value:  # which NaN is not
                yield name, value

    def _texts(self, number: int) -> tuple[str, ...]:
        offsets = self.columns.get(_offsets_of(CAPTIONS))
        if offsets is None:
            return ()
        first, last = offsets[number : number + 2].tolist()
        texts = self.columns[CAPTIONS.name][first:last]
        if len(texts) != last - first:
            raise SinkError("its offsets lie outside of the captions")
        return tuple(map(to_text, texts.tolist()))

    def _mask(self, number: int) -> bytes:
        offsets = self.columns.get(MASK_OFFSETS)
        if offsets is None or self.masks is None:
            return b""
        first, last = offsets[number : number + 2].tolist()
        if not 0 <= first <= last <= len(self.masks):
            raise SinkError("its offsets lie outside of the masks")
        return bytes(self.masks[first:last].tobytes())


def labels_of(row: Column, info: DatasetInfo) -> tuple[int, ...]:
    """The inverse of `FileWriter.label_column` for one record."""
    return info.labels_of(row.tolist()) if np.ndim(row) else (int(row),)


def open_file(path: Path) -> h5py.File:
    """Open for reading without locks: Lustre and NFS often refuse them, and nobody writes.

    To be called in the process that reads: HDF5's state does not survive a fork. Without a cache,
    HDF5 reads of a chunk just what is asked for.

    Raises:
        SinkError: it is damaged, no HDF5 file, or would have other files read.
    """
    require_regular(path)
    with damage(path, "HDF5 structure"), ExitStack() as undo:
        file = undo.enter_context(h5py.File(path, "r", locking=False, rdcc_nbytes=0))
        _check_plain(file, path.stat().st_size)
        undo.pop_all()
    return file


def _check_plain(group: h5py.Group, size: int, depth: int = 2) -> None:
    """Refuse what is not in the file itself, of ``size`` bytes, or cannot be."""
    for name in group:
        found = group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None
        if isinstance(found, h5py.Group) and depth > 1:
            _check_plain(found, size, depth - 1)
            continue
        if found is None:
            wrong = "is a link to something else"
        elif not isinstance(found, h5py.Dataset):
            wrong = "is a group or a type"
        elif found.is_virtual or found.external:
            wrong = "has its data in other files"
        elif found.nbytes > size:
            wrong = f"has {found.nbytes:,} bytes, more than the file"
        else:
            continue
        raise SinkError(f"{printable(name)} {wrong}; expected plain datasets: somebody made it so")


def _read_info(file: h5py.File, info: DatasetInfo, sink: str) -> DatasetInfo:
    """What the file says of its data set, which is this sink's, and of classes that are known."""
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
