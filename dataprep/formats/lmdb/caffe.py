"""LMDB databases of Datums, as Caffe's ``convert_imageset`` makes them, for Caffe and Intel Caffe.

A database is a directory, ``train_lmdb``, with ``data.mdb`` in it; no lock file, LMDB makes its
own. Keys are ``00000000_n01440764/n01440764_10026.JPEG``: the record's number in the shard, eight
digits, and the image's key. There is nothing else in it: Caffe takes every value for a Datum.

A Datum has one label: data sets of several labels an image are refused.

Datums are byte for byte as ``convert_imageset`` fills and serialises them, in the order of their
fields' numbers, those that were set even if they have their default: ``encoded`` = false and
``label`` = 0 among them. Sources: BVLC/caffe ``src/caffe/util/io.cpp`` (``ReadFileToDatum``,
``CVMatToDatum``) and ``tools/convert_imageset.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import lmdb
import numpy as np
from typing_extensions import override

from dataprep.errors import SinkError, UsageError
from dataprep.formats import Record
from dataprep.formats.example import DatasetInfo, Example, to_bytes, to_text
from dataprep.formats.lmdb.environment import LONGEST_KEY, LmdbFileSink, LmdbReader, LmdbWriter
from dataprep.formats.reference_readers import dali_records
from dataprep.formats.subprocess_reader import in_child
from dataprep_schemas import caffe_pb2


class LmdbShardWriter(LmdbWriter):
    """Writes one database."""

    ascending: ClassVar[bool] = True

    @override
    def append(self, example: Example) -> None:
        key = b"%08d_" % self.number + to_bytes(example.key)
        if len(key) > LONGEST_KEY:
            raise SinkError(
                f"its LMDB key is {len(key)} bytes long; LMDB holds at most {LONGEST_KEY}: "
                "shorten the path"
            )
        label = example.labels[0]
        if self.pixels:
            shape = example.height, example.width, self.info.channels
            self.put(key, pixels_datum(example.encoded, shape, label))
        else:
            self.put(key, file_datum(example.encoded, label))


class LmdbShardReader(LmdbReader):
    """Reads one database."""

    def read(self, number: int) -> Example:
        """The image and its label; format and size of an encoded image are in its header."""
        key, image = self.first(b"%08d" % number)
        if not key.startswith(b"%08d_" % number):
            raise SinkError(f"its key is {key!r}; expected one that begins with {number:08d}_")
        encoded, label, shape = image_of(bytes(image))
        if shape is None:
            return self.info.example(to_text(key[9:]), encoded, (label,))
        info = replace(self.info, colorspace="RGB" if shape[2] == 3 else "Grayscale")
        return info.example(to_text(key[9:]), encoded, (label,), kind="RAW", size=shape[:2])


class LmdbSink(LmdbFileSink):
    """``--sink lmdb``."""

    name: ClassVar[str] = "lmdb"
    summary: ClassVar[str] = "LMDB of Datums for Caffe, Intel Caffe and DALI readers.caffe"
    OPTIONS: ClassVar[Mapping[str, tuple[str, ...]]] = {"datum": ("encoded", "raw")}
    suffixes: ClassVar[tuple[str, ...]] = ("_lmdb/data.mdb",)
    reference: ClassVar[str] = "DALI readers.caffe; of pixels, lmdb with caffe.proto's Datum"
    Reader = LmdbShardReader

    @property
    @override
    def pixels(self) -> bool:
        """With ``datum=raw``."""
        return self.options["datum"] == "raw"

    @override
    def check(self, info: DatasetInfo) -> None:
        """A Datum has one label."""
        super().check(info)
        if info.multilabel:
            raise UsageError(
                "an image of this data set has any number of labels and Caffe's Datum has one: "
                "give --sink hdf5-caffe, which Caffe reads too"
            )

    @override
    def open(self, paths: Sequence[Path], info: DatasetInfo) -> LmdbShardWriter:
        self.check(info)
        return LmdbShardWriter(paths, info, pixels=self.pixels)

    @override
    def reference_records(self, paths: Sequence[Path], info: DatasetInfo) -> Iterator[Record]:
        """The records as DALI gives them; pixels as lmdb and caffe.proto do.

        DALI takes the planes of pixels for interleaved ones.
        """
        # py-lmdb opens a file once a process, and verify has it open.
        read = in_child(paths[0], _datums, paths[0]) if self.pixels else _dali(paths[0], info)
        for data, label in read:
            yield data, (label,)


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


# --- As other people's code reads them, to prove ours right; none of ours is used ---


def _dali(path: Path, info: DatasetInfo) -> Iterator[tuple[bytes, int]]:
    """(Image file's bytes, label) of every record, by NVIDIA DALI on the CPU."""
    with LmdbShardReader([path], info) as reader:
        count = len(reader)
    for data, label in dali_records("caffe", count, path=[str(path.parent)]):
        yield data, int(label[0])


def _datums(path: Path) -> Iterator[tuple[bytes, int]]:
    """The same by lmdb and caffe.proto's Datum, of pixels: (height, width, channel), RGB."""
    with (
        lmdb.open(str(path.parent), readonly=True, lock=False) as environment,
        environment.begin() as transaction,
    ):
        for _, value in transaction.cursor():
            image = caffe_pb2.Datum.FromString(value)
            planes = np.frombuffer(image.data, np.uint8)
            planes = planes.reshape(image.channels, image.height, image.width)
            yield planes.transpose(1, 2, 0)[:, :, ::-1].tobytes(), image.label
