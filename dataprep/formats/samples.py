"""What others have packed with its labels: a sample is an image, in place, and fields beside it."""

from __future__ import annotations

import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from dataprep.archives.listing import StoredImage
from dataprep.archives.open_files import ByteStream, FileRange, OpenFile, open_container
from dataprep.archives.packed import Copy, Unpacked, UnpackError
from dataprep.archives.tar import AGAIN
from dataprep.errors import SinkError, SourceError
from dataprep.rows import Packing
from dataprep.system.messages import printable, unreadable

# Of a field: a number, text, a list of either, or nothing; or nested, such as boxes.
Value = int | float | str | list[Any] | dict[str, Any] | None
HEAD: Final = 32  # bytes by which an image is known
LONGEST: Final = 1 << 20  # bytes of a field that is read, other than an image
_IMAGE: Final = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n|GIF8|RIFF....WEBP|BM....\0\0\0\0|II\*\0|MM\0\*|\0\0\0\x0cjP  "
    rb"|\xff\x4f\xff\x51|....ftyp(avif|avis|heic|heix|mif1)|\xff\x0a|\0\0\0\x0cJXL ",
    re.DOTALL,
)

_MOST_BITS: Final = 70  # of a number of 64 in bytes of 7
# What parsing of damaged bytes lets through: of numbers, text, JSON, protocol buffers, and Arrow's.
_DAMAGE: Final = (
    *(ValueError, LookupError, ArithmeticError, EOFError, struct.error, DecodeError),
    *(NotImplementedError, TypeError, RecursionError, UnpackError),
)


class Sample(NamedTuple):
    """An example as somebody else has packed it."""

    key: str  # what its container calls it; empty if it does not
    images: dict[str, StoredImage]  # by the name of the field
    fields: dict[str, Value]  # everything else that could be read, by name
    unread: list[str]  # what could not: it is longer, or damaged

    def lacks(self, field: str) -> bool:
        """Whether a field, or what it is in, could not be read."""
        return any(f"{field}.".startswith(f"{name}.") for name in self.unread)


def is_nested(value: object) -> bool:
    """Whether a value is no number, text or list of them, but boxes or the like."""
    inner = value if isinstance(value, list) else [value]
    return any(isinstance(each, (dict, list)) for each in inner)


def is_image(head: bytes) -> bool:
    """Whether bytes, of which these are the first, are an image file."""
    return _IMAGE.match(head) is not None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 7 bits a byte, the lowest first, and where it ends.

    Raises:
        IndexError: the data ends within it.
        ValueError: it has more than 64 bits.
    """
    value = shift = 0
    while shift < _MOST_BITS:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise ValueError("a number without an end")


@contextmanager
def opened(raw: Path, container: str, kind: str) -> Iterator[OpenFile]:
    """Open a container, and say in one line what is wrong with it.

    Raises:
        SourceError: it cannot be read, or what is in it is no `kind`.
    """
    try:
        yield open_container(raw, container, ahead=True)
    except OSError as error:
        raise unreadable(container, error) from error
    except (SinkError, *_DAMAGE) as error:
        reason = printable(str(error)) or type(error).__name__
        raise SourceError(
            f"{printable(container)} is damaged or truncated, or no {kind}: {reason}; {AGAIN}"
        ) from error


@contextmanager
def streamed(
    raw: Path, container: str, kind: str, copy: Copy | None
) -> Iterator[tuple[OpenFile, ByteStream, Packing]]:
    """The same, with what is in it, or is unpacked to a copy, and how its images are read."""
    with opened(raw, container, kind) as file:
        if copy is None:
            yield file, FileRange(file, 0, file.size), ()
            return
        stream = Unpacked(file, copy)
        yield file, stream, ("copy", copy.name)
        stream.reach(sys.maxsize)
