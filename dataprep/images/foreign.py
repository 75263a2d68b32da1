"""Images that are neither JPEG nor PNG, whatever their name says: GIF, BMP, TIFF and WebP.

Pillow decodes them, but only after everything that is not pixels (comments, animation,
metadata) has been left out of what it sees as far as that is easy: the plugins' warnings live
there. The plugin classes are called directly because ``Image.open`` warns about large images
through the process-wide warnings filter, which threads cannot change safely; `require_size`
takes the place of that check.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dataprep.errors import ImageError
from dataprep.images.codecs import PILLOW_ERRORS
from dataprep.images.pixels import Levels, require_size
from dataprep.images.recipe import MAX_PIXELS
from dataprep.images.sniff import tiff_directory

_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C

# TIFF 6.0: bytes a value of each type; and the tags that say how to decode, with one value or
# any number. Orientation is not among them: Pillow would heed it.
_TIFF_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8}
_TIFF_WIDTH, _TIFF_HEIGHT, _TIFF_TILE_WIDTH, _TIFF_TILE_HEIGHT = 256, 257, 322, 323
_TIFF_SINGLE = {256, 257, 259, 262, 266, 277, 278, 284, 292, 293, 317, 322, 323, 332, 531}
_TIFF_MANY = {258, 273, 279, 320, 324, 325, 338, 339, 347, 529, 530, 532}


@dataclass(frozen=True, slots=True)
class Decoded:
    """The (first) image of a file.

    Attributes:
        pixels: 8-bit grey or RGB, or 16-bit grey.
        exif: the file's EXIF block in TIFF form (empty without one).
        several: whether there are more images behind it.
    """

    pixels: Levels
    exif: bytes
    several: bool


@dataclass(frozen=True, slots=True)
class _Plain:
    """A file reduced to its pixels: the bytes for Pillow, the declared size, the EXIF block."""

    data: bytes
    width: int
    height: int
    exif: bytes = b""
    several: bool = False


def decode(data: bytes, kind: str, max_pixels: int) -> Decoded:
    """Decode the (first) image; alpha is dropped, not composited.

    Grey stays grey, palettes and CMYK become RGB; 16-bit RGB keeps the high byte.

    Args:
        data: the whole file.
        kind: ``GIF``, ``BMP``, ``TIFF`` or ``WebP``.
        max_pixels: the limit, checked before anything is decoded; of TIFF at most the default.

    Raises:
        ImageError: the file is damaged, or larger than `max_pixels`.
    """
    readers = {"GIF": _plain_gif, "BMP": _plain_bmp, "TIFF": _plain_tiff, "WebP": _plain_webp}
    plugins: dict[str, type[ImageFile.ImageFile]] = {
        "GIF": GifImageFile,
        "BMP": BmpImageFile,
        "TIFF": TiffImageFile,
        "WebP": WebPImageFile,
    }
    plain = readers[kind](data)
    # Of TIFF alone Pillow's own limit cannot be passed by.
    limit = min(max_pixels, MAX_PIXELS) if kind == "TIFF" else max_pixels
    require_size(plain.width, plain.height, limit)
    try:
        with plugins[kind](io.BytesIO(plain.data)) as image:
            require_size(image.width, image.height, limit)
            image.load()
            exif = image.info.get("exif", b"").removeprefix(b"Exif\0\0") if kind == "WebP" else b""
            levels = _levels(image, kind)
            return Decoded(levels, plain.exif or exif, plain.several or _several(image))
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken {kind}: {str(error) or type(error).__name__}") from error


def _levels(image: Image.Image, kind: str) -> Levels:
    # With this key, convert() tries to honour transparency, and warns when it cannot.
    image.info.pop("transparency", None)
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    if image.mode in ("I", "F"):
        raise ImageError(f"unsupported {kind}: 32 bits a sample, expected 8 or 16")
    mode = "L" if image.mode in ("1", "L", "LA", "La") else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))  # it copies if alike


def _several(image: ImageFile.ImageFile) -> bool:
    """Whether a second image follows; one that is damaged does not."""
    try:
        return bool(getattr(image, "is_animated", False))
    except PILLOW_ERRORS:
        return False


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
    return _Plain(data, width, height)


def _plain_bmp(data: bytes) -> _Plain:
    """Read the size: 16-bit sides in the oldest header, else 32-bit, the height signed."""
    if int.from_bytes(data[14:18], "little") == 12:
        return _Plain(data, _little(data, 18), _little(data, 20))
    width = int.from_bytes(data[18:22], "little")
    return _Plain(data, width, abs(int.from_bytes(data[22:26], "little", signed=True)))


def _plain_tiff(data: bytes) -> _Plain:
    """Keep of the first directory what says how to decode, and no other directory.

    A tile larger than the image counts as the size, since as much is decoded at a time.
    """
    order, entries, following = tiff_directory(data)
    kept, values = [], dict[int, int]()
    for tag in sorted(entries.keys() & (_TIFF_SINGLE | _TIFF_MANY)):
        kind, count, value = (
            int.from_bytes(entries[tag][begin:end], order)
            for begin, end in ((2, 4), (4, 8), (8, 12))
        )
        size = count * _TIFF_SIZES.get(kind, 0)
        if size == 0 or (tag in _TIFF_SINGLE and count != 1):
            raise ImageError(f"broken TIFF: its tag {tag} has {count} values of type {kind}")
        if size > 4 and value + size > len(data):
            raise ImageError(f"truncated TIFF: {len(data)} bytes, its tag {tag} lies behind them")
        kept.append(entries[tag])
        values[tag] = int.from_bytes(entries[tag][8 : 8 + min(size, 4)], order)
    width, height = values.get(_TIFF_WIDTH, 0), values.get(_TIFF_HEIGHT, 0)
    if min(width, height) > 0:
        width = max(width, values.get(_TIFF_TILE_WIDTH, 0))
        height = max(height, values.get(_TIFF_TILE_HEIGHT, 0))
    at = int.from_bytes(data[4:8], order)
    end = at + 2 + 12 * int.from_bytes(data[at : at + 2], order) + 4
    if end > len(data):
        raise ImageError(f"truncated TIFF: its directory ends behind its {len(data)} bytes")
    # In the place of the old one: bytes behind the end would pass for pixels that are missing.
    directory = len(kept).to_bytes(2, order) + b"".join(kept) + bytes(4)
    plain = data[:at] + directory + data[at + len(directory) :]
    return _Plain(plain, width, height, data, following != 0)


def _little(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")
