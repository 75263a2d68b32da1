"""What a file contains, in short: a hash, made once a process as long as it does not change."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from dataprep.wording import unreadable

_BLOCK = 1 << 20


def hash_content(path: Path) -> str:
    """The SHA-256 of a file; at once if its size and modification time are those it had.

    Raises:
        SourceError: it is gone or cannot be read.
    """
    try:
        status = path.stat()
        return _hash(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise unreadable(str(path), error) from error


@lru_cache(maxsize=4)
def _hash(path: Path, _size: int, _modified: int) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total.update(block)
    return total.hexdigest()
