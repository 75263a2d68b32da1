"""LMDB in one file, as ``folder2lmdb`` makes it for PyTorch, with msgpack in place of pickle.

Source: Lyken17/Efficient-PyTorch ``tools/folder2lmdb.py``; its values were pyarrow's and later
pickles, of which the first cannot be read any more and the second runs code. Here they are
msgpack: under ``0``, ``1``, … the list [image file's bytes, label, key], the label a 0-based
integer, or a list of zeros and ones where an image has any number of labels; under ``__keys__``
the list of those record names as bytes; under ``__len__`` how many there are. If the data set has
attributes, a map of the example's is the list's fourth item: folder2lmdb's reader takes the first
two by their numbers, and is not told of more.

``10`` sorts before ``2``, so records are inserted between others. Sorting them first would mean to
keep a whole shard's images somewhere, to gain little: images stay on pages of their own in writing
order, only the leaves of the tree that lead to them are less full. Measured: 0.2 % larger for
images of 12 kB; a third for images of 1 kB, which are small enough to be in the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import msgpack
from typing_extensions import override

from dataprep.errors import SinkError
from dataprep.index import Value
from dataprep.sinks.annotations import (
    attributes_to_store,
    flags_found,
    from_image,
    label_found,
    labels_to_store,
    located,
    naming,
)
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
from dataprep.sinks.lmdb_environment import LmdbReader, LmdbWriter, library_versions
from dataprep.sinks.unverified import in_child

_LENGTH = b"__len__"
_KEYS = b"__keys__"
_OVERHEAD = 2200  # measured: half a page at the end of the image, the key, the tree
_Said = tuple[int | list[int], str | bytes, dict[str, Value]]


class LmdbTorchWriter(ShardWriter):
    """Writes one file."""

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self._info = info
        self._number = 0
        self._database = LmdbWriter(path, append=False)

    def write(self, example: Example) -> None:
        """Store one record under its number."""
        info = self._info
        with naming(example):
            if example.format == "RAW":
                raise SinkError("is pixels (RAW); this database holds encoded images")
            labels = labels_to_store(example, info)
            label = info.multi_hot(labels) if info.multilabel else labels[0]
            record: list[object] = [example.encoded, label, _storable(example.key)]
            if info.attributes:
                attributes = attributes_to_store(example, info)
                record.append({name: _storable(value) for name, value in attributes.items()})
            try:
                value = msgpack.packb(record, use_bin_type=True)
            except ValueError as error:  # msgpack holds less than 4 GiB
                raise SinkError(str(error)) from error
            self._database.put(b"%d" % self._number, value)
        self._number += 1

    def close(self) -> Sequence[WrittenFile]:
        """Store ``__keys__`` and ``__len__`` and finish the file."""
        self._database.put(_KEYS, _packed_keys(self._number))
        self._database.put(_LENGTH, msgpack.packb(self._number))
        return (self._database.close(),)

    def abandon(self) -> None:
        """Give the file up."""
        self._database.abandon()


class LmdbTorchReader(ShardReader):
    """Reads one file."""

    def __init__(self, path: Path, info: DatasetInfo) -> None:
        self._path = path
        self._info = info
        self._database: LmdbReader | None = None
        try:
            with located(str(path)):
                self._database = LmdbReader(path)
                self._length = self._stored_length()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many records there are, as ``__len__`` says."""
        return self._length

    def __getitem__(self, number: int) -> Example:
        """The image; its format and size are in its header."""
        if not 0 <= number < self._length:
            raise IndexError(f"{self._path} has {self._length} records, none is {number}")
        with self._locating(number):
            encoded, (label, key, attributes) = self._record(number)
            labels = (
                label_found(label, self._info)
                if isinstance(label, int)
                else flags_found(label, self._info)
            )
            return from_image(_text(key), encoded, labels, self._info, attributes)

    def __iter__(self) -> Iterator[Example]:
        """Every example in order, and whether ``__keys__`` names them."""
        with located(str(self._path)):
            if self._read(_KEYS) != _packed_keys(self._length):
                raise SinkError(f"__keys__ does not name the records 0 to {self._length - 1}")
        return super().__iter__()

    def close(self) -> None:
        """Release the file."""
        if self._database is not None:
            self._database.close()

    def _read(self, name: bytes) -> memoryview:
        """A value, which is a map of the file: what is not looked at is not read."""
        if self._database is None:
            raise ValueError(f"{self._path} is closed")
        found = self._database.get(name)
        if found is None:
            raise SinkError(f"there is no {name.decode()}")
        return found

    def _stored_length(self) -> int:
        length = _unpacked(self._read(_LENGTH))
        entries = self._database.entries if self._database else 0
        if type(length) is not int or length != entries - 2:
            raise SinkError(
                f"__len__ is {length!r}, but there are {entries} entries with __len__ and __keys__"
            )
        self._read(_KEYS)
        return length

    def _record(self, number: int) -> tuple[bytes, _Said]:
        match _unpacked(self._read(b"%d" % number)):
            case [bytes(encoded), *rest]:
                return encoded, _said(rest)
        raise SinkError("not a list of image, label and key")

    def _locating(self, number: int) -> AbstractContextManager[None]:
        return located(f"{self._path}: record {number}")


class LmdbTorchSink(Sink):
    """``--sink lmdb-torch``."""

    name: ClassVar[str] = "lmdb-torch"
    summary: ClassVar[str] = "LMDB in one file as folder2lmdb's for PyTorch, msgpack values"
    keeps_attributes: ClassVar[bool] = True
    usual_shards: ClassVar[int | None] = 1
    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    reference: ClassVar[str] = "lmdb and msgpack, as folder2lmdb's reader uses them"

    @override
    def versions(self) -> Mapping[str, str]:
        """Of the library that writes the pages."""
        return library_versions()

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """One file, ``train.lmdb``."""
        return (shard_path(shard, layout, ".lmdb"),)

    def overhead(self) -> int:
        """What pages leave empty, the key and the tree."""
        return _OVERHEAD

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbTorchWriter:
        """Start a shard."""
        return LmdbTorchWriter(paths[0], info)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbTorchReader:
        """Open a finished shard."""
        return LmdbTorchReader(paths[0], info)

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The records as folder2lmdb's ``ImageFolderLMDB`` reads them, msgpack for pickle."""
        # LMDB opens a file once a process, and verify has it open.
        return in_child(paths[0], _folder2lmdb, paths[0])


def _folder2lmdb(path: Path) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    import lmdb

    with (
        lmdb.open(
            str(path), subdir=False, readonly=True, lock=False, readahead=False, meminit=False
        ) as environment,
        environment.begin(write=False) as transaction,
    ):
        length = msgpack.unpackb(transaction.get(_LENGTH))
        keys = msgpack.unpackb(transaction.get(_KEYS))
        for index in range(length):
            unpacked = msgpack.unpackb(transaction.get(keys[index]))
            target = unpacked[1]
            labels = [target] if isinstance(target, int) else _present(target)
            yield unpacked[0], tuple(labels)


def _present(multi_hot: Sequence[int]) -> list[int]:
    return [index for index, one in enumerate(multi_hot) if one]


def _storable(value: Value) -> Value | bytes:
    """The value; as bytes if it is text but not Unicode, which unpackers refuse in a string."""
    if isinstance(value, int):
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogateescape")
    return value


def _text(key: str | bytes) -> str:
    return key if isinstance(key, str) else key.decode("utf-8", "surrogateescape")


def _packed_keys(count: int) -> bytes:
    """The msgpack list of the names of ``count`` records."""
    packer = msgpack.Packer(use_bin_type=True, autoreset=False)
    packer.pack_array_header(count)
    for number in range(count):
        packer.pack(b"%d" % number)
    return bytes(packer.bytes())


def _unpacked(data: bytes | memoryview) -> Any:
    try:
        return msgpack.unpackb(data)
    except Exception as error:  # damaged bytes give ValueError and others
        raise SinkError(f"not msgpack: {error}") from error


def _said(rest: Any) -> _Said:
    """A value without its image, checked: label, key, attributes."""
    match rest:
        case [int(label), str(key) | bytes(key), *more] if type(label) is int:
            return label, key, _attributes(more)
        case [[*labels], str(key) | bytes(key), *more] if all(type(one) is int for one in labels):
            return labels, key, _attributes(more)
    raise SinkError("not a list of image, label and key")


def _attributes(more: Sequence[Any]) -> dict[str, Value]:
    """What comes behind the key: nothing, or a map."""
    match more:
        case []:
            return {}
        case [dict(found)] if all(
            type(name) is str and type(value) in (int, str, bytes) for name, value in found.items()
        ):
            return {
                name: value if isinstance(value, int) else _text(value)
                for name, value in found.items()
            }
    raise SinkError("not a map of attributes behind its image, label and key")
