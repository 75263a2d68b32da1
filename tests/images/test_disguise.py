from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, prepare

PIXELS_DIFFER = 6  # most that JPEG at quality 100 and full chroma moves a sample of the photo


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("PNG", {}),
        ("BMP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"lossless": True, "exif": bytes(9)}),
        ("TIFF", {}),
        ("TIFF", {"compression": "tiff_lzw", "description": "a photo"}),
        ("TIFF", {"compression": "jpeg", "quality": 99}),
    ],
)
def test_rgb_in_disguise_becomes_jpeg(
    photo: Image.Image,
    encoded: Callable[..., bytes],
    pixels_of: Callable[[bytes], Any],
    format: str,  # noqa: A002 - Pillow's name for it
    options: dict[str, Any],
) -> None:
    data = encoded(photo, format, **options)
    done = prepare(data, Recipe())
    assert (done.format, done.width, done.height, done.channels) == ("JPEG", 90, 70, 3)
    assert np.abs(pixels_of(done.data) - pixels_of(data)).max() <= PIXELS_DIFFER
    name = {"WEBP": "WebP"}.get(format, format)
    text = f"{name}, not JPEG: re-encoded as RGB JPEG, quality 100"
    assert done.notes == (Note("repaired", text),)


@pytest.mark.parametrize(
    ("format", "mode", "channels"),
    [
        ("PNG", "1", 1),
        ("PNG", "LA", 1),
        ("PNG", "P", 3),
        ("PNG", "RGBA", 3),
        ("GIF", "1", 1),
        ("GIF", "P", 3),
        ("BMP", "P", 3),
        ("BMP", "RGBA", 3),
        ("WEBP", "RGBA", 3),
        ("TIFF", "1", 1),
        ("TIFF", "LA", 1),
        ("TIFF", "P", 3),
        ("TIFF", "RGBA", 3),
        ("TIFF", "CMYK", 3),
    ],
)
def test_every_mode_is_stored_as_pillow_shows_it(
    photo: Image.Image,
    encoded: Callable[..., bytes],
    pixels_of: Callable[[bytes], Any],
    format: str,  # noqa: A002 - Pillow's name for it
    mode: str,
    channels: int,
) -> None:
    picture = photo.quantize(16) if mode == "P" else photo.convert(mode)
    if "A" in mode:
        picture.putalpha(Image.linear_gradient("L").resize(picture.size))
    options = {"lossless": True, "exact": True} if format == "WEBP" else {}
    done = prepare(encoded(picture, format, **options), Recipe(encoding="png"))
    assert done.channels == channels
    expected = np.asarray(picture.convert("L" if channels == 1 else "RGB"))
    assert np.array_equal(pixels_of(done.data), expected)


def test_alpha_is_dropped_and_not_composited(
    photo: Image.Image, encoded: Callable[..., bytes]
) -> None:
    picture = Image.new("RGBA", (8, 8), (200, 100, 50, 0))
    for format_ in ("PNG", "TIFF"):
        done = prepare(encoded(picture, format_), Recipe(encoding="png"))
        plain = prepare(encoded(picture.convert("RGB"), format_), Recipe(encoding="png"))
        assert done.data == plain.data
    picture = photo.quantize(16)
    for transparency in (3, bytes(range(0, 256, 16))):
        data = encoded(picture, "PNG", transparency=transparency)
        assert prepare(data, Recipe()).data == prepare(encoded(picture, "PNG"), Recipe()).data


@pytest.mark.parametrize(("format", "order"), [("PNG", "<"), ("TIFF", "<"), ("TIFF", ">")])
def test_sixteen_bit_grey_keeps_its_high_byte_or_all(
    encoded: Callable[..., bytes],
    pixels_of: Callable[[bytes], Any],
    format: str,  # noqa: A002 - Pillow's name for it
    order: str,
) -> None:
    ramp = np.arange(0, 65536, 16, dtype=np.uint16).reshape(64, 64)
    mode = "I;16" if order == "<" or format == "PNG" else "I;16B"
    whole = Image.frombytes(mode, (64, 64), ramp.astype(f"{order if 'B' in mode else '<'}u2"))
    data = encoded(whole, format)
    done = prepare(data, Recipe(encoding="png"))
    assert done.channels == 1
    assert np.array_equal(pixels_of(done.data), ramp >> 8)
    kept = prepare(data, Recipe(encoding="png", depth="keep"))
    with Image.open(io.BytesIO(kept.data)) as image:
        assert np.array_equal(np.asarray(image).astype(np.uint16), ramp)
    if format == "TIFF":
        text = "16-bit TIFF, not JPEG: re-encoded as 16-bit grey PNG"
        assert kept.notes == (Note("repaired", text),)
        with pytest.raises(ImageError, match="unsupported TIFF: 32 bits a sample"):
            prepare(encoded(whole.convert("I"), "TIFF"), Recipe())


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_first_of_several_images_is_used_and_said(
    photo: Image.Image,
    encoded: Callable[..., bytes],
    format: str,  # noqa: A002 - Pillow's name for it
) -> None:
    first = photo.quantize(16) if format == "GIF" else photo
    later = [first.transpose(Image.Transpose.ROTATE_180)] * 2
    options = {"WEBP": {"lossless": True}, "GIF": {"comment": b"hi", "disposal": 2}}
    extra = options.get(format, {})
    data = encoded(first, format, save_all=True, append_images=later, **extra)
    still = encoded(first, format, **({"lossless": True} if format == "WEBP" else {}))
    done, plain = prepare(data, Recipe()), prepare(still, Recipe())
    assert done.data == plain.data
    assert ("(its first image)" in done.notes[0].text) == (format != "PNG")
    assert "(its first image)" not in plain.notes[0].text


def test_cmyk_becomes_the_rgb_that_tensorflow_makes_of_it(
    photo: Image.Image, encoded: Callable[..., bytes], pixels_of: Callable[[bytes], Any]
) -> None:
    data = encoded(photo.convert("CMYK"), quality=95)
    with Image.open(io.BytesIO(data)) as image:
        light = 255 - np.asarray(image).astype(np.int32)
    # tensorflow/core/lib/jpeg/jpeg_mem.cc; tests/interop compares with TensorFlow itself.
    expected = light[..., :3] * light[..., 3:] // 255
    assert np.array_equal(pixels_of(prepare(data, Recipe(encoding="png")).data), expected)
    done = prepare(data, Recipe())
    assert (done.format, done.channels) == ("JPEG", 3)
    assert np.abs(pixels_of(done.data) - expected).max() <= PIXELS_DIFFER
    text = "JPEG of 4 components (CMYK or YCCK): re-encoded as RGB JPEG, quality 100"
    assert done.notes == (Note("repaired", text),)


def test_cmyk_that_is_not_adobe_s_stores_ink_and_not_light(
    photo: Image.Image, encoded: Callable[..., bytes], pixels_of: Callable[[bytes], Any]
) -> None:
    data = encoded(photo.convert("CMYK"), quality=95)
    marker = data.index(b"\xff\xee")
    plain = data[:marker] + data[marker + 16 :]
    with Image.open(io.BytesIO(plain)) as image:
        light = np.asarray(image).astype(np.int32)
    expected = light[..., :3] * light[..., 3:] // 255
    assert np.array_equal(pixels_of(prepare(plain, Recipe(encoding="png")).data), expected)


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


@pytest.mark.parametrize("format", ["PNG", "GIF", "BMP", "WEBP", "TIFF"])
def test_truncation_is_an_image_error(
    photo: Image.Image,
    encoded: Callable[..., bytes],
    format: str,  # noqa: A002 - Pillow's name for it
) -> None:
    data = encoded(photo, format)
    for end in range(0, len(data) * 3 // 4, max(1, len(data) // 40)):
        with pytest.raises(ImageError):
            prepare(data[:end], Recipe())
    if format == "TIFF":  # its pixels come last
        for end in range(len(data) - 200, len(data)):
            with pytest.raises(ImageError):
                prepare(data[:end], Recipe())
