"""Hashing files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

_READ = 1 << 22  # large reads: what parallel file systems like


def file_sha256(path: Path, told: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file, in hex.

    Args:
        path: the file.
        told: how many bytes were read since the last call.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ):
            digest.update(chunk)
            if told is not None:
                told(len(chunk))
    return digest.hexdigest()
