"""What the splits of a data set are called, however its publisher spells them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_USUAL: Final = {
    "train": "train",
    "training": "train",
    "val": "validation",
    "valid": "validation",
    "validation": "validation",
    "test": "test",
    "testing": "test",
}
_NAME: Final = re.compile(r"[a-z0-9_-]+")

SPLIT_FOLDERS: Final = ", ".join(_USUAL)
"""The names that a split's folder may have, for messages."""


USUAL_ORDER: Final = ("train", "validation", "test")
"""In which the splits are prepared and told."""


def in_usual_order(splits: Iterable[str]) -> tuple[str, ...]:
    """Names of splits: train, validation, test, then the others by name."""
    names = sorted(splits)
    usual = [split for split in USUAL_ORDER if split in names]
    return (*usual, *(split for split in names if split not in usual))


def split_of_folder(name: str) -> str:
    """The split that a folder of this name holds; empty if it is none of the usual names."""
    return _USUAL.get(name.lower(), "")


def split_name(text: str) -> str:
    """The name of a split as this project writes it: ``validation`` for ``Val``.

    Raises:
        ValueError: it has other characters than ``a-z``, ``0-9``, ``_`` and ``-``.
    """
    name = text.strip().lower()
    if not _NAME.fullmatch(name):
        raise ValueError("a split's name has the characters a-z, 0-9, _ and - only")
    return _USUAL.get(name, name)
