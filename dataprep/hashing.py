"""Hashing files."""

from __future__ import annotations

import hashlib
from pathlib import Path

_READ = 1 << 22  # large reads: what parallel file systems like


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_READ):
            digest.update(chunk)
    return digest.hexdigest()
