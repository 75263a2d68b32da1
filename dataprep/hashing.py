"""Hashing files."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

_READ = 1 << 22  # large reads: what parallel file systems like


def file_sha256(file: BinaryIO) -> str:
    """SHA-256 of the rest of an open file, in hex."""
    digest = hashlib.sha256()
    while chunk := file.read(_READ):
        digest.update(chunk)
    return digest.hexdigest()
