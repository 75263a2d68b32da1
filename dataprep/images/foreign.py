"""Images that are not JPEG, whatever their name says: PNG, GIF, BMP and WebP.

Pillow decodes them, but only after everything that is not pixels (text, profiles,
animation, comments) has been left out of what it sees: bombs in compressed text, broken
profiles and the plugins' warnings all live there. The plugin classes are called directly
because ``Image.open`` warns about large images through the process-wide warnings filter,
which threads cannot change safely; `require_size` takes the place of that check.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dataprep.errors import ImageError
from dataprep.images import png
from dataprep.images.decoders import PILLOW_ERRORS
from dataprep.images.pixels import Pixels, require_size

_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C


@dataclass(frozen=True, slots=True)
class _Plain:
    """A file reduced to its pixels: the bytes for Pillow, the declared size, the EXIF block."""

    data: bytes
    width: int
    height: int
    exif: bytes = b""


def kind_of(data: bytes) -> str:
    """Name the format by the file's first bytes.

    Raises:
        ImageError: it is none that is supported, or nothing at all.
    """
    if not data:
        raise ImageError("empty file: 0 bytes")
    if data.startswith(png.MAGIC):
        return "PNG"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WebP"
    # "BM" alone would claim text; the size of the second header is 12 to 124 in every BMP.
    if data.startswith(b"BM") and 12 <= int.from_bytes(data[14:18], "little") <= 124:
        return "BMP"
    raise ImageError(
        f"not a JPEG, PNG, GIF, BMP or WebP image: {len(data)} bytes starting with {data[:12]!r}"
    )


def decode(data: bytes, kind: str, max_pixels: int) -> tuple[Pixels, bytes]:
    """Decode the (first) image to 8-bit grey or RGB; alpha is dropped, not composited.

    That is what TensorFlow's ``decode_png(channels=3)`` does. 16-bit samples keep their high
    byte, as libpng's ``png_set_strip_16`` does. Grey stays grey, but 16-bit grey with alpha, of
    which Pillow makes RGB.

    Args:
        data: the whole file.
        kind: what `kind_of` says it is.
        max_pixels: the limit, checked before anything is decoded.

    Returns:
        The pixels, and the file's EXIF block in TIFF form (empty without one).

    Raises:
        ImageError: the file is damaged, or larger than `max_pixels`.
    """
    readers = {"PNG": _plain_png, "GIF": _plain_gif, "WebP": _plain_webp, "BMP": _plain_bmp}
    plugins: dict[str, type[ImageFile.ImageFile]] = {
        "PNG": PngImageFile,
        "GIF": GifImageFile,
        "WebP": WebPImageFile,
        "BMP": BmpImageFile,
    }
    plain = readers[kind](data)
    require_size(plain.width, plain.height, max_pixels)
    try:
        with plugins[kind](io.BytesIO(plain.data)) as image:
            require_size(image.width, image.height, max_pixels)
            image.load()
            return _eight_bits(image), plain.exif
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken {kind}: {str(error) or type(error).__name__}") from error


def _eight_bits(image: Image.Image) -> Pixels:
    # With this key, convert() tries to honour transparency, and warns when it cannot.
    image.info.pop("transparency", None)
    if image.mode.startswith("I"):  # 16-bit PNG: "I;16", in older Pillow "I"
        return (np.asarray(image) >> 8).astype(np.uint8)
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))  # it copies if alike


def _plain_png(data: bytes) -> _Plain:
    stripped, exif = png.without_metadata(data)
    header = png.read_header(data)
    return _Plain(stripped, header.width, header.height, exif)


def _plain_gif(data: bytes) -> _Plain:
    """Keep the screen, the palette and the images, and no extension blocks.

    A first image that reaches over the screen enlarges it, as it does in Pillow.
    """
    flags = data[10] if len(data) > 10 else 0
    start = at = 13 + (6 << (flags & 7) if flags & 0x80 else 0)
    while at + 1 < len(data) and data[at] == _GIF_EXTENSION:
        at += 2
        while at < len(data) and data[at] != 0:
            at += 1 + data[at]
        at += 1
    if at + 10 > len(data) or data[at] != _GIF_IMAGE:
        raise ImageError(f"broken GIF: no image in its {len(data)} bytes")
    left, top, across, down = (_little(data, at + i) for i in (1, 3, 5, 7))
    width, height = max(_little(data, 6), left + across), max(_little(data, 8), top + down)
    return _Plain(data[:start] + data[at:], width, height)


def _plain_webp(data: bytes) -> _Plain:
    """Read the size from the first chunk (RFC 9649, sections 2.5 to 2.7)."""
    first = data[12:16]
    if first == b"VP8X":
        width, height = (int.from_bytes(data[i : i + 3], "little") + 1 for i in (24, 27))
    elif first == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = _little(data, 26) & 0x3FFF, _little(data, 28) & 0x3FFF
    return _Plain(data, width, height, _webp_exif(data))


def _webp_exif(data: bytes) -> bytes:
    at = 12
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "little")
        if data[at : at + 4] == b"EXIF":
            return data[at + 8 : at + 8 + size].removeprefix(b"Exif\0\0")
        at += 8 + size + size % 2
    return b""


def _plain_bmp(data: bytes) -> _Plain:
    """Read the size: 16-bit sides in the oldest header, else 32-bit, the height signed."""
    if int.from_bytes(data[14:18], "little") == 12:
        return _Plain(data, _little(data, 18), _little(data, 20))
    width = int.from_bytes(data[18:22], "little")
    return _Plain(data, width, abs(int.from_bytes(data[22:26], "little", signed=True)))


def _little(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
