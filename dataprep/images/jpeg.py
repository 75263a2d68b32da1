"""The structure of a JPEG file: its markers, read without decoding a pixel.

Markers are found the way libjpeg finds them (``next_marker`` in its ``jdmarker.c``): bytes
that belong to no segment are skipped, so that a file it tolerates is tolerated here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from dataprep.errors import ImageError

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


@dataclass(frozen=True, slots=True)
class Frame:
    """What the header promises.

    Attributes:
        height: in pixels, as is the width.
        components: 1 (grey), 3 (YCbCr or RGB) or 4 (CMYK or YCCK).
        scan: offset in bytes of the first start-of-scan marker.
    """

    format: ClassVar = "JPEG"

    height: int
    width: int
    components: int
    scan: int

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


def reaches_end(data: bytes, scan: int) -> bool:
    """Whether a decoder that reads marker by marker meets the end-of-image marker.

    A chance 0xFFD9 inside a later segment is no end: TensorFlow's decoder runs out of
    data there and fails, while Pillow lets it pass.

    Args:
        scan: offset of the first start-of-scan marker.
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
