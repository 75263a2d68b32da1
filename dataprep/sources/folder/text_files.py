"""Tells text that no line of can be read: UTF-16, or lines that end as on old Macs."""

from __future__ import annotations

from typing import Final

from dataprep.errors import SourceError

_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


def require_lines(place: str, start: bytes) -> None:
    """Refuse a file whose bytes are not lines of a byte a letter, or of UTF-8.

    Args:
        place: what messages call it.
        start: its first line, or as much of that as is read at once.

    Raises:
        SourceError: it is UTF-16, or its lines end in CR.
    """
    if start.startswith(_UTF16_MARKS) or b"\0" in start:
        what = "UTF-16" if start.startswith(_UTF16_MARKS) else "UTF-16 or no text: it has NUL bytes"
        raise SourceError(f"{place} is {what}; expected UTF-8; save it as UTF-8")
    if b"\n" not in start and b"\r" in start.rstrip(b"\r"):
        raise SourceError(f"{place}: lines end in CR only, expected LF; save it with LF ends")


def is_utf8(text: str) -> bool:
    """Whether text was UTF-8: other bytes are decoded as in names of files (PEP 383)."""
    return text.isascii() or not any("\udc80" <= letter <= "\udcff" for letter in text)
