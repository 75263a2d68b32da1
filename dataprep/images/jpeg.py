"""JPEG files: their markers, read as libjpeg finds them; decoding by two decoders, and encoding.

libjpeg-turbo through simplejpeg is fast, runs without the GIL and names the first thing it
dislikes, but it stops at mere warnings that TensorFlow, Pillow and every published ImageNet
pipeline live with. So whatever it dislikes is given to Pillow, whose libjpeg decides; and
what Pillow lets pass though its data ran out (TensorFlow does not) is refused as well.

Bytes between two segments are skipped (``next_marker`` in libjpeg's ``jdmarker.c``), so that a file
that libjpeg tolerates is tolerated here.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, cast

import numpy as np

# It ships stubs for its extension module but no py.typed, so type checkers may not use them.
import simplejpeg  # type: ignore[import-untyped]
from PIL.JpegImagePlugin import JpegImageFile

from dataprep.errors import ImageError
from dataprep.images import exif
from dataprep.images.fingerprint import SMALLEST, small_grey
from dataprep.images.pillow import decoding, levels_of
from dataprep.images.pixels import Pixels, padded
from dataprep.recipe import MAX_SIDE

MAGIC = b"\xff\xd8\xff"
APP0, APP1, APP14, COM = 0xE0, 0xE1, 0xEE, 0xFE

_SOI, _EOI, _SOS = 0xD8, 0xD9, 0xDA
# Markers without a length: stuffed zero, TEM and the restart markers.
_BARE = frozenset({0x00, 0x01, *range(0xD0, 0xD8)})
_PARTS = frozenset(range(0xFF)) - _BARE - {_SOI, _EOI}  # markers with a length and data
_MARKER = struct.Struct(">BH")  # code and length, which includes its own two bytes
# Start-of-frame markers (C4, C8 and CC in between mean something else).
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_READABLE = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})  # sequential, progressive; both codings
_PROGRESSIVE = frozenset({0xC2, 0xCA})
_SCAN = b"\xff\xda"  # never in coded data, where a zero follows each 0xFF
_MOST_SCANS = 100  # libjpeg writes 10, jpegrescan's and mozjpeg's searches up to 64
# What can follow a scan, with reserved codes left out: resynchronising to a restart marker
# skips those, and elsewhere the decoder refuses them.
_AFTER_SCAN = re.compile(rb"\xff[\xc0-\xcf\xd8-\xfe]")
_ROWS: Final = 64
_OUT_OF_DATA = "Premature end of JPEG file"  # libjpeg's JWRN_JPEG_EOF
# What the TurboJPEG interface cannot do though libjpeg can: unusual sampling factors.
_LIMITS = ("Could not determine subsampling level", "Unsupported color conversion request")


@dataclass(frozen=True, slots=True)
class Frame:
    """What the header promises."""

    format: ClassVar = "JPEG"

    height: int  # in pixels, as is the width
    width: int
    components: int  # 1 (grey), 3 (YCbCr or RGB) or 4 (CMYK or YCCK)
    scan: int  # offset in bytes of the first start-of-scan marker

    @property
    def grey(self) -> bool:
        """Whether it has luma only."""
        return self.components == 1


def segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Walk the header up to and including the first start-of-scan segment.

    Yields:
        The marker's code, the offset of its 0xFF, and the offset behind its segment.

    Raises:
        ImageError: the header is cut short, or has a marker no header can have.
    """
    at = 2
    while 0 <= (at := data.find(b"\xff", at)) <= len(data) - 4:
        marker, size = _MARKER.unpack_from(data, at + 1)
        if marker in _PARTS:
            end = at + 2 + size
            if size < 2 or end > len(data):
                break
            yield marker, at, end
            if marker == _SOS:
                return
            at = end
        elif marker in (_SOI, _EOI):
            raise ImageError(f"broken JPEG: marker 0xff{marker:02x} inside the header")
        else:
            at += 1 if marker == 0xFF else 2
    raise ImageError(f"broken JPEG: no image data in its {len(data)} bytes, the header is cut off")


def read_frame(data: bytes) -> Frame:
    """Read sizes and number of components, and look for the end marker.

    Raises:
        ImageError: the header is broken or of a kind no reader of the data set could
            decode, or no end-of-image marker follows it.
    """
    frame: tuple[int, int, int] | None = None
    progressive = False
    for marker, start, end in segments(data):
        if marker in _FRAMES:
            frame, progressive = _frame(data, marker, start, end), marker in _PROGRESSIVE
        elif marker == _SOS:
            if frame is None:
                raise ImageError("broken JPEG: image data before the frame header")
            # Where the first scan is all there is, decoders look for no other.
            several = data[start + 4] < frame[2] or progressive
            if several and (scans := data.count(_SCAN, start)) > _MOST_SCANS:
                raise ImageError(
                    f"unsupported JPEG: {scans} scans, at most {_MOST_SCANS} allowed: each takes "
                    "as long as an image"
                )
            # A thumbnail in the header has its own end marker: look behind the header only.
            if data.rfind(b"\xff\xd9", end) < 0:
                raise ImageError(
                    f"truncated JPEG: {len(data)} bytes without an end-of-image marker"
                )
            return Frame(*frame, scan=start)
    raise AssertionError("segments() ends with a scan or an error")


def _reaches_end(data: bytes, scan: int) -> bool:
    """Whether a decoder that reads marker by marker meets the end-of-image marker.

    A chance 0xFFD9 inside a later segment is no end: TensorFlow's decoder runs out of
    data there and fails, while Pillow lets it pass.
    """
    at = scan
    while match := _AFTER_SCAN.search(data, at):
        if data[match.start() + 1] == _EOI:
            return True
        at = match.end() + max(2, _number(data, match.end()))
    return False


def without_metadata(data: bytes) -> bytes:
    """The same image without comments, EXIF, XMP, ICC and other application data.

    JFIF and Adobe segments stay, because they say which colour space the pixels are in.
    Damaged metadata then cannot disturb, or slow, a decoder that would parse it.
    """
    parts = [data[:2]]
    for marker, start, end in segments(data):
        if marker == _SOS:
            parts.append(data[start:])
        elif marker != COM and (marker in (APP0, APP14) or not 0xE0 <= marker <= 0xEF):
            parts.append(data[start:end])
    return b"".join(parts)


def stripped(data: bytes, orientation: int) -> bytes:
    """The same image, its coded data untouched, without whatever may tell of people.

    Of application data JFIF's, Adobe's and colour profiles stay, and of EXIF the orientation;
    comments go, thumbnails, and what lies behind the end of the image.

    Args:
        orientation: that EXIF says, 1 to 8.
    """
    parts = [data[:2]]
    at = 2
    for marker, start, at in segments(data):
        if _tells_nobody(data, marker, start):
            parts.append(data[start:at])
    while match := _AFTER_SCAN.search(data, at):  # more scans, and what may be between them
        start = match.start()
        parts.append(data[at:start])
        if data[start + 1] == _EOI:
            parts.append(data[start : start + 2])
            break
        at = start + 2 + max(2, _number(data, start + 2))
        if _tells_nobody(data, data[start + 1], start):
            parts.append(data[start:at])
    else:
        parts.append(data[at:])
    if orientation != 1:
        block = exif.HEAD + exif.only_orientation(orientation)
        behind_jfif = 2 if parts[1][1] == APP0 else 1
        parts.insert(behind_jfif, b"\xff\xe1" + (len(block) + 2).to_bytes(2, "big") + block)
    return b"".join(parts)


def _tells_nobody(data: bytes, marker: int, start: int) -> bool:
    if not 0xE0 <= marker <= 0xEF:
        return marker != COM
    kept = {APP0: b"JFIF\0", APP14: b"Adobe", 0xE2: b"ICC_PROFILE\0"}.get(marker)
    return kept is not None and data.startswith(kept, start + 4)


def _frame(data: bytes, marker: int, start: int, end: int) -> tuple[int, int, int]:
    if marker not in _READABLE:
        raise ImageError(f"unsupported JPEG: lossless or hierarchical coding (0xff{marker:02x})")
    if end - start < 10:
        raise ImageError("broken JPEG: its frame header is too short")
    precision, components = data[start + 4], data[start + 9]
    height, width = _number(data, start + 5), _number(data, start + 7)
    if precision != 8:
        raise ImageError(f"unsupported JPEG: {precision} bits per sample, expected 8")
    if height == 0 or width == 0:
        raise ImageError(f"broken JPEG: {width}x{height} pixels")
    if components not in (1, 3, 4):
        raise ImageError(f"unsupported JPEG: {components} components, expected 1, 3 or 4")
    return height, width, components


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


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
    """
    if words == _OUT_OF_DATA or not _reaches_end(data, frame.scan):
        raise ImageError(f"truncated JPEG: {words}")
    pixels = decode_with_pillow(data, frame)
    return pixels, None if any(limit in words for limit in _LIMITS) else words


def decode_with_pillow(data: bytes, frame: Frame) -> Pixels:
    """Decode at full scale with the reference decoder; CMYK and YCCK become RGB.

    Raises:
        ImageError: Pillow refuses the image, or finds another size than the header's.
    """
    with decoding("JPEG"), JpegImageFile(io.BytesIO(without_metadata(data))) as image:
        if image.size != (frame.width, frame.height):
            raise ImageError(f"broken JPEG: two sizes, {image.size} in its second header")
        if image.mode == "CMYK":
            return _rgb_of_inks(np.asarray(image), adobe="adobe" in image.info)
        return levels_of(image, grey=image.mode == "L")


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


def plain_space(data: bytes, channels: int) -> Literal["GRAY", "RGB", ""]:
    """What `decode_packed` may decode to for what Pillow would give; empty if Pillow must decode.

    Of CMYK, and of grey wanted of colour, Pillow has an opinion of its own.

    Args:
        channels: that are wanted, 3 or 1.

    Raises:
        ValueError: the header is damaged.
    """
    _, _, space, _ = simplejpeg.decode_jpeg_header(data)
    if channels == 1:
        return "GRAY" if space == "Gray" else ""
    return "RGB" if space in ("Gray", "YCbCr", "RGB") else ""


def decode_packed(
    data: bytes, space: Literal["GRAY", "RGB"], place: Pixels | None = None
) -> Pixels:
    """As `fast_decode`, but into C order without spare bytes.

    Args:
        place: where to, of the image's size and in C order; None for new memory.
    """
    decoded = simplejpeg.decode_jpeg(data, space, strict=True, buffer=place)
    return cast(Pixels, decoded[:, :, 0] if space == "GRAY" else decoded)


def fast_scan(data: bytes) -> Pixels:
    """Run the whole entropy decoder, making a grey image at 1/8 scale or of 16 pixels.

    The parts that cost the most, full inverse DCT, upsampling and colour conversion, are
    all left out. Errors are those of `fast_decode`.
    """
    smallest = {"min_height": SMALLEST, "min_width": SMALLEST}
    quick = {"fastdct": True, "fastupsample": True, **smallest}
    return cast(Pixels, simplejpeg.decode_jpeg(data, "GRAY", strict=True, **quick)[:, :, 0])


def encode(pixels: Pixels, quality: int, chroma: str) -> bytes:
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
