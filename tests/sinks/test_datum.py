"""Datums, against bytes put together by hand.

The golden bytes follow from the field numbers of BVLC/caffe ``src/caffe/proto/caffe.proto`` and the
protobuf encoding: a tag is (number << 3) | type, fields ascending, as C++ writes them; which
fields are set follows from ``src/caffe/util/io.cpp``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import SinkError
from dataprep.sinks import datum

# data (4, bytes) "\xff\xd8\xff", label (5) 300, encoded (7) true: ReadFileToDatum
FILE = b"\x22\x03\xff\xd8\xff" + b"\x28\xac\x02" + b"\x38\x01"
# channels (1) 3, height (2) 2, width (3) 1, data (4), label (5) 0, encoded (7) false: CVMatToDatum.
# Two pixels, RGB (1, 2, 3) and (4, 5, 6): planes B, G, R.
PIXELS = b"\x08\x03\x10\x02\x18\x01" + b"\x22\x06\x03\x06\x02\x05\x01\x04" + b"\x28\x00\x38\x00"
GREY = b"\x08\x01\x10\x01\x18\x02" + b"\x22\x02\x07\x08" + b"\x28\x05\x38\x00"
VECTOR = b"\x08\x03\x10\x01\x18\x01" + b"\x22\x03\x00\x01\x01" + b"\x38\x00"


def test_an_image_file() -> None:
    assert datum.encode_file(b"\xff\xd8\xff", 300) == FILE
    assert datum.decode_image(FILE) == datum.Image(b"\xff\xd8\xff", 300, None)


def test_pixels_are_planes_in_bgr() -> None:
    assert datum.encode_pixels(b"\1\2\3\4\5\6", 2, 1, 3, 0) == PIXELS
    assert datum.decode_image(PIXELS) == datum.Image(b"\1\2\3\4\5\6", 0, (2, 1, 3))


def test_grey_pixels_are_one_plane() -> None:
    assert datum.encode_pixels(b"\7\10", 1, 2, 1, 5) == GREY
    assert datum.decode_image(GREY) == datum.Image(b"\7\10", 5, (1, 2, 1))


def test_a_vector_of_labels() -> None:
    assert datum.encode_vector([0, 1, 1]) == VECTOR
    assert datum.decode_vector(VECTOR) == b"\0\1\1"
    assert datum.decode_vector(datum.encode_vector([])) == b""


@given(st.data(), st.sampled_from([1, 3]), st.integers(1, 9), st.integers(1, 9))
def test_pixels_come_back(data: st.DataObject, channels: int, height: int, width: int) -> None:
    size = height * width * channels
    pixels = data.draw(st.binary(min_size=size, max_size=size))
    encoded = datum.encode_pixels(pixels, height, width, channels, 1)
    assert datum.decode_image(encoded) == datum.Image(pixels, 1, (height, width, channels))


@pytest.mark.parametrize(
    ("size", "height", "width", "channels"), [(5, 2, 1, 3), (2, 1, 1, 2), (0, 0, 1, 3)]
)
def test_pixels_that_do_not_fit_their_size(
    size: int, height: int, width: int, channels: int
) -> None:
    with pytest.raises(SinkError, match=f"height {height}, width {width} and {channels} channels"):
        datum.encode_pixels(bytes(size), height, width, channels, 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "not a Caffe Datum"),
        (b"", "without bytes"),
        (b"\x28\x01", "without bytes"),
        (b"\x22\x01x\x38\x01", "without a label"),
        (b"\x22\x01x\x28" + b"\xff" * 9 + b"\x01\x38\x01", "without a label"),  # label -1
        (b"\x22\x01x\x28\x00", "1 bytes of pixels"),  # encoded is false if it is not said
        (b"\x22\x01x\x28\x00\x35\x00\x00\x00\x00\x38\x01", "floating-point"),
    ],
)
def test_what_is_no_image(data: bytes, why: str) -> None:
    with pytest.raises(SinkError, match=why):
        datum.decode_image(data)


@pytest.mark.parametrize("data", [FILE, PIXELS, VECTOR.replace(b"\0\1\1", b"\0\2\1")])
def test_what_is_no_vector(data: bytes) -> None:
    with pytest.raises(SinkError, match="vector"):
        datum.decode_vector(data)


@given(st.binary(max_size=40))
def test_garbage_is_an_error_or_a_datum(data: bytes) -> None:
    for decode in (datum.decode_image, datum.decode_vector):
        try:
            decode(data)
        except SinkError:
            continue


def test_too_large_for_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datum, "_LARGEST", 10)
    with pytest.raises(SinkError, match="11 bytes; a Datum holds at most 10"):
        datum.encode_file(bytes(11), 0)
    with pytest.raises(SinkError, match="12 bytes"):
        datum.encode_pixels(bytes(12), 2, 2, 3, 0)
