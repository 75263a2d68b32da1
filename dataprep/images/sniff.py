"""What an encoded image says of itself: format, size, orientation, who; no pixel is decoded.

Pillow's ``getexif()`` is not used: it parses every tag and XMP too, warns through the
process-wide warnings filter, and on one real ImageNet file raised UnicodeDecodeError. Like
OpenCV, this reads EXIF only, not the copy of the tag that XMP can hold.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Literal, TypeAlias

from dataprep.errors import ImageError
from dataprep.images import jpeg, png

Order: TypeAlias = Literal["big", "little"]

_EXIF = b"Exif\0\0"
_BIG, _LITTLE = b"MM\0*", b"II*\0"
_ORIENTATION, _SHORT = 0x0112, 3
_MORE_TAGS, _GPS = 0x8769, 0x8825  # where the directories of EXIF's own tags and of a place are
_PLACE = {2, 4, 6}  # latitude, longitude, altitude; cameras that may not tell leave a version
# Tags that tell of people: EXIF 2.3, TIFF 6.0, and what Windows writes (XP...).
_PERSONAL = {
    "EXIF owner": {0x013B, 0x8298, 0x9C9D, 0xA430},  # Artist, Copyright, XPAuthor, CameraOwnerName
    # ImageDescription, UserComment, XPTitle, XPComment, XPKeywords, XPSubject
    "EXIF comment": {0x010E, 0x9286, 0x9C9B, 0x9C9C, 0x9C9E, 0x9C9F},
}
_TEXTS = frozenset({b"tEXt", b"zTXt", b"iTXt"})
_SEGMENTS = (
    ("XMP", jpeg.APP1, b"http://ns.adobe.com/x"),
    ("IPTC", 0xED, b"8BIM\4\4"),  # one of Photoshop's resources
    ("JPEG comment", jpeg.COM, b""),
)


def sniff(data: bytes) -> jpeg.Frame | png.Header:
    """Read the header: its format, the size, and whether it is grey.

    Raises:
        ImageError: it is neither a JPEG nor a PNG, or its header is damaged.
    """
    if data.startswith(jpeg.MAGIC):
        return jpeg.read_frame(data)
    if data.startswith(png.MAGIC):
        return png.read_header(data)
    raise ImageError(f"neither JPEG nor PNG: it begins with {data[:8]!r}")


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
    if data.startswith((_BIG, _LITTLE)):
        return "TIFF"
    raise ImageError(
        "not a JPEG, PNG, GIF, BMP, TIFF or WebP image: "
        f"{len(data)} bytes starting with {data[:12]!r}"
    )


def orientation_of(data: bytes) -> int:
    """Orientation, 1 to 8, of a JPEG or PNG; 1 if it says none, or is unreadable."""
    return of_tiff(_exif_of(data))


def metadata_of(data: bytes) -> tuple[str, ...]:
    """What a JPEG or PNG has beside pixels that its owner should know of; never the values.

    ``EXIF orientation 6`` if it is not 1, ``EXIF GPS``, ``PNG text`` and the like.
    """
    found: list[str] = []
    with suppress(ImageError):
        if data.startswith(png.MAGIC):
            chunks = png.split(data)
            found = _of_exif(chunks.exif) + ["PNG text"] * (not _TEXTS.isdisjoint(chunks.names))
        elif data.startswith(jpeg.MAGIC):
            found = _of_exif(_exif_of(data))
            for marker, start, end in jpeg.segments(data):
                body = data[start:end]
                found += [name for name, code, key in _SEGMENTS if code == marker and key in body]
    return tuple(dict.fromkeys(found))


def _exif_of(data: bytes) -> bytes:
    """The first EXIF block, in TIFF form; empty without one."""
    with suppress(ImageError):
        if data.startswith(png.MAGIC):
            return png.split(data).exif
        for marker, start, end in jpeg.segments(data) if data.startswith(jpeg.MAGIC) else ():
            if marker == jpeg.APP1 and data.startswith(_EXIF, start + 4):
                return data[start + 4 + len(_EXIF) : end]
    return b""


def of_tiff(block: bytes) -> int:
    """Orientation, 1 to 8, in the first directory of a TIFF block (EXIF 2.3, section 4.6.2)."""
    order, at = _orientation_entry(block)
    value = int.from_bytes(block[at + 8 : at + 10], order)
    short = int.from_bytes(block[at + 2 : at + 4], order) == _SHORT
    return value if at and short and 1 <= value <= 8 else 1


def tiff_upright(block: bytes) -> bytes:
    """The same TIFF block with orientation 1, if it has one: Pillow would apply another."""
    order, at = _orientation_entry(block)
    one = b"".join(number.to_bytes(size, order) for number, size in ((_SHORT, 2), (1, 4), (1, 2)))
    return block[: at + 2] + one + block[at + 10 :] if at else block


def _orientation_entry(block: bytes) -> tuple[Order, int]:
    """The byte order, and where the tag's entry is in the first directory; 0 if it is not."""
    order: Order = "big" if block.startswith(_BIG) else "little"
    return order, _directory(block, order, block[4:8]).get(_ORIENTATION, 0)


def _directory(block: bytes, order: Order, place: bytes) -> dict[int, int]:
    """Where the entry of each tag of a directory is, the first if there are several.

    Slices behind the block's end are empty and read as zero, so no damage can raise.
    """
    if not block.startswith((_BIG, _LITTLE)):
        return {}
    first = int.from_bytes(place, order) + 2
    last = first + 12 * int.from_bytes(block[first - 2 : first], order)
    places = range(first, min(last, len(block) - 11), 12)
    return {int.from_bytes(block[at : at + 2], order): at for at in reversed(places)}


def _of_exif(block: bytes) -> list[str]:
    """What an EXIF block says of turning the image, and of people and places."""
    order: Order = "big" if block.startswith(_BIG) else "little"
    tags = _directory(block, order, block[4:8])
    more, place = (
        _directory(block, order, block[tags[tag] + 8 : tags[tag] + 12]) if tag in tags else {}
        for tag in (_MORE_TAGS, _GPS)
    )
    turn, tags = of_tiff(block), more | tags
    found = [f"EXIF orientation {turn}"] * (turn != 1) + ["EXIF GPS"] * bool(_PLACE & place.keys())
    for name, wanted in _PERSONAL.items():
        if any(_says(block, order, tags[tag]) for tag in wanted & tags.keys()):
            found.append(name)
    return found


def _says(block: bytes, order: Order, at: int) -> bool:
    """Whether an entry has a value: cameras leave room for comments, filled with blanks."""
    count, place = (int.from_bytes(block[at + n : at + n + 4], order) for n in (4, 8))
    value = block[at + 8 : at + 12] if count <= 4 else block[place : place + count]
    return bool(value.removeprefix(b"ASCII").removeprefix(b"UNICODE").strip(b"\0 "))
