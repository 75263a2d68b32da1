"""Decoding and encoding: JPEG by libjpeg-turbo, with Pillow for the verdict, and PNG by Pillow.

libjpeg-turbo through simplejpeg is fast, runs without the GIL and names the first thing it
dislikes, but it stops at mere warnings that TensorFlow, Pillow and every published ImageNet
pipeline live with. So whatever it dislikes is given to Pillow, whose libjpeg decides; and
what Pillow lets pass though its data ran out (TensorFlow does not) is refused as well.
"""

from __future__ import annotations

import io
import struct
import zlib
from importlib.metadata import version
from typing import Final, Literal, cast

import numpy as np

# It ships stubs for its extension module but no py.typed, so type checkers may not use them.
import simplejpeg  # type: ignore[import-untyped]
from numpy.typing import NDArray
from PIL import Image, features
from PIL.JpegImagePlugin import JpegImageFile

from dataprep.errors import ImageError
from dataprep.images import jpeg
from dataprep.images.fingerprint import SMALLEST, small_grey
from dataprep.images.jpeg import Frame
from dataprep.images.pixels import Level, Levels, Pixels, packed, padded, resampler
from dataprep.images.recipe import MAX_SIDE

# What Pillow raises for damaged bytes, by fuzzing and by its own ImageFile. A UnicodeDecodeError is
# a ValueError. MemoryError is not among them: sizes are fenced first, so it tells of the machine.
PILLOW_ERRORS: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, OverflowError, TypeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
    Warning,  # only where the user makes errors of them
)
_ROWS: Final = 64
_OUT_OF_DATA = "Premature end of JPEG file"  # libjpeg's JWRN_JPEG_EOF
# What the TurboJPEG interface cannot do though libjpeg can: unusual sampling factors.
_LIMITS = ("Could not determine subsampling level", "Unsupported color conversion request")
# Measured on radiographs of 250 x 250: zlib's default, 6, takes 2.2 times as long for 2 % less.
_PNG_LEVEL = 4


def check_bitstream(data: bytes, frame: Frame) -> tuple[Pixels, str | None]:
    """Judge a JPEG by running its whole entropy decoder at 1/8 scale.

    Returns:
        A small grey version of the image, and the decoder's warning if there is one that does not
        make the image unusable.

    Raises:
        ImageError: TensorFlow or Pillow would refuse the image.
    """
    try:
        return fast_scan(data), None
    except ValueError as error:
        found, warning = _second_opinion(data, frame, str(error))
        return small_grey(found), warning


def decode(data: bytes, frame: Frame, *, grey: bool) -> tuple[Pixels, str | None]:
    """Decode at full scale with libjpeg's accurate DCT and smooth chroma upsampling.

    The pixels, CMYK's and YCCK's too, are exactly those of TensorFlow's ``decode_jpeg`` with
    ``dct_method="INTEGER_ACCURATE"``; its default, the fast DCT, is off by up to 12 levels.

    Args:
        grey: whether luma is enough; RGB may still come back.

    Returns:
        The pixels, and the decoder's warning if there is one.

    Raises:
        ImageError: the image is unusable.
    """
    if frame.components == 4:
        _, warning = check_bitstream(data, frame)
        return decode_with_pillow(data, frame), warning
    try:
        return fast_decode(data, "GRAY" if grey or frame.components == 1 else "RGB"), None
    except ValueError as error:
        return _second_opinion(data, frame, str(error))


def _second_opinion(data: bytes, frame: Frame, words: str) -> tuple[Pixels, str | None]:
    """The pixels of a JPEG that the fast decoder complains about, and its words if they count.

    They do not if they tell of the fast decoder and not of the image.

    Raises:
        ImageError: the image is unusable.
    """
    if words == _OUT_OF_DATA or not jpeg.reaches_end(data, frame.scan):
        raise ImageError(f"truncated JPEG: {words}")
    pixels = decode_with_pillow(data, frame)
    return pixels, None if any(limit in words for limit in _LIMITS) else words


def decode_with_pillow(data: bytes, frame: Frame) -> Pixels:
    """Decode at full scale with the reference decoder; CMYK and YCCK become RGB.

    Raises:
        ImageError: Pillow refuses the image, or finds another size than the header's.
    """
    try:
        with JpegImageFile(io.BytesIO(jpeg.without_metadata(data))) as image:
            if image.size != (frame.width, frame.height):
                raise ImageError(f"broken JPEG: two sizes, {image.size} in its second header")
            if image.mode == "CMYK":
                return _rgb_of_inks(np.asarray(image), adobe="adobe" in image.info)
            return np.asarray(image.convert("L" if image.mode == "L" else "RGB"))
    except PILLOW_ERRORS as error:
        raise ImageError(f"broken JPEG: {str(error) or type(error).__name__}") from error


def _rgb_of_inks(inks: Pixels, *, adobe: bool) -> Pixels:
    """RGB from CMYK as TensorFlow's decoder does it: light let through, times black, rounded down.

    Pillow takes every file for one of Adobe's, which store light and not ink.
    """
    found = np.empty((*inks.shape[:2], 3), np.uint8)
    for top in range(0, len(inks), _ROWS):  # in 16 bits all at once needs four times the memory
        some = inks[top : top + _ROWS]
        wide = (255 - some if adobe else some).astype(np.uint16)
        found[top : top + _ROWS] = wide[..., :3] * wide[..., 3:] // 255
    return found


def fast_decode(data: bytes, space: Literal["GRAY", "RGB"]) -> Pixels:
    """Decode at full scale with libjpeg's accurate DCT and smooth chroma upsampling.

    Args:
        space: what to decode to; colour to ``GRAY`` gives luma.

    Returns:
        The pixels; RGB is `padded`.

    Raises:
        ValueError: the data is damaged, or the decoder warns; its first words.
    """
    decoded = simplejpeg.decode_jpeg(data, "GRAY" if space == "GRAY" else "RGBX", strict=True)
    return cast(Pixels, decoded[:, :, 0] if space == "GRAY" else decoded[:, :, :3])


def fast_scan(data: bytes) -> Pixels:
    """Run the whole entropy decoder, making a grey image at 1/8 scale or of 16 pixels.

    The parts that cost the most, full inverse DCT, upsampling and colour conversion, are
    all left out. Errors are those of `fast_decode`.
    """
    smallest = {"min_height": SMALLEST, "min_width": SMALLEST}
    quick = {"fastdct": True, "fastupsample": True, **smallest}
    return cast(Pixels, simplejpeg.decode_jpeg(data, "GRAY", strict=True, **quick)[:, :, 0])


def levels_of(image: Image.Image, *, grey: bool) -> Levels:
    """What Pillow decoded, as grey (16 bits stay) or RGB; alpha is dropped, palettes looked up."""
    image.info.pop("transparency", None)  # with it, convert() may warn
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.uint16)
    mode = "L" if grey else "RGB"
    return np.asarray(image if image.mode == mode else image.convert(mode))  # it copies if alike


def to_jpeg(pixels: Pixels, quality: int, chroma: str) -> bytes:
    """Encode as baseline JPEG without metadata; grey stays one component.

    Args:
        pixels: uint8, (height, width) or (height, width, 3).
        quality: 1 to 100.
        chroma: subsampling of the colour planes, ``420`` or ``444``.

    Raises:
        ImageError: a side is longer than a JPEG can have.
    """
    height, width = pixels.shape[:2]
    if max(height, width) > MAX_SIDE:
        raise ImageError(f"{width}x{height} pixels: a side of a JPEG has at most {MAX_SIDE}")
    whole, space = padded(pixels), "RGBX"
    if whole is None:
        whole, space = np.ascontiguousarray(pixels), "RGB"
    if pixels.ndim == 2:
        whole, space, chroma = whole[:, :, np.newaxis], "GRAY", "Gray"
    return cast(bytes, simplejpeg.encode_jpeg(whole, quality, space, chroma))


def to_png(pixels: NDArray[Level]) -> bytes:
    """Encode as 8-bit grey or RGB PNG, or 16-bit grey, without metadata."""
    buffer = io.BytesIO()
    Image.fromarray(packed(pixels)).save(buffer, "PNG", compress_level=_PNG_LEVEL)
    return buffer.getvalue()


def codec_versions() -> dict[str, str]:
    """Versions of everything that can change re-encoded bytes.

    simplejpeg carries a libjpeg-turbo of its own, fixed by simplejpeg's version;
    ``libjpeg`` is the one that Pillow decodes CMYK images with.
    """
    # Asking Pillow for a feature it does not know is a warning; older ones know no zlib-ng.
    zlib_ng = features.version("zlib_ng") if "zlib_ng" in features.features else None
    turbo = features.version("libjpeg_turbo")
    return {
        "pillow": version("pillow"),
        "libjpeg": f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}",
        "simplejpeg": version("simplejpeg"),
        "zlib": f"zlib-ng {zlib_ng}" if zlib_ng else f"zlib {features.version('zlib')}",
        "resampler": resampler(),
        "webp": str(features.version("webp")),
    }
