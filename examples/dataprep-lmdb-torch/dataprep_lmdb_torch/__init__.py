"""LMDB in one file, as ``folder2lmdb`` makes it for PyTorch, with msgpack in place of pickle.

Source: Lyken17/Efficient-PyTorch ``tools/folder2lmdb.py``; its values were pyarrow's and later
pickles, of which the first cannot be read any more and the second runs code. Here they are
msgpack: under ``0``, ``1``, … the list [image file's bytes, label, key], the label a 0-based
integer, or a list of zeros and ones where an image has any number of labels; under ``__keys__``
the list of those record names as bytes; under ``__len__`` how many there are. If the data set has
attributes or captions, a map of the example's attributes is the list's fourth item, and a list of
its captions the fifth: folder2lmdb's reader takes the first two by their numbers, and is not told
of more.

``10`` sorts before ``2``, so records are inserted between others. Sorting them first would mean to
keep a whole shard's images somewhere, to gain little: images stay on pages of their own in writing
order, only the leaves of the tree that lead to them are less full. Measured: 0.2 % larger for
images of 12 kB; a third for images of 1 kB, which are small enough to be in the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import lmdb
import msgpack
from dataprep.errors import SinkError
from dataprep.formats import Record, WrittenFile
from dataprep.formats.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.formats.lmdb.environment import LmdbFileSink, LmdbReader, LmdbWriter
from dataprep.formats.subprocess_reader import in_child
from dataprep_schemas.fields import CAPTIONS, PLAIN, Value
from typing_extensions import override

_LENGTH = b"__len__"
_KEYS = b"__keys__"


class LmdbTorchWriter(LmdbWriter):
    """Writes one file."""

    @override
    def append(self, example: Example) -> None:
        labels = example.labels
        label = self.info.multi_hot(labels) if self.info.multilabel else labels[0]
        record: list[object] = [example.encoded, label, _storable(example.key)]
        said = example.fields.items()
        if self.info.fields:
            record.append({name: _storable(it) for name, it in said if not isinstance(it, tuple)})
        if CAPTIONS in self.info.fields:
            record.append([*map(_storable, example.fields.get(CAPTIONS.name, ()))])
        self.put(b"%d" % self.number, msgpack.packb(record, use_bin_type=True))

    @override
    def close(self) -> Sequence[WrittenFile]:
        """Store ``__keys__`` and ``__len__`` and finish the file."""
        records = self.number
        packer = msgpack.Packer(use_bin_type=True, autoreset=False)
        packer.pack_array_header(records)
        for number in range(records):
            packer.pack(b"%d" % number)
        self.put(_KEYS, bytes(packer.bytes()))
        self.put(_LENGTH, msgpack.packb(records))
        return super().close()


class LmdbTorchReader(LmdbReader):
    """Reads one file."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths, info)
        with self.opening("LMDB structure"):
            self._length = int(msgpack.unpackb(self.get(_LENGTH)))
            if self._length != self.entries - 2:
                raise SinkError(f"__len__ is {self._length} of {self.entries} entries")

    def __len__(self) -> int:
        return self._length

    def read(self, number: int) -> Example:
        """The image; its format and size are in its header."""
        record = msgpack.unpackb(self.get(b"%d" % number))
        encoded, label, key, stored, captions = (*record, {}, ())[:5]
        labels = (label,) if isinstance(label, int) else self.info.labels_of(label)
        return self.info.example(
            str(_value(key)),
            encoded,
            labels,
            fields={
                **{name: _value(value) for name, value in stored.items()},
                CAPTIONS.name: tuple(str(_value(text)) for text in captions),
            },
        )


class LmdbTorchSink(LmdbFileSink):
    """``--sink lmdb-torch``."""

    name: ClassVar[str] = "lmdb-torch"
    summary: ClassVar[str] = "LMDB in one file as folder2lmdb's for PyTorch, msgpack values"
    keeps = (*PLAIN, CAPTIONS.kind)
    suffixes: ClassVar[tuple[str, ...]] = (".lmdb",)
    reference: ClassVar[str] = "lmdb and msgpack, as folder2lmdb's reader uses them"
    Writer = LmdbTorchWriter
    Reader = LmdbTorchReader

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records as folder2lmdb's ``ImageFolderLMDB`` reads them, msgpack for pickle."""
        # LMDB opens a file once a process, and verify has it open.
        for encoded, label in in_child(paths[0], _folder2lmdb, paths[0]):
            yield encoded, (label,) if isinstance(label, int) else info.labels_of(label)


def _folder2lmdb(path: Path) -> Iterator[tuple[bytes, Any]]:
    with (
        lmdb.open(
            str(path), subdir=False, readonly=True, lock=False, readahead=False, meminit=False
        ) as environment,
        environment.begin(write=False) as transaction,
    ):
        for key in msgpack.unpackb(transaction.get(_KEYS)):
            unpacked = msgpack.unpackb(transaction.get(key))
            yield unpacked[0], unpacked[1]


def _storable(value: Value) -> Value | bytes:
    """The value; as bytes if it is text but not Unicode, which unpackers refuse in a string."""
    if not isinstance(value, str):
        return value
    data = to_bytes(value)
    return value if data.decode("utf-8", "replace") == value else data


def _value(stored: Value | bytes) -> Value:
    return to_text(stored) if isinstance(stored, bytes) else stored
