"""EXIF orientation: finding the one tag that matters, and turning pixels by it.

Pillow's ``getexif()`` is not used: it parses every tag and XMP too, warns through the
process-wide warnings filter, and on one real ImageNet file raised UnicodeDecodeError. Like
OpenCV, this reads EXIF only, not the copy of the tag that XMP can hold.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dataprep.images import jpeg
from dataprep.images.pixels import Level

_EXIF = b"Exif\0\0"
_TAG = 0x0112
_SHORT = 3


def of_jpeg(data: bytes) -> int:
    """Orientation, 1 to 8, in a JPEG's first EXIF segment; 1 if absent or unreadable."""
    for marker, start, end in jpeg.segments(data):
        if marker == jpeg.APP1 and data.startswith(_EXIF, start + 4):
            return of_tiff(data[start + 4 + len(_EXIF) : end])
    return 1


def of_tiff(block: bytes) -> int:
    """Orientation in the first directory of a TIFF block (EXIF 2.3, section 4.6.2).

    Slices behind the block's end are empty and read as zero, so no damage can raise.
    """
    order: Literal["big", "little"]
    if block.startswith(b"MM\0*"):
        order = "big"
    elif block.startswith(b"II*\0"):
        order = "little"
    else:
        return 1
    directory = int.from_bytes(block[4:8], order)
    count = int.from_bytes(block[directory : directory + 2], order)
    first = directory + 2
    for at in range(first, min(first + 12 * count, len(block)), 12):
        tag, kind = (int.from_bytes(block[at + i : at + i + 2], order) for i in (0, 2))
        if tag == _TAG and kind == _SHORT:
            value = int.from_bytes(block[at + 8 : at + 10], order)
            return value if 1 <= value <= 8 else 1
    return 1


def upright(pixels: NDArray[Level], orientation: int) -> NDArray[Level]:
    """Turn and mirror an image so that it shows upright.

    Args:
        pixels: uint8 or uint16, (height, width) or (height, width, 3).
        orientation: 1 to 8, as EXIF defines it.
    """
    if orientation == 1:
        return pixels
    if orientation >= 5:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
