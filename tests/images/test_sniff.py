from __future__ import annotations

from collections.abc import Callable

import pytest
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images.sniff import Sniffed, sniff


@pytest.mark.parametrize(
    "name", ["baseline", "progressive", "restarts", "grey", "grey progressive", "RGB colour space"]
)
def test_jpeg_of_every_coding(jpegs: dict[str, bytes], name: str) -> None:
    assert sniff(jpegs[name]) == Sniffed("JPEG", height=70, width=90)


def test_cmyk(photo: Image.Image, encoded: Callable[..., bytes]) -> None:
    assert sniff(encoded(photo.convert("CMYK"))) == Sniffed("JPEG", 70, 90)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_of_every_mode(encoded: Callable[..., bytes], mode: str) -> None:
    assert sniff(encoded(Image.new(mode, (300, 2)), "PNG")) == Sniffed("PNG", 2, 300)


def test_only_the_header_of_a_png_is_read(
    photo: Image.Image, encoded: Callable[..., bytes]
) -> None:
    data = encoded(photo, "PNG")
    assert sniff(data[:24]) == Sniffed("PNG", 70, 90)
    for end in range(24):
        with pytest.raises(ImageError, match="neither JPEG nor PNG"):
            sniff(data[:end])


def test_damaged_jpeg_is_an_image_error_wherever_it_is_cut(jpegs: dict[str, bytes]) -> None:
    data = jpegs["baseline"]
    for end in range(0, len(data) - 1, 19):
        with pytest.raises(ImageError):
            sniff(data[:end])


@pytest.mark.parametrize("format_", ["GIF", "BMP", "WEBP", "TIFF"])
def test_what_is_never_stored_is_refused(
    photo: Image.Image, encoded: Callable[..., bytes], format_: str
) -> None:
    with pytest.raises(ImageError, match="neither JPEG nor PNG: it begins with b'"):
        sniff(encoded(photo, format_))
