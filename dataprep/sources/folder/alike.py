"""Finds classes that look the same: macOS writes é as two characters, other systems as one."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import normalize

from dataprep.errors import SourceError


def require_distinct(names: Iterable[str]) -> None:
    """Refuse names that are one name in two Unicode spellings.

    Raises:
        SourceError: two are the same in normal form NFC.
    """
    seen: dict[str, str] = {}
    for name in sorted(name for name in names if not name.isascii()):
        other = seen.setdefault(normalize("NFC", name), name)
        if other != name:
            raise SourceError(
                f"two classes have the same name in two Unicode spellings, {other!a} and "
                f"{name!a}; expected one; rename one, or what belongs to it, as the other "
                "(macOS writes NFD, other systems NFC)"
            )
