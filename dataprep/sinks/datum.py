"""Caffe's Datum, byte for byte as Caffe's ``convert_imageset`` fills and serialises it.

Sources: BVLC/caffe ``src/caffe/util/io.cpp`` (``ReadFileToDatum``, ``CVMatToDatum``) and
``tools/convert_imageset.cpp``. Fields are written in the order of their numbers, those that were
set even if they have their default, ``encoded`` = false and ``label`` = 0 among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dataprep.errors import SinkError
from dataprep_schemas import caffe_pb2


def encode_file(data: bytes, label: int) -> bytes:
    """The Datum of an image file, 0-based label: data, label, encoded = true."""
    return caffe_pb2.Datum(data=data, label=label, encoded=True).SerializeToString()


def encode_pixels(pixels: bytes, shape: tuple[int, int, int], label: int) -> bytes:
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


def encode_vector(values: Sequence[int]) -> bytes:
    """The Datum of a multi-hot vector, for a second data layer: a (N, 1, 1) array of uint8."""
    return caffe_pb2.Datum(
        channels=len(values), height=1, width=1, data=bytes(values), encoded=False
    ).SerializeToString()


def decode_image(data: bytes) -> tuple[bytes, int, tuple[int, int, int] | None]:
    """The inverse of `encode_file` and `encode_pixels`.

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
