from __future__ import annotations

import io
from typing import Any

import pytest
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, prepare
from tests.images.files import JPEGS, PHOTO, encoded

SOF = b"\xff\xc0\x00\x11\x08"


@pytest.mark.parametrize("name", JPEGS)
@pytest.mark.parametrize("check", ["header", "bitstream", "pixels"])
def test_good_jpeg_passes_through_as_the_same_object(name: str, check: Any) -> None:
    data = JPEGS[name]
    done = prepare(data, Recipe(check=check))
    assert done.data is data
    assert (done.format, done.width, done.height, done.notes) == ("JPEG", 90, 70, ())
    assert done.channels == (1 if name.startswith("grey") else 3)


@pytest.mark.parametrize("check", ["header", "bitstream", "pixels"])
@pytest.mark.parametrize("name", JPEGS)
def test_truncated_jpeg_is_rejected_wherever_it_is_cut(name: str, check: Any) -> None:
    data = JPEGS[name]
    for end in [*range(0, len(data), 23), len(data) - 2, len(data) - 1]:
        for cut in (data[:end], data[:end] + bytes(50)):
            with pytest.raises(ImageError):
                prepare(cut, Recipe(check=check))


def test_end_marker_by_chance_in_trailing_garbage_does_not_save_a_truncated_jpeg() -> None:
    cut = JPEGS["baseline"][:-400] + b"\xff\xfe\x00\x20" + b"\xff\xd9"
    with pytest.raises(ImageError, match="truncated"):
        prepare(cut, Recipe())


def test_extraneous_bytes_before_a_marker_are_a_warning() -> None:
    data = JPEGS["baseline"]
    damaged = data[:20] + b"abc" + data[20:]
    done = prepare(damaged, Recipe())
    assert done.data is damaged
    words = "Corrupt JPEG data: 3 extraneous bytes before marker 0xdb"
    assert done.notes == (Note("warned", words),)


def test_damaged_pixels_are_a_warning_and_survive_a_resize() -> None:
    short = JPEGS["baseline"][:-300] + b"\xff\xd9"
    kept = prepare(short, Recipe())
    assert kept.data is short
    assert [note.kind for note in kept.notes] == ["warned"]
    assert "premature end of data segment" in kept.notes[0].text
    again = prepare(short, Recipe(encoding="jpeg"))
    assert again.notes == kept.notes


def test_sampling_factors_unknown_to_the_fast_decoder_are_no_damage() -> None:
    """Flat RGB blocks all code alike, so 15 blocks of 1x1 can be regrouped as 3 of 2+1+2."""
    flat = bytearray(encoded(Image.new("RGB", (40, 8), (128, 128, 128)), keep_rgb=True))
    frame = flat.index(b"\xff\xc0")
    flat[frame + 8] = 48
    flat[frame + 11] = flat[frame + 17] = 0x21
    data = bytes(flat)
    done = prepare(data, Recipe())
    assert done.data is data
    assert (done.width, done.notes) == (48, ())
    assert prepare(data, Recipe(encoding="jpeg", color="gray")).channels == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (SOF, b"\xff\xc1\x00\x11\x0c", "12 bits per sample"),
        (SOF, b"\xff\xc3\x00\x11\x08", "lossless or hierarchical"),
        (SOF, b"\xff\xc7\x00\x11\x08", "lossless or hierarchical"),
        (SOF + b"\x00\x46", SOF + b"\x00\x00", "90x0 pixels"),
        (SOF + b"\x00\x46\x00\x5a\x03", SOF + b"\x00\x46\x00\x5a\x02", "2 components"),
        (SOF, b"\xff\xc0\x00\x07\x08", "too short"),
        (SOF, b"\xff\xfe\x00\x11\x08", "before the frame header"),
        (SOF, b"\xff\xd9\x00\x11\x08", "inside the header"),
        (SOF, b"\xff\xc0\xff\xff\x08", "cut off"),
        (SOF, b"\xff\xc0\x00\x01\x08", "cut off"),
    ],
)
def test_unusable_headers_are_named(old: bytes, new: bytes, reason: str) -> None:
    data = JPEGS["baseline"]
    assert data.count(old) == 1
    with pytest.raises(ImageError, match=reason):
        prepare(data.replace(old, new), Recipe(check="header"))


def test_second_frame_header_with_another_size_is_rejected() -> None:
    data = JPEGS["baseline"]
    at = data.index(SOF)
    other = data[at : at + 19].replace(b"\x00\x46\x00\x5a", b"\x00\x10\x00\x10")
    with pytest.raises(ImageError):
        prepare(data[:at] + other + data[at:], Recipe())


def test_damaged_metadata_passes_through_untouched() -> None:
    plain = encoded(PHOTO)
    bad = b"".join(
        b"\xff" + bytes([marker]) + (len(body) + 2).to_bytes(2, "big") + body
        for marker, body in [
            (0xE1, b"Exif\0\0MM\0*\xff\xff\xff\xff"),
            (0xE1, b"http://ns.adobe.com/xap/1.0/\0\xff\xfe\xe9 no xml"),
            (0xE2, b"ICC_PROFILE\0\x05\x02junk"),
            (0xE2, b"MPF\0junk"),
            (0xED, b"Photoshop 3.0\08BIM\x04"),
            (0xEE, b"Ado"),
        ]
    )
    data = plain[:2] + bad + plain[2:]
    for recipe in (Recipe(), Recipe(check="pixels"), Recipe(exif="apply")):
        assert prepare(data, recipe).data is data
    again = prepare(data, Recipe(encoding="jpeg", check="pixels", exif="apply"))
    with Image.open(io.BytesIO(again.data)) as image:
        assert set(image.info) <= {"jfif", "jfif_version", "jfif_unit", "jfif_density"}
