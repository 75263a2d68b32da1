"""The wire format of protocol buffers, read by hand: no generated code, ours or anybody's.

Source: protobuf.dev/programming-guides/encoding. Field numbers of Caffe's messages are those
published in BVLC/caffe, src/caffe/proto/caffe.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of base-128 digits, lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(number, value) of every field, in the order in which they are stored."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = varint(data, at)
            yield number, value
            continue
        if kind == BYTES:
            size, at = varint(data, at)
        else:
            size = {FIXED32: 4, FIXED64: 8}[kind]
        assert at + size <= len(data)
        yield number, data[at : at + size]
        at += size


@dataclass(frozen=True)
class Datum:
    """channels = 1, height = 2, width = 3, data = 4, label = 5, float_data = 6, encoded = 7."""

    channels: int
    height: int
    width: int
    data: bytes
    label: int
    encoded: bool

    @staticmethod
    def parse(message: bytes) -> Datum:
        found = dict(fields(message))
        assert found.keys() <= {1, 2, 3, 4, 5, 7}
        channels, height, width, label, encoded = (found.get(at, 0) for at in (1, 2, 3, 5, 7))
        assert label < 2**31  # it is an int32
        return Datum(channels, height, width, found[4], label, bool(encoded))

    @property
    def pixels(self) -> Any:
        """As Caffe takes them, planes of blue, green and red; turned into (height, width, RGB)."""
        planes = np.frombuffer(self.data, np.uint8)
        return planes.reshape(self.channels, self.height, self.width)[::-1].transpose(1, 2, 0)


def blob(message: bytes) -> Any:
    """A BlobProto: num = 1, channels = 2, height = 3, width = 4, data = 5, packed float32."""
    found = dict(fields(message))
    assert found.keys() == {1, 2, 3, 4, 5}
    values = struct.unpack(f"<{len(found[5]) // 4}f", found[5])
    return np.array(values).reshape([found[number] for number in (1, 2, 3, 4)])
