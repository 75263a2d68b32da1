"""Images that are neither JPEG nor PNG, whatever their name says: GIF, BMP, TIFF and WebP.

Pillow decodes them. The plugin classes are called directly because ``Image.open`` warns about
large images through the process-wide warnings filter, which threads cannot change safely;
`require_size` takes the place of that check.
"""

from __future__ import annotations

import io
from typing import Final

from PIL import ImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from dataprep.errors import ImageError
from dataprep.images.codecs import PILLOW_ERRORS, levels_of
from dataprep.images.pixels import Levels, require_size
from dataprep.images.recipe import MAX_PIXELS
from dataprep.images.sniff import of_tiff, tiff_upright

_PLUGINS: Final[dict[str, type[ImageFile.ImageFile]]] = {
    "GIF": GifImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "WebP": WebPImageFile,
}
_TIFF_TILE: Final = (322, 323)  # TIFF 6.0, section 15: width and height of a tile


def decode(data: bytes, kind: str, max_pixels: int) -> tuple[Levels, int, bool]:
    """Decode the (first) image; alpha is dropped, not composited.

    Grey stays grey, palettes and CMYK become RGB; 16-bit RGB keeps the high byte.

    Args:
        kind: ``GIF``, ``BMP``, ``TIFF`` or ``WebP``.
        max_pixels: the limit, checked before anything is decoded; of TIFF at most the default.

    Returns:
        The pixels, 8-bit grey or RGB, or 16-bit grey; the orientation by the EXIF tag, 1 to 8, not
        applied; and whether there are more images behind this one.

    Raises:
        ImageError: the file is damaged, or larger than `max_pixels`.
    """
    # Of TIFF alone Pillow's own limit cannot be passed by.
    limit = min(max_pixels, MAX_PIXELS) if kind == "TIFF" else max_pixels
    if kind == "WebP":  # Pillow claims the memory for it when it opens a file
        require_size(*_webp_size(data), limit)
    try:
        with _PLUGINS[kind](io.BytesIO(tiff_upright(data) if kind == "TIFF" else data)) as image:
            require_size(image.width, image.height, limit)
            if isinstance(image, TiffImageFile):  # as much as a tile is decoded at a time
                width, height = (int(image.tag_v2.get(tag, 1)) for tag in _TIFF_TILE)
                require_size(width, height, limit)
            image.load()
            if image.mode in ("I", "F"):
                raise ImageError(f"unsupported {kind}: 32 bits a sample, expected 8 or 16")
            levels = levels_of(image, grey=image.mode in ("1", "L", "LA", "La"))
            exif = image.info.get("exif", b"").removeprefix(b"Exif\0\0") if kind == "WebP" else b""
            return levels, of_tiff(data if kind == "TIFF" else exif), _several(image)
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken {kind}: {str(error) or type(error).__name__}") from error


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
