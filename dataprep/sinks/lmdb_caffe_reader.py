"""Reads the databases of Datums that `dataprep.sinks.lmdb_caffe` describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from dataprep.errors import SinkError
from dataprep.images.sniff import sniff
from dataprep.sinks import datum
from dataprep.sinks.base import DatasetInfo, ShardReader
from dataprep.sinks.example import Example
from dataprep.sinks.lmdb_pages import LmdbPages, Place, located


class LmdbShardReader(ShardReader):
    """Reads one database, and the one of its labels where there is one."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._paths = list(paths)
        self._info = info
        self._databases: list[LmdbPages] = []
        try:
            for path in self._paths:
                self._open(path)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """How many Datums there are."""
        return self._databases[0].entries

    def __getitem__(self, number: int) -> Example:
        """The image and its labels; format and size of an encoded image are in its header."""
        if not 0 <= number < len(self):
            raise IndexError(f"{self._paths[0]} has {len(self)} records, none is {number}")
        with self._locating(0, number):
            key, data = self._record(0, number)
            image = datum.decode_image(data)
            if image.shape is None:
                found = sniff(image.data)
                height, width = found.height, found.width
                form, colorspace = found.format, self._info.colorspace
            else:
                height, width, channels = image.shape
                form, colorspace = "RAW", "RGB" if channels == 3 else "Grayscale"
            labels = () if self._info.multilabel else self._label(image.label)
        if len(self._databases) > 1:
            with self._locating(1, number):
                labels = self._labels(number, key)
        return Example(
            key=_name(key),
            encoded=image.data,
            format=form,
            height=height,
            width=width,
            colorspace=colorspace,
            labels=labels,
            synset=self._info.identifiers(labels),
            class_name=self._info.names(labels),
        )

    def keys(self) -> Iterator[str]:
        """The keys, without the images."""
        entries = self._databases[0].items()
        for number in range(len(self)):
            with self._locating(0, number):
                key, _ = _checked(next(entries, None), number)
            yield _name(key)

    def close(self) -> None:
        """Release the files."""
        for database in self._databases:
            database.close()

    def _open(self, path: Path) -> None:
        with located(str(path)):
            database = LmdbPages(path)
            self._databases.append(database)
            more = database.first_from(b"%08d" % database.entries)
            if more is not None:
                raise SinkError(f"there is a key {more[0]!r} after {database.entries} records")
            if database.entries != len(self):
                raise SinkError(
                    f"has {database.entries} records, but {self._paths[0]} has {len(self)}"
                )

    def _record(self, which: int, number: int) -> tuple[bytes, bytes]:
        """Key and value."""
        database = self._databases[which]
        key, place = _checked(database.first_from(b"%08d" % number), number)
        return key, database.read(place)

    def _label(self, label: int) -> tuple[int, ...]:
        classes = len(self._info.classes)
        if classes and label >= classes:
            raise SinkError(f"label {label}, but there are {classes} classes")
        return (label,)

    def _labels(self, number: int, key: bytes) -> tuple[int, ...]:
        own_key, data = self._record(1, number)
        vector = datum.decode_vector(data)
        classes = len(self._info.classes)
        if own_key != key:
            raise SinkError(f"its key is {own_key!r}, but {key!r} in {self._paths[0]}")
        if classes and len(vector) != classes:
            raise SinkError(f"{len(vector)} labels for {classes} classes")
        return tuple(index for index, present in enumerate(vector) if present)

    def _locating(self, which: int, number: int) -> AbstractContextManager[None]:
        return located(f"{self._paths[which]}: record {number}")


def _checked(entry: tuple[bytes, Place] | None, number: int) -> tuple[bytes, Place]:
    if entry is None:
        raise SinkError("is missing")
    if not entry[0].startswith(b"%08d_" % number):
        raise SinkError(f"its key is {entry[0]!r}; expected one that begins with {number:08d}_")
    return entry


def _name(key: bytes) -> str:
    return key[9:].decode("utf-8", "surrogateescape")
