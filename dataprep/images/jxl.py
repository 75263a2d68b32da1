"""JPEG XL (ISO/IEC 18181), which imagecodecs decodes: the extra ``jxl``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from dataprep.errors import ImageError
from dataprep.images.pixels import Levels, require_size

_CODESTREAM, _BOXES = b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"
MAGIC: Final = (_CODESTREAM, _BOXES)
# Width by height, by the number that stands for it in a header.
_RATIOS: Final = ((0, 1), (1, 1), (12, 10), (4, 3), (3, 2), (16, 9), (5, 4), (2, 1))
_BITS: Final = (9, 13, 18, 30)  # of a side, by the number before it
_HEADER: Final = 16  # bytes, of which the size needs 10 at most


def decode(data: bytes, max_pixels: int) -> Levels:
    """Decode the (first) image, upright as its header says; EXIF has no say (18181-2, B.4).

    Returns:
        Grey or RGB, of 8 bits or of 16; alpha is dropped.

    Raises:
        ImageError: the file is damaged, larger than `max_pixels`, or of floating point; or the
            extra is not installed.
    """
    require_size(*_size(_start(data)), max_pixels)
    try:
        import imagecodecs
    except ModuleNotFoundError as error:
        raise ImageError(
            "unsupported JPEG XL: its decoder is missing; pip install 'dataprep-shards[jxl]'"
        ) from error
    try:
        found = imagecodecs.jpegxl_decode(data, index=0, numthreads=1)
    except (RuntimeError, ValueError, IndexError) as error:
        raise ImageError(f"broken JPEG XL: {error}") from error
    if found.dtype not in (np.uint8, np.uint16):
        raise ImageError(f"unsupported JPEG XL: {found.dtype} samples, expected 8 or 16 bits")
    grey = found.ndim == 2 or found.shape[2] < 3
    if not grey:
        return np.ascontiguousarray(found[:, :, :3])
    return found if found.ndim == 2 else np.ascontiguousarray(found[:, :, 0])


def _start(data: bytes) -> bytes:
    """The first bytes of the codestream."""
    if data.startswith(_CODESTREAM):
        return data[:_HEADER]
    found = b""
    for kind, start, end in _boxes(data):
        if kind in (b"jxlc", b"jxlp"):  # whole, or a part behind its number
            found += data[start + 4 * (kind == b"jxlp") : end][:_HEADER]
        if len(found) >= _HEADER:
            break
    return found[:_HEADER]


def _boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The kind of each box, and where its content starts and ends."""
    at = 0
    while at + 8 <= len(data):
        size, start = int.from_bytes(data[at : at + 4], "big"), at + 8
        if size == 1:
            size, start = int.from_bytes(data[at + 8 : at + 16], "big"), at + 16
        end = at + size if size else len(data)
        if end < start:
            return
        yield data[at + 4 : at + 8], start, end
        at = end


def _size(start: bytes) -> tuple[int, int]:
    """Width and height, not turned (18181-1, SizeHeader): numbers of bits, the lowest first."""
    rest = int.from_bytes(start[len(_CODESTREAM) :].ljust(_HEADER, b"\0"), "little")

    def read(bits: int) -> int:
        nonlocal rest
        value, rest = rest & ((1 << bits) - 1), rest >> bits
        return value

    if not start.startswith(_CODESTREAM) or len(start) < len(_CODESTREAM) + 1:
        raise ImageError(f"broken JPEG XL: no codestream, or {len(start)} bytes of one")
    small = read(1)
    height = 8 * (read(5) + 1) if small else read(_BITS[read(2)]) + 1
    times, by = _RATIOS[read(3)]
    if times:
        return height * times // by, height
    return (8 * (read(5) + 1) if small else read(_BITS[read(2)]) + 1), height
