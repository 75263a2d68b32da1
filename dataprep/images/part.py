"""A part of a JPEG, decoded without the rest, where this machine has TurboJPEG 3.

Rows below the part are not read at all; above and beside it only the Huffman codes are. simplejpeg,
by which whole pictures are decoded, cannot be asked for that (1.9.0). TurboJPEG's shared library
can since version 3: conda-forge and HPC's module trees have it as ``libjpeg-turbo``, and up to
Python 3.11 the wheel ``turbojpeg`` carries it. The pixels are those of the whole picture, and
damage is found where it is seen.

https://libjpeg-turbo.org/pmwiki/uploads/Documentation/turbojpeg3.pdf
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_void_p
from functools import cache
from importlib import metadata
from typing import Any, Final, Literal

import numpy as np

from dataprep.images.pixels import Pixels

_SONAME: Final = "libturbojpeg.so.0"  # since version 1.2; which one it is its functions tell
_DECOMPRESS: Final = 1  # TJINIT_DECOMPRESS
_STOP_ON_WARNING, _SUBSAMPLING, _WIDTH, _HEIGHT = 0, 4, 5, 6  # TJPARAM_
_RGBX, _GRAY = 2, 6  # TJPF_
# Width of a block of all components together, by TJSAMP_: 4:4:4, 4:2:2, 4:2:0, grey, 4:4:0, 4:1:1,
# 4:4:1. A part begins at the left of one.
_BLOCK: Final = (8, 16, 16, 8, 8, 32, 8)
_MARGIN: Final = 2  # colour that is stored for two pixels is drawn from its neighbours', too

Scale = Literal[1, 2, 4, 8]
"""A picture is decoded to 1/scale, which libjpeg does in the inverse DCT."""


class _Region(ctypes.Structure):
    _fields_ = [(name, c_int) for name in ("x", "y", "w", "h")]


class _Scale(ctypes.Structure):
    _fields_ = [("numerator", c_int), ("denominator", c_int)]


_SIGNATURES: Final = {
    "tj3Init": (c_void_p, c_int),
    "tj3Destroy": (None, c_void_p),
    "tj3Set": (c_int, c_void_p, c_int, c_int),
    "tj3Get": (c_int, c_void_p, c_int),
    "tj3DecompressHeader": (c_int, c_void_p, c_char_p, c_size_t),
    "tj3SetScalingFactor": (c_int, c_void_p, _Scale),
    "tj3SetCroppingRegion": (c_int, c_void_p, _Region),
    "tj3Decompress8": (c_int, c_void_p, c_char_p, c_size_t, POINTER(c_ubyte), c_int, c_int),
}


@cache
def _library() -> tuple[Any, Any] | None:
    """The library, called with the GIL (what takes a microsecond) and without it; None without."""
    for path in (_SONAME, *_carried()):
        try:
            both = ctypes.PyDLL(path), ctypes.CDLL(path)
            for one in both:
                for name, (result, *arguments) in _SIGNATURES.items():
                    function = getattr(one, name)
                    function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):  # none, or an older one
            continue
        return both
    return None


def _carried() -> list[str]:
    """Where the wheel ``turbojpeg`` has the library."""
    try:
        files = metadata.files("turbojpeg") or []
    except metadata.PackageNotFoundError:
        return []
    return [str(it.locate()) for it in files if it.name.startswith("libturbojpeg")]


class _Decompressor:
    """TurboJPEG's own object, which one thread uses at a time."""

    def __init__(self, library: Any) -> None:
        self._destroy = library.tj3Destroy
        self.handle = library.tj3Init(_DECOMPRESS)
        library.tj3Set(self.handle, _STOP_ON_WARNING, 1)

    def __del__(self) -> None:
        self._destroy(self.handle)


_OF_THREAD = threading.local()


def decode_part(
    data: bytes,
    space: Literal["GRAY", "RGB"],
    scale: Scale,
    box: tuple[int, int, int, int],
) -> tuple[Pixels, tuple[int, int]] | None:
    """Decode the part of a JPEG, scaled down as libjpeg does, that has a box in it.

    Args:
        data: a JPEG of a colour space that libjpeg-turbo turns to `space`.
        scale: the picture is decoded to 1/scale, sides rounded up.
        box: left, top, right and bottom, in pixels of the scaled picture.

    Returns:
        Pixels, (height, width) or (height, width, 3), of the box and what is left of it in its
        block; and left and top of that. None if there is no TurboJPEG 3, or it has no name for how
        the colour is stored.

    Raises:
        ValueError: it is damaged.
    """
    library = _library()
    if library is None:
        return None
    quick, free = library
    try:
        handle = _OF_THREAD.decompressor.handle
    except AttributeError:
        _OF_THREAD.decompressor = _Decompressor(quick)
        handle = _OF_THREAD.decompressor.handle
    if quick.tj3DecompressHeader(handle, data, len(data)):
        raise _damaged("its header is damaged")
    subsampling, width, height = (
        quick.tj3Get(handle, it) for it in (_SUBSAMPLING, _WIDTH, _HEIGHT)
    )
    if not 0 <= subsampling < len(_BLOCK):
        return None
    block = _BLOCK[subsampling] // scale
    left = max(box[0] - _MARGIN, 0) // block * block
    top = max(box[1], 0)
    right = min(box[2] + _MARGIN, -(-width // scale))
    bottom = min(box[3], -(-height // scale))
    wide, high = right - left, bottom - top
    quick.tj3SetScalingFactor(handle, _Scale(1, scale))
    if quick.tj3SetCroppingRegion(handle, _Region(left, top, wide, high)):
        return None
    whole = np.empty((high, wide) if space == "GRAY" else (high, wide, 4), np.uint8)
    place = whole.ctypes.data_as(POINTER(c_ubyte))
    wanted = _GRAY if space == "GRAY" else _RGBX
    if free.tj3Decompress8(handle, data, len(data), place, 0, wanted):
        raise _damaged("it is damaged")
    return (whole if space == "GRAY" else whole[:, :, :3]), (left, top)


def _damaged(text: str) -> ValueError:
    # After a damaged header 2.1.92 goes on in the middle of it with the next picture.
    del _OF_THREAD.decompressor
    return ValueError(text)
