"""Caffe's Datum, byte for byte as Caffe's ``convert_imageset`` fills and serialises it.

Sources: BVLC/caffe ``src/caffe/util/io.cpp`` (``ReadFileToDatum``, ``CVMatToDatum``) and
``tools/convert_imageset.cpp``. Fields are written in the order of their numbers, those that were
set even if they have their default, ``encoded`` = false and ``label`` = 0 among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from dataprep.errors import SinkError
from dataprep_schemas import caffe_pb2

_LARGEST = (1 << 31) - 256  # protobuf's limit on a message, less what is around the image


@dataclass(frozen=True, slots=True)
class Image:
    """What a Datum says.

    Attributes:
        data: an image file's bytes; or uint8 pixels in (height, width, channel) order, RGB.
        label: 0-based.
        shape: (height, width, channels) of pixels; None of an image file.
    """

    data: bytes
    label: int
    shape: tuple[int, int, int] | None


def encode_file(data: bytes, label: int) -> bytes:
    """The Datum of an image file, 0-based label: data, label, encoded = true."""
    _check_size(len(data))
    return caffe_pb2.Datum(data=data, label=label, encoded=True).SerializeToString()


def encode_pixels(pixels: bytes, height: int, width: int, channels: int, label: int) -> bytes:
    """The Datum of pixels: (height, width, channel), RGB in; (channel, height, width), BGR stored.

    Args:
        pixels: uint8, ``height * width * channels`` of them.
        height: in pixels.
        width: in pixels.
        channels: 3, or 1 for grey.
        label: 0-based.

    Raises:
        SinkError: the pixels are not as many, or too many.
    """
    _check_size(len(pixels))
    _check_pixels(len(pixels), height, width, channels)
    planes = b"".join(pixels[channel::channels] for channel in reversed(range(channels)))
    return caffe_pb2.Datum(
        channels=channels, height=height, width=width, data=planes, label=label, encoded=False
    ).SerializeToString()


def encode_vector(values: Sequence[int]) -> bytes:
    """The Datum of a multi-hot vector, for a second data layer: a (N, 1, 1) array of uint8."""
    return caffe_pb2.Datum(
        channels=len(values), height=1, width=1, data=bytes(values), encoded=False
    ).SerializeToString()


def decode_image(data: bytes) -> Image:
    """The inverse of `encode_file` and `encode_pixels`.

    Raises:
        SinkError: not a Datum, or not one of an image with a label.
    """
    datum = _parse(data)
    if not datum.HasField("label") or datum.label < 0:
        raise SinkError("a Datum without a label of 0 or more")
    if datum.encoded:
        return Image(datum.data, datum.label, None)
    planes, height, width, channels = datum.data, datum.height, datum.width, datum.channels
    _check_pixels(len(planes), height, width, channels)
    if channels == 1:
        return Image(planes, datum.label, (height, width, channels))
    pixels = bytearray(len(planes))
    area = height * width
    for channel in range(channels):
        start = (channels - 1 - channel) * area
        pixels[channel::channels] = planes[start : start + area]
    return Image(bytes(pixels), datum.label, (height, width, channels))


def decode_vector(data: bytes) -> bytes:
    """The inverse of `encode_vector`.

    Raises:
        SinkError: not a Datum, or not one of zeros and ones.
    """
    datum = _parse(data)
    values = datum.data
    if (datum.channels, datum.height, datum.width) != (len(values), 1, 1) or datum.encoded:
        raise SinkError("not a Datum of a vector of labels")
    if values.strip(b"\0\1"):
        raise SinkError("a vector of labels holds something else than 0 and 1")
    return values


def _parse(data: bytes) -> caffe_pb2.Datum:
    datum = caffe_pb2.Datum()
    try:
        datum.ParseFromString(data)
    except DecodeError as error:
        raise SinkError(f"not a Caffe Datum: {error}") from error
    if not datum.HasField("data") or datum.float_data:
        raise SinkError("a Datum without bytes of data, or with floating-point data")
    return datum


def _check_size(size: int) -> None:
    if size > _LARGEST:
        raise SinkError(f"an image of {size} bytes; a Datum holds at most {_LARGEST}")


def _check_pixels(size: int, height: int, width: int, channels: int) -> None:
    if channels not in (1, 3) or height < 1 or width < 1 or size != height * width * channels:
        raise SinkError(
            f"{size} bytes of pixels for height {height}, width {width} and {channels} channels; "
            "expected one byte each, and 1 or 3 channels"
        )
