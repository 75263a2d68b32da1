"""Which PNG files stay byte for byte, and what becomes of the others."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, Resize, prepare
from dataprep.images.pixels import recolored
from tests.images.png_files import GREY, GREY_ALPHA, PALETTE, RGB, RGBA, chunk, png

BOTH = ("JPEG", "PNG")
CHECKS: tuple[Any, ...] = ("header", "bitstream", "pixels")
RAMP = np.arange(35).reshape(5, 7)
COLOURS = np.arange(105).reshape(5, 7, 3)
PLTE = chunk(b"PLTE", bytes(range(48)))
METADATA = {
    "gamma": chunk(b"gAMA", struct.pack(">I", 45455)),
    "profile": chunk(b"iCCP", b"name\0\0" + zlib.compress(b"profile")),
    "text": chunk(b"tEXt", b"Comment\0hello"),
    "compressed text": chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"hello")),
    "transparent level": chunk(b"tRNS", b"\0\7"),
    "density": chunk(b"pHYs", struct.pack(">IIB", 2835, 2835, 1)),
    "time": chunk(b"tIME", bytes((7, 233, 1, 1, 0, 0, 0))),
    "private": chunk(b"prVt", b"whatever"),
    "EXIF": chunk(b"eXIf", b"MM\0*\0\0\0\10\0\0"),
}


def _noise(shape: tuple[int, ...], depth: int) -> Any:
    return np.random.default_rng(3).integers(0, 1 << depth, shape)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize(("color", "samples"), [(GREY, RAMP), (RGB, COLOURS)])
@pytest.mark.parametrize("pieces", [1, 5])
def test_plain_png_is_the_very_object(
    check: Any, interlaced: bool, color: int, samples: Any, pieces: int
) -> None:
    data = png(samples, color, interlaced=interlaced, pieces=pieces)
    done = prepare(data, Recipe(check=check, passes=BOTH))
    assert done.data is data
    assert (done.format, done.height, done.width) == ("PNG", 5, 7)
    assert done.channels == (1 if color == GREY else 3)
    assert done.notes == ()


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_every_filter_passes(photo: Image.Image, encoded: Callable[..., bytes], mode: str) -> None:
    data = encoded(photo.convert(mode), "PNG")
    assert prepare(data, Recipe(passes=BOTH)).data is data


@given(width=st.integers(1, 20), height=st.integers(1, 20), color=st.sampled_from([GREY, RGB]))
def test_any_size_passes_interlaced_or_not(width: int, height: int, color: int) -> None:
    samples = _noise((height, width, 1 if color == GREY else 3), 8)
    for interlaced in (False, True):
        data = png(samples, color, interlaced=interlaced)
        assert prepare(data, Recipe(passes=BOTH)).data is data
        done = prepare(data, Recipe(passes=BOTH, encoding="raw"))
        assert done.data == samples.astype(np.uint8).tobytes()


@pytest.mark.parametrize("name", METADATA)
@pytest.mark.parametrize("place", ["before", "after"])
def test_metadata_passes(name: str, place: str) -> None:
    options: dict[str, Any] = {place: METADATA[name]}
    data = png(RAMP, **options) + b"trailing bytes"
    for check in CHECKS:
        assert prepare(data, Recipe(check=check, passes=BOTH)).data is data


@pytest.mark.parametrize("default_image", [False, True])
def test_animation_passes_as_its_first_image(
    photo: Image.Image, encoded: Callable[..., bytes], default_image: bool
) -> None:
    more = [photo.rotate(90), photo.rotate(180)]
    data = encoded(photo, "PNG", save_all=True, append_images=more, default_image=default_image)
    done = prepare(data, Recipe(check="pixels", passes=BOTH, statistics="on"))
    assert done.data is data
    assert done.measured is not None
    assert done.measured.histogram is not None
    assert done.measured.histogram.ravel().tolist() == photo.histogram()


def test_png_does_not_pass_unless_asked() -> None:
    done = prepare(png(RAMP), Recipe())
    assert done.format == "JPEG"
    text = "PNG, not JPEG: re-encoded as grey JPEG, quality 100"
    assert done.notes == (Note("repaired", text),)


UNUSUAL = [
    ("RGBA", png(_noise((5, 7, 4), 8), RGBA), 3),
    ("grey+alpha", png(_noise((5, 7, 2), 8), GREY_ALPHA), 1),
    ("palette", png(_noise((5, 7), 4), PALETTE, 4, before=PLTE), 3),
    ("1-bit grey", png(_noise((5, 7), 1), GREY, 1), 1),
    ("2-bit grey", png(_noise((5, 7), 2), GREY, 2), 1),
    ("4-bit grey", png(_noise((5, 7), 4), GREY, 4), 1),
    ("16-bit grey", png(_noise((5, 7), 16), GREY, 16), 1),
    ("16-bit RGB", png(_noise((5, 7, 3), 16), RGB, 16), 3),
    ("16-bit grey+alpha", png(_noise((5, 7, 2), 16), GREY_ALPHA, 16), 1),
    ("16-bit RGBA", png(_noise((5, 7, 4), 16), RGBA, 16), 3),
]


@pytest.mark.parametrize(("name", "data", "channels"), UNUSUAL, ids=[one[0] for one in UNUSUAL])
@pytest.mark.parametrize("resize", [None, Resize(4)])
@pytest.mark.parametrize(
    ("encoding", "form"),
    [
        ("keep", "re-encoded as {} PNG"),
        ("png", "re-encoded as {} PNG"),
        ("jpeg", "re-encoded as {} JPEG, quality 95"),
        ("raw", "stored as {} pixels"),
    ],
)
@pytest.mark.parametrize("color", ["keep", "rgb", "gray"])
def test_unusual_png_is_converted_and_noted(
    name: str,
    data: bytes,
    channels: int,
    resize: Resize | None,
    encoding: Any,
    form: str,
    color: Any,
) -> None:
    done = prepare(data, Recipe(passes=BOTH, resize=resize, encoding=encoding, color=color))
    channels = {"keep": channels, "rgb": 3, "gray": 1}[color]
    words = ("8-bit " if name.startswith("16") else "") + ("grey" if channels == 1 else "RGB")
    assert done.channels == channels
    assert done.notes == (Note("repaired", f"{name} PNG: {form.format(words)}"),)
    if encoding == "keep":
        plain = prepare(done.data, Recipe(passes=BOTH, color=color))
        assert plain.data is done.data


@pytest.mark.parametrize(
    "change", [{"resize": Resize(4)}, {"center_crop": 4}, {"color": "gray"}, {"encoding": "png"}]
)
def test_plain_png_that_was_asked_to_change_stays_png_without_a_note(
    change: dict[str, Any],
) -> None:
    done = prepare(png(COLOURS, RGB), Recipe(passes=BOTH, **change))
    assert (done.format, done.notes) == ("PNG", ())


@pytest.mark.parametrize("encoding", ["jpeg", "raw"])
def test_plain_png_that_was_asked_to_change_format_has_no_note(encoding: Any) -> None:
    assert prepare(png(RAMP), Recipe(passes=BOTH, encoding=encoding)).notes == ()


def test_jpeg_stays_jpeg_where_png_passes(jpegs: dict[str, bytes]) -> None:
    data = jpegs["baseline"]
    assert prepare(data, Recipe(passes=BOTH)).data is data
    assert prepare(data, Recipe(passes=BOTH, resize=Resize(20))).format == "JPEG"


def test_jpeg_becomes_png_where_only_png_passes(
    jpegs: dict[str, bytes], pixels_of: Callable[[bytes], Any]
) -> None:
    done = prepare(jpegs["grey"], Recipe(passes=("PNG",)))
    assert done.notes == (Note("repaired", "JPEG, not PNG: re-encoded as grey PNG"),)
    expected = prepare(jpegs["grey"], Recipe(encoding="raw")).data
    assert pixels_of(done.data).astype(np.uint8).tobytes() == expected


@pytest.mark.parametrize("format", ["GIF", "BMP", "WEBP"])
def test_other_formats_become_png_without_loss(
    photo: Image.Image,
    encoded: Callable[..., bytes],
    pixels_of: Callable[[bytes], Any],
    format: str,  # noqa: A002 - Pillow's name for it
) -> None:
    data = encoded(photo.convert("P") if format == "GIF" else photo, format)
    done = prepare(data, Recipe(passes=BOTH))
    name = "WebP" if format == "WEBP" else format
    text = f"{name}, not JPEG or PNG: re-encoded as RGB PNG"
    assert done.notes == (Note("repaired", text),)
    expected = prepare(data, Recipe(encoding="raw")).data
    assert pixels_of(done.data).astype(np.uint8).tobytes() == expected


def test_exif_turns_a_png_only_if_asked(pixels_of: Callable[[bytes], Any]) -> None:
    block = b"MM\0*\0\0\0\10\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
    data = png(RAMP, before=chunk(b"eXIf", block))
    assert prepare(data, Recipe(passes=BOTH)).data is data
    done = prepare(data, Recipe(passes=BOTH, exif="apply"))
    assert (done.format, done.notes) == ("PNG", ())
    assert np.array_equal(pixels_of(done.data), np.rot90(RAMP, -1))


def test_grey_of_equal_channels_is_exactly_their_value() -> None:
    levels = np.arange(256, dtype=np.uint8).reshape(16, 16)
    assert np.array_equal(recolored(np.stack([levels] * 3, axis=-1), "gray"), levels)


@given(st.binary(min_size=3, max_size=3))
def test_grey_is_luma_of_itu_r_601(color: bytes) -> None:
    pixel = np.frombuffer(color, np.uint8).reshape(1, 1, 3)
    red, green, blue = color
    expected = (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16
    assert recolored(pixel, "gray").tolist() == [[expected]]


def test_alpha_is_dropped_before_luma(pixels_of: Callable[[bytes], Any]) -> None:
    levels = np.arange(256).reshape(16, 16)
    alpha = _noise((16, 16), 8)
    recipe = Recipe(passes=BOTH, color="gray")
    for samples, color in (
        (np.stack([levels, levels, levels, alpha], -1), RGBA),
        (np.stack([levels, alpha], -1), GREY_ALPHA),
    ):
        assert np.array_equal(pixels_of(prepare(png(samples, color), recipe).data), levels)


def test_palette_is_looked_up_before_luma(pixels_of: Callable[[bytes], Any]) -> None:
    entries = _noise((16, 3), 8)
    places = _noise((5, 7), 4)
    before = chunk(b"PLTE", entries.astype(np.uint8).tobytes()) + chunk(b"tRNS", bytes(16))
    data = png(places, PALETTE, 4, before=before)
    done = prepare(data, Recipe(passes=BOTH, color="gray"))
    luma = (entries @ [19595, 38470, 7471] + 32768) >> 16
    assert np.array_equal(pixels_of(done.data), luma[places])


def test_too_many_pixels_are_refused_before_anything_else() -> None:
    with pytest.raises(ImageError, match=r"decompression bomb\? 7x5 = 35 pixels"):
        prepare(png(RAMP), Recipe(passes=BOTH, max_pixels=34))
