"""EXIF: how an image is to be turned, and whether it tells of people and places.

Pillow's ``getexif()`` is not used: it parses every tag and XMP too, warns through the
process-wide warnings filter, and on one real ImageNet file raised UnicodeDecodeError. Like
OpenCV, this reads EXIF only, not the copy of the tag that XMP can hold.
"""

from __future__ import annotations

import struct
from typing import Literal, TypeAlias

Order: TypeAlias = Literal["big", "little"]

BIG, LITTLE = b"MM\0*", b"II*\0"  # how a TIFF block, and a TIFF file, begins in either byte order
HEAD = b"Exif\0\0"  # what comes before the TIFF block in a JPEG
_ORIENTATION, _SHORT = 0x0112, 3
_MORE_TAGS, _GPS = 0x8769, 0x8825  # where the directories of EXIF's own tags and of a place are
_PLACE = {2, 4, 6}  # latitude, longitude, altitude; cameras that may not tell leave a version
# Tags that tell of people: EXIF 2.3, TIFF 6.0, and what Windows writes (XP...).
_PERSONAL = {
    "EXIF owner": {0x013B, 0x8298, 0x9C9D, 0xA430},  # Artist, Copyright, XPAuthor, CameraOwnerName
    # ImageDescription, UserComment, XPTitle, XPComment, XPKeywords, XPSubject
    "EXIF comment": {0x010E, 0x9286, 0x9C9B, 0x9C9C, 0x9C9E, 0x9C9F},
}


def orientation_of(block: bytes) -> int:
    """Orientation, 1 to 8, in the first directory of a TIFF block (EXIF 2.3, section 4.6.2)."""
    order, at = _orientation_entry(block)
    value = int.from_bytes(block[at + 8 : at + 10], order)
    short = int.from_bytes(block[at + 2 : at + 4], order) == _SHORT
    return value if at and short and 1 <= value <= 8 else 1


def has_orientation(block: bytes) -> bool:
    """Whether a TIFF block says any, also 1."""
    return _orientation_entry(block)[1] > 0


def turned_upright(block: bytes) -> bytes:
    """The same TIFF block with orientation 1, if it has one: Pillow would apply another."""
    order, at = _orientation_entry(block)
    one = b"".join(number.to_bytes(size, order) for number, size in ((_SHORT, 2), (1, 4), (1, 2)))
    return block[: at + 2] + one + block[at + 10 :] if at else block


def only_orientation(orientation: int) -> bytes:
    """A TIFF block that says nothing else."""
    entry = struct.pack("<HHIHH", _ORIENTATION, _SHORT, 1, orientation, 0)
    return LITTLE + struct.pack("<IH", 8, 1) + entry + bytes(4)


def _orientation_entry(block: bytes) -> tuple[Order, int]:
    """The byte order, and where the tag's entry is in the first directory; 0 if it is not."""
    order: Order = "big" if block.startswith(BIG) else "little"
    return order, _directory(block, order, block[4:8]).get(_ORIENTATION, 0)


def _directory(block: bytes, order: Order, place: bytes) -> dict[int, int]:
    """Where the entry of each tag of a directory is, the first if there are several.

    Slices behind the block's end are empty and read as zero, so no damage can raise.
    """
    if not block.startswith((BIG, LITTLE)):
        return {}
    first = int.from_bytes(place, order) + 2
    last = first + 12 * int.from_bytes(block[first - 2 : first], order)
    places = range(first, min(last, len(block) - 11), 12)
    return {int.from_bytes(block[at : at + 2], order): at for at in reversed(places)}


def traits_of(block: bytes) -> list[str]:
    """What an EXIF block says of turning the image, and of people and places."""
    order: Order = "big" if block.startswith(BIG) else "little"
    tags = _directory(block, order, block[4:8])
    more, place = (
        _directory(block, order, block[tags[tag] + 8 : tags[tag] + 12]) if tag in tags else {}
        for tag in (_MORE_TAGS, _GPS)
    )
    turn, tags = orientation_of(block), more | tags
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
