from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, prepare
from tests.images.files import NEEDS_AVIF, PHOTO, encoded, pixels_of

PIXELS_DIFFER = 6  # most that JPEG at quality 100 and full chroma moves a sample of the photo


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("PNG", {}),
        ("BMP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"lossless": True, "exif": bytes(9)}),
        ("JPEG2000", {}),
        ("JPEG2000", {"no_jp2": True}),
        pytest.param("AVIF", {"quality": 100, "subsampling": "4:4:4"}, marks=NEEDS_AVIF),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw", "description": "a photo"}),
        ("TIFF", {"compression": "jpeg", "quality": 99}),
    ],
)
def test_rgb_in_disguise_becomes_jpeg(kind: str, options: dict[str, Any]) -> None:
    data = encoded(PHOTO, kind, **options)
    done = prepare(data, Recipe())
    assert (done.format, done.width, done.height, done.channels) == ("JPEG", 90, 70, 3)
    assert np.abs(pixels_of(done.data) - pixels_of(data)).max() <= PIXELS_DIFFER
    name = {"WEBP": "WebP", "JPEG2000": "JPEG 2000"}.get(kind, kind)
    text = f"{name}, not JPEG: re-encoded as RGB JPEG, quality 100"
    assert done.notes == (Note("repaired", text),)


MODES = {
    "PNG": {"1": 1, "LA": 1, "P": 3, "RGBA": 3},
    "GIF": {"1": 1, "P": 3},
    "BMP": {"P": 3, "RGBA": 3},
    "WEBP": {"RGBA": 3},
    "JPEG2000": {"L": 1, "LA": 1, "RGB": 3, "RGBA": 3},
    "TIFF": {"1": 1, "LA": 1, "P": 3, "RGBA": 3, "CMYK": 3},
}


@pytest.mark.parametrize(
    ("kind", "mode", "channels"),
    [(kind, *mode) for kind, modes in MODES.items() for mode in modes.items()],
)
def test_every_mode_is_stored_as_pillow_shows_it(kind: str, mode: str, channels: int) -> None:
    picture = PHOTO.quantize(16) if mode == "P" else PHOTO.convert(mode)
    if "A" in mode:
        picture.putalpha(Image.linear_gradient("L").resize(picture.size))
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    done = prepare(encoded(picture, kind, **options), Recipe(encoding="png"))
    assert done.channels == channels
    expected = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    assert np.array_equal(pixels_of(done.data), expected)


def test_alpha_is_dropped_and_not_composited() -> None:
    picture = Image.new("RGBA", (8, 8), (200, 100, 50, 0))
    for format_ in ("PNG", "TIFF"):
        done = prepare(encoded(picture, format_), Recipe(encoding="png"))
        plain = prepare(encoded(picture.convert("RGB"), format_), Recipe(encoding="png"))
        assert done.data == plain.data
    picture = PHOTO.quantize(16)
    for transparency in (3, bytes(range(0, 256, 16))):
        data = encoded(picture, "PNG", transparency=transparency)
        assert prepare(data, Recipe()).data == prepare(encoded(picture, "PNG"), Recipe()).data


@pytest.mark.parametrize(("kind", "order"), [("PNG", "<"), ("TIFF", "<"), ("TIFF", ">")])
def test_sixteen_bit_grey_keeps_its_high_byte_or_all(kind: str, order: str) -> None:
    ramp = np.arange(0, 65536, 16, dtype=np.uint16).reshape(64, 64)
    mode = "I;16" if order == "<" or kind == "PNG" else "I;16B"
    whole = Image.frombytes(mode, (64, 64), ramp.astype(f"{order if 'B' in mode else '<'}u2"))
    data = encoded(whole, kind)
    done = prepare(data, Recipe(encoding="png"))
    assert done.channels == 1
    assert np.array_equal(pixels_of(done.data), ramp >> 8)
    kept = prepare(data, Recipe(encoding="png", depth="keep"))
    with Image.open(io.BytesIO(kept.data)) as image:
        assert np.array_equal(np.asarray(image).astype(np.uint16), ramp)
    if kind == "TIFF":
        text = "16-bit TIFF, not JPEG: re-encoded as 16-bit grey PNG"
        assert kept.notes == (Note("repaired", text),)
        with pytest.raises(ImageError, match="unsupported TIFF: 32 bits a sample"):
            prepare(encoded(whole.convert("I"), "TIFF"), Recipe())


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_first_of_several_images_is_used_and_said(kind: str) -> None:
    first = PHOTO.quantize(16) if kind == "GIF" else PHOTO
    later = [first.transpose(Image.Transpose.ROTATE_180)] * 2
    options: dict[str, dict[str, Any]] = {
        "WEBP": {"lossless": True},
        "GIF": {"comment": b"hi", "disposal": 2},
    }
    extra = options.get(kind, {})
    data = encoded(first, kind, save_all=True, append_images=later, **extra)
    still = encoded(first, kind, **({"lossless": True} if kind == "WEBP" else {}))
    done, plain = prepare(data, Recipe()), prepare(still, Recipe())
    assert done.data == plain.data
    assert ("(its first image)" in done.notes[0].text) == (kind != "PNG")
    assert "(its first image)" not in plain.notes[0].text


@NEEDS_AVIF
def test_a_damaged_avif_is_an_image_error() -> None:
    data = bytearray(encoded(PHOTO, "AVIF"))
    coded = data.index(b"mdat") + 4
    data[coded:] = bytes(len(data) - coded)
    with pytest.raises(ImageError, match="broken AVIF: Failed to decode frame 0"):
        prepare(bytes(data), Recipe())


@NEEDS_AVIF
def test_of_an_avif_sequence_the_first_is_used_and_said() -> None:
    later = [PHOTO.transpose(Image.Transpose.ROTATE_180)] * 2
    data = encoded(PHOTO, "AVIF", save_all=True, append_images=later, quality=95)
    done = prepare(data, Recipe())
    assert np.abs(pixels_of(done.data) - np.asarray(PHOTO)).mean() < 10
    assert "AVIF (its first image), not JPEG" in done.notes[0].text


@pytest.mark.parametrize(("mode", "depth"), [("I;16", 16), ("L", 8)])
def test_grey_jpeg_2000_keeps_its_depth_on_request(mode: str, depth: int) -> None:
    levels = np.arange(64 * 64, dtype=np.uint16).reshape(64, 64) * (16 if depth == 16 else 0)
    picture = Image.fromarray(levels if depth == 16 else levels.astype(np.uint8))
    assert picture.mode == mode
    kept = prepare(encoded(picture, "JPEG2000"), Recipe(passes=("PNG",), depth="keep"))
    with Image.open(io.BytesIO(kept.data)) as found:
        assert found.mode == mode
        assert (np.asarray(found) == np.asarray(picture)).all()


@pytest.mark.parametrize("adobe", [True, False])
def test_cmyk_becomes_the_rgb_that_tensorflow_makes_of_it(*, adobe: bool) -> None:
    data = encoded(PHOTO.convert("CMYK"), quality=95)
    if not adobe:  # it stores ink and not light
        marker = data.index(b"\xff\xee")
        data = data[:marker] + data[marker + 16 :]
    with Image.open(io.BytesIO(data)) as image:
        found = np.asarray(image).astype(np.int32)
    light = 255 - found if adobe else found
    # tensorflow/core/lib/jpeg/jpeg_mem.cc; tests/interop compares with TensorFlow itself.
    expected = light[..., :3] * light[..., 3:] // 255
    assert np.array_equal(pixels_of(prepare(data, Recipe(encoding="png")).data), expected)
    done = prepare(data, Recipe())
    assert (done.format, done.channels) == ("JPEG", 3)
    assert np.abs(pixels_of(done.data) - expected).max() <= PIXELS_DIFFER
    text = "JPEG of 4 components (CMYK or YCCK): re-encoded as RGB JPEG, quality 100"
    assert done.notes == (Note("repaired", text),)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file: 0 bytes"),
        (b"<!DOCTYPE html><html>", "starting with b'<!DOCTYPE ht'"),
        (b"\0" * 1000, "1000 bytes starting with"),
        (b"BM is not only a format", "not a JPEG"),
        (b"\xff\xd8", "2 bytes"),
        (b"\xff\xd8\xff", "cut off"),
        (b"\x89PNG\r\n\x1a\n", "do not begin with a header"),
        (b"GIF89a", "broken GIF"),
        (b"II*\0", "broken TIFF"),
        (b"MM\0*" + b"\0\0\0\x08\xff\xff" + bytes(900), "broken TIFF"),
        (b"RIFF\0\0\0\0WEBP", "empty image: 0x0"),
        (b"BM" + bytes(12) + b"\x28\0\0\0" + bytes(30), "broken BMP"),
    ],
)
def test_what_is_no_image_is_named(data: bytes, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        prepare(data, Recipe(check="header"))


@pytest.mark.parametrize(
    "kind",
    ["PNG", "GIF", "BMP", "WEBP", "TIFF", pytest.param("AVIF", marks=NEEDS_AVIF), "JPEG2000"],
)
def test_truncation_is_an_image_error(kind: str) -> None:
    data = encoded(PHOTO, kind)
    for end in range(0, len(data) * 3 // 4, max(1, len(data) // 40)):
        with pytest.raises(ImageError):
            prepare(data[:end], Recipe())
    if kind == "TIFF":  # its pixels come last
        for end in range(len(data) - 200, len(data)):
            with pytest.raises(ImageError):
                prepare(data[:end], Recipe())
