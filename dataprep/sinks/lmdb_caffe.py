"""LMDB databases of Datums, as Caffe's ``convert_imageset`` makes them, for Caffe and Intel Caffe.

A database is a directory, ``train_lmdb``, with ``data.mdb`` in it; no lock file, LMDB makes its
own. Keys are ``00000000_n01440764/n01440764_10026.JPEG``: the record's number in the shard, eight
digits, and the image's key. There is nothing else in it: Caffe takes every value for a Datum.

A Datum has one label. Several labels an image go to a second database, ``train_labels_lmdb``, with
the same keys, for a second data layer (neither may shuffle); the label in the first is then 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

import lmdb
import numpy as np
from typing_extensions import override

from dataprep.errors import SinkError, UsageError
from dataprep.sinks import datum
from dataprep.sinks.annotations import (
    flags_found,
    from_image,
    import_reader,
    label_found,
    labels_to_store,
    located,
    naming,
)
from dataprep.sinks.base import (
    DatasetInfo,
    FinishedShard,
    Layout,
    ShardName,
    ShardReader,
    ShardWriter,
    Sink,
    WrittenFile,
    shard_path,
)
from dataprep.sinks.example import Example
from dataprep.sinks.hashed_file import write_file
from dataprep.sinks.lmdb_environment import LmdbReader, LmdbWriter, check_key, library_versions
from dataprep.sinks.unverified import in_child
from dataprep_schemas import caffe_pb2

if TYPE_CHECKING:
    from dataprep.images.statistics import Statistics

_MOST_RECORDS = 10**8  # then eight digits do not sort any more
_OVERHEAD = 2200  # measured: half a page at the end of the image, the key, the tree
_FILE = "data.mdb"
_BATCH = 16  # images that DALI reads at once


class LmdbShardWriter(ShardWriter):
    """Writes one database; or two, if there is a path for the labels."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo, *, pixels: bool) -> None:
        self._info = info
        self._pixels = pixels
        self._number = 0
        self._databases: list[LmdbWriter] = []
        try:
            for path in paths:
                self._databases.append(LmdbWriter(path, append=True))
        except BaseException:
            self.abandon()
            raise

    def write(self, example: Example) -> None:
        """Append one Datum; and one of its labels."""
        if self._number == _MOST_RECORDS:
            raise SinkError(
                f"{example.key}: {_MOST_RECORDS} images are in the database, and the numbers in "
                "its keys have eight digits; make more shards"
            )
        name = b"%08d_" % self._number + example.key.encode("utf-8", "surrogateescape")
        key = check_key(name, example.key)
        with naming(example):
            chosen = labels_to_store(example, self._info)
            image = self._encode(example, 0 if self._info.multilabel else chosen[0])
        self._databases[0].put(key, image)
        for labels in self._databases[1:]:
            labels.put(key, datum.encode_vector(self._info.multi_hot(chosen)))
        self._number += 1

    def close(self) -> Sequence[WrittenFile]:
        """Finish the databases."""
        return [database.close() for database in self._databases]

    def abandon(self) -> None:
        """Give the databases up."""
        for database in self._databases:
            database.abandon()

    def _encode(self, example: Example, label: int) -> bytes:
        if self._pixels != (example.format == "RAW"):
            wanted = "pixels (RAW)" if self._pixels else "encoded images"
            raise SinkError(f"is {example.format}; this database holds {wanted}")
        if not self._pixels:
            return datum.encode_file(example.encoded, label)
        shape = example.height, example.width, example.channels
        expected = (*(self._info.size or shape[:2]), self._info.channels)
        if shape != expected:
            raise SinkError(
                f"height, width and channels are {shape}; expected {expected}, as of all images"
            )
        return datum.encode_pixels(example.encoded, *shape, label)


class LmdbShardReader(ShardReader):
    """Reads one database, and the one of its labels where there is one."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        self._paths = list(paths)
        self._info = info
        self._databases: list[LmdbReader] = []
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
            key, data = _checked(next(self._databases[0].items(b"%08d" % number), None), number)
            image = datum.decode_image(bytes(data))
            labels = () if self._info.multilabel else label_found(image.label, self._info)
        if len(self._databases) > 1:
            with self._locating(1, number):
                labels = self._labels(number, key)
        if image.shape is None:
            with self._locating(0, number):
                return from_image(_name(key), image.data, labels, self._info)
        height, width, channels = image.shape
        return Example(
            key=_name(key),
            encoded=image.data,
            format="RAW",
            height=height,
            width=width,
            colorspace="RGB" if channels == 3 else "Grayscale",
            labels=labels,
            synset=self._info.identifiers(labels),
            class_name=self._info.names(labels),
        )

    def close(self) -> None:
        """Release the files."""
        for database in self._databases:
            database.close()

    def _open(self, path: Path) -> None:
        with located(str(path)):
            database = LmdbReader(path)
            self._databases.append(database)
            more = next(database.items(b"%08d" % database.entries), None)
            if more is not None:
                raise SinkError(f"there is a key {more[0]!r} after {database.entries} records")
            if database.entries != len(self):
                raise SinkError(
                    f"has {database.entries} records, but {self._paths[0]} has {len(self)}"
                )

    def _labels(self, number: int, key: bytes) -> tuple[int, ...]:
        own_key, data = _checked(next(self._databases[1].items(b"%08d" % number), None), number)
        if own_key != key:
            raise SinkError(f"its key is {own_key!r}, but {key!r} in {self._paths[0]}")
        return flags_found(datum.decode_vector(bytes(data)), self._info)

    def _locating(self, which: int, number: int) -> AbstractContextManager[None]:
        return located(f"{self._paths[which]}: record {number}")


def _checked(entry: tuple[bytes, memoryview] | None, number: int) -> tuple[bytes, memoryview]:
    if entry is None:
        raise SinkError("is missing")
    if not entry[0].startswith(b"%08d_" % number):
        raise SinkError(f"its key is {entry[0]!r}; expected one that begins with {number:08d}_")
    return entry


def _name(key: bytes) -> str:
    return key[9:].decode("utf-8", "surrogateescape")


class LmdbSink(Sink):
    """``--sink lmdb``."""

    name: ClassVar[str] = "lmdb"
    summary: ClassVar[str] = "LMDB of Datums for Caffe, Intel Caffe and DALI readers.caffe"
    OPTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "datum": ("encoded", "raw"),
        "labels": ("single", "multi"),
        "mean": ("off", "on"),
    }
    usual_shards: ClassVar[int | None] = 1
    seeks: ClassVar[bool] = True
    trusts_files: ClassVar[bool] = True
    reference: ClassVar[str] = "DALI readers.caffe; of pixels, lmdb with caffe.proto's Datum"

    @property
    def pixels(self) -> bool:
        """With ``datum=raw``."""
        return self.options["datum"] == "raw"

    @property
    def needs_mean(self) -> bool:
        """With ``mean=on``."""
        return self.options["mean"] == "on"

    @override
    def most_images(self, info: DatasetInfo) -> int | None:
        """As many as eight digits count."""
        return _MOST_RECORDS

    @override
    def versions(self) -> Mapping[str, str]:
        """Of the library that writes the pages."""
        return library_versions()

    @override
    def check(self, info: DatasetInfo) -> None:
        """A Datum has one label, and a mean image one size.

        Raises:
            UsageError: the options do not fit the data set.
        """
        super().check(info)
        multi = self.options["labels"] == "multi"
        if info.multilabel and not multi:
            raise UsageError(
                "an image of this data set has any number of labels and a Datum has one: give "
                "--sink_option labels=multi, which writes them to a second database, or "
                "--sink hdf5-caffe"
            )
        if multi and not info.multilabel:
            raise UsageError(
                "labels=multi is for data sets with any number of labels an image; this one has "
                "exactly one: give --sink_option labels=single"
            )
        if self.options["mean"] == "on" and info.size is None:
            raise UsageError(
                "mean=on needs images that all have one size; these have many: reshape them, or "
                "give --sink_option mean=off"
            )

    def paths(self, shard: ShardName, layout: Layout) -> Sequence[PurePosixPath]:
        """The images' database; with ``labels=multi`` the labels' too."""
        multi = self.options["labels"] == "multi"
        suffixes = ("_lmdb", "_labels_lmdb") if multi else ("_lmdb",)
        return [shard_path(shard, layout, suffix) / _FILE for suffix in suffixes]

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """With ``mean=on``, the mean image: ``train_mean.binaryproto``."""
        return (PurePosixPath(f"{split}_mean.binaryproto"),) if self.options["mean"] == "on" else ()

    def overhead(self) -> int:
        """What pages leave empty, the key and the tree."""
        return _OVERHEAD

    def open(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbShardWriter:
        """Start a shard.

        Raises:
            UsageError: the options do not fit the data set.
        """
        self.check(info)
        return LmdbShardWriter(paths, info, pixels=self.pixels)

    def reader(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbShardReader:
        """Open a finished shard; the labels' database is looked for if its path is not given."""
        return LmdbShardReader(_with_labels(paths), info)

    @override
    def finish_split(
        self,
        paths: Sequence[Path],
        info: DatasetInfo,
        shards: Sequence[FinishedShard],
        statistics: Statistics | None,
    ) -> Sequence[WrittenFile]:
        """Write the mean image, if it was asked for.

        Raises:
            UsageError: there is no mean image, because sizes differ.
        """
        mean = None if statistics is None else statistics.mean_image()
        if paths and mean is None:
            raise UsageError("there is no mean image: mean=on needs images that all have one size")
        return [] if mean is None else [write_file(path, encode_mean(mean)) for path in paths]

    @override
    def reference_records(
        self, paths: Sequence[Path], info: DatasetInfo
    ) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """The records as DALI gives them; pixels as lmdb and caffe.proto do.

        DALI takes the planes of pixels for interleaved ones.
        """
        paths = _with_labels(paths)
        # py-lmdb opens a file once a process, and verify has it open.
        return in_child(paths[0], with_lmdb, paths) if self.pixels else with_dali(paths)


def encode_mean(mean: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
    """The serialised BlobProto of a mean image.

    With the legacy fields num = 1, channels, height and width, which Caffe's tools and scripts
    expect, in (channel, height, width) order, BGR, float32 rounded from exact means; Caffe itself
    adds up in float32.

    Args:
        mean: (height, width, channels), RGB or grey, 0 to 255.
    """
    height, width, channels = mean.shape
    planes = mean[:, :, ::-1].transpose(2, 0, 1).astype(np.float32)
    blob = caffe_pb2.BlobProto(num=1, channels=channels, height=height, width=width)
    blob.data.extend(planes.ravel().tolist())
    return blob.SerializeToString()


def _with_labels(paths: Sequence[Path]) -> Sequence[Path]:
    """The paths, with that of the labels if it is not given but there."""
    folder = paths[0].parent
    if len(paths) > 1 or not folder.name.endswith("_lmdb"):
        return paths
    labels = folder.with_name(folder.name.removesuffix("_lmdb") + "_labels_lmdb") / _FILE
    return [*paths, labels] if labels.exists() else paths


# --- As other people's code reads them, to prove ours right; none of ours is used ---


def with_dali(paths: Sequence[Path]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """(Image file's bytes, class indices) of every record, by NVIDIA DALI on the CPU.

    Args:
        paths: the images' database, then that of labels if there is one.

    Raises:
        UsageError: DALI is not installed.
    """
    images = _dali_records(paths[0])
    if len(paths) == 1:
        for data, label in images:
            yield data.tobytes(), (int(label.reshape(-1)[0]),)
        return
    for (data, _), (vector, _) in zip(images, _dali_records(paths[1]), strict=True):
        yield data.tobytes(), tuple(int(index) for index in vector.reshape(-1).nonzero()[0])


def _dali_records(path: Path) -> Iterator[tuple[Any, Any]]:
    """(Data, label) as arrays, in order."""
    dali = import_reader("nvidia.dali", "fn", install="nvidia-dali-cuda120")
    with LmdbReader(path) as database:
        if not database.entries:
            return  # which DALI refuses
    pipeline = dali.Pipeline(batch_size=_BATCH, num_threads=1, device_id=None)
    with pipeline:
        pipeline.set_outputs(*dali.fn.readers.caffe(path=[str(path.parent)], name="Reader"))
    pipeline.build()
    count = pipeline.reader_meta("Reader")["epoch_size"]
    for start in range(0, count, _BATCH):
        data, labels = pipeline.run()
        for index in range(min(_BATCH, count - start)):
            yield np.asarray(data.at(index)), np.asarray(labels.at(index))


def with_lmdb(paths: Sequence[Path]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """(Data, class indices) of every record, by lmdb and caffe.proto's Datum alone.

    Pixels come back as (height, width, channel), RGB.
    """
    images = _datums(paths[0])
    if len(paths) == 1:
        for datum in images:
            yield _pixels(datum), (datum.label,)
        return
    for datum, vector in zip(images, _datums(paths[1]), strict=True):
        yield _pixels(datum), tuple(index for index, one in enumerate(vector.data) if one)


def _datums(path: Path) -> Iterator[Any]:
    with (
        lmdb.open(str(path.parent), readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        for _, value in transaction.cursor():
            yield caffe_pb2.Datum.FromString(value)


def _pixels(datum: Any) -> bytes:
    if datum.encoded:
        return bytes(datum.data)
    planes = np.frombuffer(datum.data, np.uint8)
    planes = planes.reshape(datum.channels, datum.height, datum.width)
    pixels: bytes = planes.transpose(1, 2, 0)[:, :, ::-1].tobytes()
    return pixels
