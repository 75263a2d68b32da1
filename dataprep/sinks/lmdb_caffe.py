"""LMDB databases of Datums, as Caffe's ``convert_imageset`` makes them, for Caffe and Intel Caffe.

A database is a directory, ``train_lmdb``, with ``data.mdb`` in it; no lock file, LMDB makes its
own. Keys are ``00000000_n01440764/n01440764_10026.JPEG``: the record's number in the shard, eight
digits, and the image's key. There is nothing else in it: Caffe takes every value for a Datum.

A Datum has one label. Several labels an image go to a second database, ``train_labels_lmdb``, with
the same keys, for a second data layer (neither may shuffle); the label in the first is then 0.

Datums are byte for byte as ``convert_imageset`` fills and serialises them, in the order of their
fields' numbers, those that were set even if they have their default: ``encoded`` = false and
``label`` = 0 among them. Sources: BVLC/caffe ``src/caffe/util/io.cpp`` (``ReadFileToDatum``,
``CVMatToDatum``) and ``tools/convert_imageset.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

import lmdb
import numpy as np
from typing_extensions import override

from dataprep.errors import SinkError, UsageError
from dataprep.sinks import FinishedShard, Layout, Record, ShardReader, ShardWriter, WrittenFile
from dataprep.sinks.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.sinks.hashed_file import write_file
from dataprep.sinks.lmdb_environment import LONGEST_KEY, LmdbFileSink, LmdbReader, LmdbWriter
from dataprep.sinks.reference_readers import dali_records
from dataprep.sinks.subprocess_reader import in_child
from dataprep_schemas import caffe_pb2

if TYPE_CHECKING:
    from dataprep.images.statistics import Statistics


class LmdbShardWriter(ShardWriter):
    """Writes one database; or two, if there is a path for the labels."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo, *, pixels: bool) -> None:
        super().__init__(info, pixels=pixels)
        self._number = 0
        self._databases: list[LmdbWriter] = []
        try:
            for path in paths:
                self._databases.append(LmdbWriter(path, append=True))
        except BaseException:
            self.abandon()
            raise

    @override
    def append(self, example: Example) -> None:
        """Append one Datum; and one of its labels."""
        key = b"%08d_" % self._number + to_bytes(example.key)
        if len(key) > LONGEST_KEY:
            raise SinkError(
                f"its LMDB key is {len(key)} bytes long; LMDB holds at most {LONGEST_KEY}: "
                "shorten the path"
            )
        label = 0 if self.info.multilabel else example.labels[0]
        if self.pixels:
            shape = example.height, example.width, self.info.channels
            image = pixels_datum(example.encoded, shape, label)
        else:
            image = file_datum(example.encoded, label)
        self._databases[0].put(key, image)
        for labels in self._databases[1:]:
            labels.put(key, vector_datum(self.info.multi_hot(example.labels)))
        self._number += 1

    def close(self) -> Sequence[WrittenFile]:
        """Finish the databases."""
        return [database.close() for database in self._databases]

    def abandon(self) -> None:
        """Give the databases up."""
        for database in self._databases:
            database.abandon()


class LmdbShardReader(ShardReader):
    """Reads one database, and the one of its labels where there is one."""

    def __init__(self, paths: Sequence[Path], info: DatasetInfo) -> None:
        super().__init__(paths[0], info)
        with self.opening("LMDB structure"):
            self._databases = [
                self.opened.enter_context(closing(LmdbReader(path))) for path in paths
            ]

    def __len__(self) -> int:
        """How many Datums there are."""
        return self._databases[0].entries

    def read(self, number: int) -> Example:
        """The image and its labels; format and size of an encoded image are in its header."""
        (key, image), *vectors = (it.first(b"%08d" % number) for it in self._databases)
        if not key.startswith(b"%08d_" % number):
            raise SinkError(f"its key is {key!r}; expected one that begins with {number:08d}_")
        encoded, label, shape = image_of(bytes(image))
        labels: tuple[int, ...] = () if self.info.multilabel else (label,)
        for own_key, vector in vectors:
            if own_key != key:
                raise SinkError(f"its key is {key!r}, but {own_key!r} in the labels' database")
            labels = self.info.labels_of(caffe_pb2.Datum.FromString(bytes(vector)).data)
        if shape is None:
            return self.info.example(to_text(key[9:]), encoded, labels)
        info = replace(self.info, colorspace="RGB" if shape[2] == 3 else "Grayscale")
        return info.example(to_text(key[9:]), encoded, labels, kind="RAW", size=shape[:2])


class LmdbSink(LmdbFileSink):
    """``--sink lmdb``."""

    name: ClassVar[str] = "lmdb"
    summary: ClassVar[str] = "LMDB of Datums for Caffe, Intel Caffe and DALI readers.caffe"
    OPTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "datum": ("encoded", "raw"),
        "labels": ("single", "multi"),
        "mean": ("off", "on"),
    }
    suffixes: ClassVar[tuple[str, ...]] = ("_lmdb/data.mdb",)
    reference: ClassVar[str] = "DALI readers.caffe; of pixels, lmdb with caffe.proto's Datum"
    Reader = LmdbShardReader  # without the labels' database, nobody knows several labels

    def __init__(self, **options: str) -> None:
        super().__init__(**options)
        if self.options["labels"] == "multi":
            self.suffixes = ("_lmdb/data.mdb", "_labels_lmdb/data.mdb")  # type: ignore[misc]

    @property
    @override
    def pixels(self) -> bool:
        """With ``datum=raw``."""
        return self.options["datum"] == "raw"

    @property
    @override
    def needs_mean(self) -> bool:
        """With ``mean=on``."""
        return self.options["mean"] == "on"

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

    @override
    def split_paths(self, split: str, count: int, layout: Layout) -> Sequence[PurePosixPath]:
        """With ``mean=on``, the mean image: ``train_mean.binaryproto``."""
        return (PurePosixPath(f"{split}_mean.binaryproto"),) if self.options["mean"] == "on" else ()

    @override
    def open(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbShardWriter:
        self.check(info)
        return LmdbShardWriter(paths, info, pixels=self.pixels)

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
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records as DALI gives them; pixels as lmdb and caffe.proto do.

        DALI takes the planes of pixels for interleaved ones.
        """
        # py-lmdb opens a file once a process, and verify has it open.
        read = in_child(paths[0], _datums, paths) if self.pixels else _dali(paths, info)
        for data, label, vector in read:
            yield data, info.labels_of(vector) if info.multilabel else (label,)


# --- Caffe's messages ---


def file_datum(data: bytes, label: int) -> bytes:
    """The Datum of an image file, 0-based label: data, label, encoded = true."""
    return caffe_pb2.Datum(data=data, label=label, encoded=True).SerializeToString()


def pixels_datum(pixels: bytes, shape: tuple[int, int, int], label: int) -> bytes:
    """The Datum of pixels: (height, width, channel), RGB in; (channel, height, width), BGR stored.

    Args:
        pixels: uint8, as many as the shape says.
        shape: height, width and channels: 3, or 1 for grey.
        label: 0-based.
    """
    height, width, channels = shape
    planes = np.frombuffer(pixels, np.uint8).reshape(shape)[:, :, ::-1].transpose(2, 0, 1).tobytes()
    return caffe_pb2.Datum(
        channels=channels, height=height, width=width, data=planes, label=label, encoded=False
    ).SerializeToString()


def vector_datum(values: Sequence[int]) -> bytes:
    """The Datum of a multi-hot vector, for a second data layer: a (N, 1, 1) array of uint8."""
    return caffe_pb2.Datum(
        channels=len(values), height=1, width=1, data=bytes(values), encoded=False
    ).SerializeToString()


def image_of(data: bytes) -> tuple[bytes, int, tuple[int, int, int] | None]:
    """The inverse of `file_datum` and `pixels_datum`.

    Returns:
        The image file or the pixels, the label, and the shape of pixels; None of an image file.

    Raises:
        SinkError: not the Datum of an image with a label.
        ValueError: the pixels are not as many as it says.
        DecodeError: not a Datum.
    """
    datum = caffe_pb2.Datum.FromString(data)
    if not (datum.HasField("data") and datum.HasField("label")):
        raise SinkError("a Datum without image or label")
    if datum.encoded:
        return datum.data, datum.label, None
    planes = np.frombuffer(datum.data, np.uint8)
    planes = planes.reshape(datum.channels, datum.height, datum.width)
    pixels = np.stack([*planes[::-1]], axis=-1)  # twice as fast as transposed
    return pixels.tobytes(), datum.label, (datum.height, datum.width, datum.channels)


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


# --- As other people's code reads them, to prove ours right; none of ours is used ---


def _dali(paths: Sequence[Path], info: DatasetInfo) -> Iterator[tuple[bytes, int, list[float]]]:
    """(Image file's bytes, label, vector of labels) of every record, by NVIDIA DALI on the CPU."""
    with LmdbShardReader(paths[:1], info) as reader:
        count = len(reader)
    images, *vectors = (dali_records("caffe", count, path=[str(it.parent)]) for it in paths)
    for (data, label), *others in zip(images, *vectors, strict=True):
        yield data, int(label[0]), [flag for vector, _ in others for flag in vector]


def _datums(paths: Sequence[Path]) -> Iterator[tuple[bytes, int, list[int]]]:
    """The same by lmdb and caffe.proto's Datum, of pixels: (height, width, channel), RGB."""
    environments = [lmdb.open(str(it.parent), readonly=True, lock=False) for it in paths]
    cursors = [environment.begin().cursor() for environment in environments]
    for values in zip(*(cursor.iternext(keys=False) for cursor in cursors), strict=True):
        image, *vectors = (caffe_pb2.Datum.FromString(value) for value in values)
        planes = np.frombuffer(image.data, np.uint8)
        planes = planes.reshape(image.channels, image.height, image.width)
        vector = [flag for it in vectors for flag in it.data]
        yield planes.transpose(1, 2, 0)[:, :, ::-1].tobytes(), image.label, vector
