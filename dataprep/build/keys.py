"""Keys of examples as hashes: a million of them fit where their text would not."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

KEY_HASH: Final = np.dtype("V16")
"""128 bits, so that no two keys of any data set are ever taken for the same."""


def key_hash(key: str) -> bytes:
    """The 16 bytes of a `KEY_HASH`."""
    return hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=16).digest()


def repeated(hashes: npt.NDArray[Any]) -> int:
    """How many of the hashes stand there for the second, third, … time."""
    ordered = np.sort(hashes)
    return int(np.count_nonzero(ordered[1:] == ordered[:-1]))
