"""HEIC and JPEG XL, by the extras of these names."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from numpy.typing import NDArray

from dataprep.archives.listing import is_image_name, refusal
from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, Resize, codec_versions, prepare
from tests.images.files import PHOTO, pixels_of
from tests.images.heic_files import PICTURE, PLAIN, TURNED
from tests.images.png_files import png

PNG = Recipe(encoding="png")
RGB = np.asarray(PHOTO)
DEEP = np.random.default_rng(3).integers(0, 1 << 16, (21, 34, 4)).astype(np.uint16)


def jxl(pixels: NDArray[Any], **options: Any) -> bytes:
    return bytes(imagecodecs.jpegxl_encode(pixels, lossless=True, **options))


def _oriented(pixels: NDArray[Any], orientation: int) -> bytes:
    """A codestream whose header has the orientation, which no encoder here writes.

    Behind the size (26 bits) stand all_default and extra_fields, both 0. With the latter 1 follow
    orientation, three bits for what is not there, and one more behind the colours.
    """
    data = jxl(pixels, usecontainer=False)
    bits = "".join(f"{byte:08b}"[::-1] for byte in data[2:7])
    assert bits[26:] == "00000100010010"  # the rest, colours, end, filled up
    head = bits[:26] + "01" + f"{orientation - 1:03b}"[::-1] + "000" + bits[28:36] + "1001"
    head += "0" * (-len(head) % 8)
    first = bytes(int(head[at : at + 8][::-1], 2) for at in range(0, len(head), 8))
    return data[:2] + first + data[7:]


def test_heic_is_decoded_upright_once() -> None:
    for data, expected in ((PLAIN, PICTURE), (TURNED, PICTURE[::-1, ::-1])):
        for exif in ("auto", "apply"):
            done = prepare(data, Recipe(encoding="png", exif=exif))
            assert (done.turn, done.channels) == (1, 3)
            assert np.abs(pixels_of(done.data) - expected).mean() < 10
    text = "HEIC, not JPEG: re-encoded as RGB JPEG, quality 100"
    assert prepare(PLAIN, Recipe()).notes == (Note("repaired", text),)


@pytest.mark.parametrize("container", [True, False])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_jpeg_xl_becomes_the_very_pixels(channels: int, *, container: bool) -> None:
    pixels = np.dstack([RGB, RGB[..., :1]])[..., :channels].squeeze()
    done = prepare(jxl(pixels, usecontainer=container), PNG)
    expected = RGB if channels > 2 else RGB[..., 0]
    assert np.array_equal(pixels_of(done.data), expected)
    text = "JPEG XL, not JPEG: re-encoded as RGB JPEG, quality 100"
    assert prepare(jxl(RGB), Recipe()).notes == (Note("repaired", text),)


@pytest.mark.parametrize(
    ("orientation", "turns"),
    [
        (2, lambda it: it[:, ::-1]),
        (3, lambda it: it[::-1, ::-1]),
        (6, lambda it: np.rot90(it, -1)),
        (8, np.rot90),
    ],
)
def test_jpeg_xl_is_turned_once_as_its_header_says(orientation: int, turns: Any) -> None:
    pixels = RGB[:30, :41]
    for exif in ("auto", "apply", "ignore"):
        recipe = Recipe(encoding="png", exif=exif)
        done = prepare(_oriented(pixels, orientation), recipe)
        assert np.array_equal(pixels_of(done.data), turns(pixels))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_deep_jpeg_xl_keeps_its_bits_on_request(channels: int) -> None:
    pixels = DEEP[..., :channels].squeeze()
    kept = prepare(jxl(pixels), Recipe(encoding="png", depth="keep")).data
    color = 0 if channels == 1 else 2
    again = prepare(png(DEEP[..., : min(channels, 3)], color, 16), Recipe(passes=("PNG",)))
    assert prepare(kept, Recipe(passes=("PNG",))).data == again.data
    assert np.array_equal(imagecodecs.png_decode(kept), pixels[..., :3] if channels > 1 else pixels)
    (note,) = prepare(jxl(pixels), PNG).notes
    assert note.text.startswith("16-bit JPEG XL, not JPEG: re-encoded as 8-bit")


def test_float_is_refused_and_of_an_animation_the_first_is_taken() -> None:
    with pytest.raises(ImageError, match="unsupported JPEG XL: float32 samples"):
        prepare(jxl(RGB.astype(np.float32) / 255), Recipe())
    film = np.stack([RGB, RGB[::-1]])
    assert np.array_equal(pixels_of(prepare(jxl(film), PNG).data), RGB)


def _bombs() -> list[bytes]:
    cropped, streams = bytearray(PLAIN), [bytearray(jxl(RGB, usecontainer=it)) for it in (0, 1)]
    size = cropped.index(b"ispe") + 8
    cropped[size : size + 8] = struct.pack(">II", 30_000, 30_000)
    # Not small, 30 bits of height, ratio 1:1; bits are filled from the lowest.
    header = 0b110 | (59_999 << 3) | (1 << 33)
    for stream in streams:
        at = stream.index(b"\xff\x0a") + 2
        stream[at : at + 5] = header.to_bytes(5, "little")
    return [bytes(cropped), *map(bytes, streams)]


def test_bombs_are_refused_by_the_size_they_declare() -> None:
    for data in _bombs():
        with pytest.raises(ImageError, match="decompression bomb"):
            prepare(data, Recipe())


@pytest.mark.parametrize("data", [PLAIN, TURNED, jxl(RGB), jxl(RGB, usecontainer=True)])
def test_truncation_is_an_image_error(data: bytes) -> None:
    for end in range(0, len(data) * 3 // 4, max(1, len(data) // 40)):
        with pytest.raises(ImageError):
            prepare(data[:end], Recipe(resize=Resize(8)))


def test_sizes_of_every_form_are_read() -> None:
    for height, width in ((8, 16), (8, 256), (40, 48), (9, 7), (300, 400), (5, 600), (999, 3)):
        done = prepare(jxl(np.zeros((height, width), np.uint8)), PNG)
        assert (done.height, done.width) == (height, width)
        with pytest.raises(ImageError, match=f"too large.* {width}x{height} ="):
            prepare(jxl(np.zeros((height, width), np.uint8)), Recipe(max_pixels=5))


@pytest.mark.parametrize(("package", "extra"), [("pi_heif", "heic"), ("imagecodecs", "jxl")])
def test_without_the_package_its_extra_is_named(tmp_path: Path, package: str, extra: str) -> None:
    (tmp_path / "image").write_bytes(PLAIN if extra == "heic" else jxl(RGB))
    program = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from pathlib import Path; from dataprep.images import Recipe, prepare\n"
        "prepare(Path(sys.argv[1]).read_bytes(), Recipe())"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "image")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert f"pip install 'dataprep-shards[{extra}]'" in done.stderr.splitlines()[-1]


def test_they_are_images_by_name_and_their_decoders_are_in_the_manifest() -> None:
    assert all(is_image_name(f"a.{end}") and not refusal(f"a.{end}") for end in ("heic", "JXL"))
    assert {"pi-heif", "imagecodecs"} <= codec_versions().keys()
