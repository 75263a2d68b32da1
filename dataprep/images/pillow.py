"""What Pillow decodes: its errors, its pixels, and whole files of formats that others do not read.

Its plugin classes are called directly because ``Image.open`` warns about large images through the
process-wide warnings filter, which threads cannot change safely; `require_size` takes the place of
that check.
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import numpy as np
from PIL import Image, ImageFile, features
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dataprep.errors import ImageError
from dataprep.images import exif, jxl
from dataprep.images.pixels import Levels, require_size
from dataprep.recipe import MAX_PIXELS

# What Pillow raises for damaged bytes, by fuzzing and by its own ImageFile. A UnicodeDecodeError is
# a ValueError. MemoryError is not among them: sizes are fenced first, so it tells of the machine.
PILLOW_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, OverflowError, TypeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
    RuntimeError,  # libavif's
    Warning,  # only where the user makes errors of them
)
_PLUGINS: Final[dict[str, type[ImageFile.ImageFile]]] = {
    "GIF": GifImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "WebP": WebPImageFile,
    "JPEG 2000": Jpeg2KImageFile,
}
with suppress(ModuleNotFoundError):  # Pillow 11.3 has it
    from PIL.AvifImagePlugin import AvifImageFile

    if features.check("avif"):  # it may be built without
        _PLUGINS["AVIF"] = AvifImageFile
with suppress(ModuleNotFoundError):  # the extra heic
    from pi_heif import HeifImageFile

    _PLUGINS["HEIC"] = HeifImageFile
_INSTEAD: Final = {"HEIC": "its decoder is missing; pip install 'dataprep-shards[heic]'"}
_JP2, _CODESTREAM = b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51"
_AVIF = re.compile(rb"....ftyp(avif|avis|....(....)*?(avif|avis))", re.DOTALL)
_BRANDS: Final = 256  # bytes in which AVIF names itself among its brands
_HEIC = re.compile(rb"....ftyp(he[iv][cmsx]|mif1|msf1)", re.DOTALL)
_EXTENTS = re.compile(rb"ispe\0\0\0\0(.{4})(.{4})", re.DOTALL)  # HEIF's sizes, before any crop
# An item's type, name and content type: pi-heif 1.4 crashes on what is no text there.
_ITEMS = re.compile(rb"infe(?:\x02.{7}|\x03.{9})(.{4}[^\0]*\0[^\0]*)", re.DOTALL)
_DEEP_RGB = re.compile("(RGB[AX]?;16)([BLN])")  # Pillow's unpackers: big, little, native endian
_OTHER_BYTE: Final = {"B": "L", "L": "B", "N": "B" if sys.byteorder == "little" else "L"}
_PLANAR: Final = 284  # 1: the samples of a pixel lie side by side
_TIFF_TILE: Final = (322, 323)  # TIFF 6.0, section 15: width and height of a tile


@contextmanager
def decoding(kind: str) -> Iterator[None]:
    """Turn whatever Pillow raises meanwhile into an `ImageError` that names the format."""
    try:
        yield
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken {kind}: {str(error) or type(error).__name__}") from error


def with_low_bytes(high: Levels, again: ImageFile.ImageFile) -> Levels:
    """All 16 bits of RGB, of which Pillow decodes the high bytes; of anything else what it decoded.

    Args:
        high: what it decoded.
        again: the same file, opened but not loaded; its unpackers are changed for those that read
            the other byte of each sample.
    """
    changed = []
    for tile in again.tile:
        unpacker, *rest = tile.args if isinstance(tile.args, tuple) else (tile.args,)
        found = _DEEP_RGB.fullmatch(str(unpacker))
        if found is None:
            return high
        changed.append(tile._replace(args=(found[1] + _OTHER_BYTE[found[2]], *rest)))
    again.tile = changed
    again.load()
    whole = high.astype(np.uint16) << 8
    whole |= levels_of(again, grey=False)
    return whole


def levels_of(image: Image.Image, *, grey: bool) -> Levels:
    """What Pillow decoded, as grey (16 bits stay) or RGB; alpha is dropped, palettes looked up."""
    image.info.pop("transparency", None)  # with it, convert() may warn
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    mode = "L" if grey else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))  # it copies if alike


def kind_of(data: bytes) -> str:
    """Name the format of what is neither a JPEG nor a PNG by the file's first bytes.

    Raises:
        ImageError: it is none that is supported, or nothing at all.
    """
    if not data:
        raise ImageError("empty file: 0 bytes")
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "GIF"
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "WebP"
    # "BM" alone would claim text; the size of the second header is 12 to 124 in every BMP.
    if data.startswith(b"BM") and 12 <= int.from_bytes(data[14:18], "little") <= 124:
        return "BMP"
    if data.startswith((exif.BIG, exif.LITTLE)):
        return "TIFF"
    if data.startswith((_JP2, _CODESTREAM)):
        return "JPEG 2000"
    if _AVIF.match(data[:_BRANDS]):
        return "AVIF"
    if _HEIC.match(data[:_BRANDS]):
        return "HEIC"
    if data.startswith(jxl.MAGIC):
        return "JPEG XL"
    raise ImageError(
        "not a JPEG, PNG, GIF, BMP, TIFF, WebP, AVIF, HEIC, JPEG 2000, JPEG XL or DICOM image: "
        f"{len(data)} bytes starting with {data[:12]!r}"
    )


def decode(data: bytes, kind: str, max_pixels: int) -> tuple[Levels, int, bool]:
    """Decode the (first) image; alpha is dropped, not composited.

    Grey stays grey, palettes and CMYK become RGB. 16-bit RGB stays so of TIFF with its samples side
    by side and of JPEG XL; else, and of what has 10 or 12 bits, the 8 highest are left.

    Args:
        kind: that `kind_of` found.
        max_pixels: the limit, checked before anything is decoded; of TIFF at most the default, of
            WebP at most twice that.

    Returns:
        The pixels, grey or RGB of 8 or 16 bits; the orientation by the EXIF tag, 1 to 8, not
        applied: HEIC and JPEG XL are upright already, as their containers say; and whether there
        are more images behind this one, which nobody asks of JPEG XL.

    Raises:
        ImageError: the file is damaged, or larger than `max_pixels`.
    """
    if kind == "JPEG XL":
        return jxl.decode(data, max_pixels), 1, False
    # Of these alone Pillow's own limits cannot be passed by; of WebP since Pillow 13.
    limit = min(max_pixels, {"TIFF": MAX_PIXELS, "WebP": 2 * MAX_PIXELS}.get(kind, max_pixels))
    if kind == "WebP":  # Pillow claims the memory for it when it opens a file
        require_size(*_webp_size(data), limit)
    if kind == "JPEG 2000":  # what is decoded has the size of the codestream, whatever is around it
        at = data.find(_CODESTREAM)
        width, height = struct.unpack(">II", data[at + 8 : at + 16].ljust(8, b"\0"))
        require_size(width, height, limit)
    for across, down in _EXTENTS.findall(data) if kind == "HEIC" else ():
        require_size(int.from_bytes(across, "big"), int.from_bytes(down, "big"), limit)
    if kind == "HEIC" and not all(map(_is_text, _ITEMS.findall(data))):
        raise ImageError("broken HEIC: an item whose type or name is no text")
    if kind not in _PLUGINS:
        way = _INSTEAD.get(kind, "the Pillow here has no decoder of it; take another")
        raise ImageError(f"unsupported {kind}: {way}")
    upright = exif.turned_upright(data) if kind == "TIFF" else data
    with decoding(kind), _PLUGINS[kind](io.BytesIO(upright)) as image:
        require_size(image.width, image.height, limit)
        if isinstance(image, TiffImageFile):  # as much as a tile is decoded at a time
            width, height = (int(image.tag_v2.get(tag, 1)) for tag in _TIFF_TILE)
            require_size(width, height, limit)
        image.load()
        if image.mode in ("I", "F"):
            raise ImageError(f"unsupported {kind}: 32 bits a sample, expected 8 or 16")
        levels = levels_of(image, grey=image.mode in ("1", "L", "LA", "La"))
        if isinstance(image, TiffImageFile) and image.tag_v2.get(_PLANAR, 1) == 1:
            with TiffImageFile(io.BytesIO(upright)) as again:
                levels = with_low_bytes(levels, again)
        # Of AVIF this is what the container says.
        block = image.info.get("exif", b"") if kind in ("WebP", "AVIF") else b""
        block = block.removeprefix(exif.HEAD)
        return levels, exif.orientation_of(data if kind == "TIFF" else block), _several(image)


def _is_text(item: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return item[:4].isascii() and bool(item.decode())
    return False


def _several(image: ImageFile.ImageFile) -> bool:
    """Whether a second image follows; one that is damaged does not."""
    try:
        return bool(getattr(image, "is_animated", False))
    except PILLOW_ERRORS:
        return False


def _webp_size(data: bytes) -> tuple[int, int]:
    """Read the size from the first chunk (RFC 9649, sections 2.5 to 2.7)."""
    first, places = data[12:16], {b"VP8X": (24, 27), b"VP8L": (21, 21)}.get(data[12:16], (26, 28))
    width, height = (int.from_bytes(data[at : at + 4], "little") for at in places)
    if first == b"VP8X":
        return (width & 0xFFFFFF) + 1, (height & 0xFFFFFF) + 1
    if first == b"VP8L":
        return (width & 0x3FFF) + 1, (height >> 14 & 0x3FFF) + 1
    return width & 0x3FFF, height & 0x3FFF
