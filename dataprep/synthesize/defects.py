"""Files that pretend to be images, as broken downloads and full disks leave them."""

from __future__ import annotations

import random
from typing import Literal, get_args

Defect = Literal["truncated", "garbage", "empty", "html"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)

_GARBAGE_BYTES = 30_000
# No image format starts like this, so that chance cannot make one.
_GARBAGE_START = b"\xde\xad\xbe\xef"
_HTML = b"""<!DOCTYPE html>
<html><head><title>404 Not Found</title></head>
<body><h1>Not Found</h1><p>This photo is no longer available.</p></body></html>
"""


def spoil(encoded: bytes, defect: Defect, seed: int) -> bytes:
    """Turn a good image file into a bad one.

    Args:
        encoded: the good file.
        defect: what happened to it.
        seed: decides on the garbage.

    Returns:
        What is found in its place.
    """
    if defect == "truncated":
        return encoded[: len(encoded) * 3 // 5]
    if defect == "garbage":
        return _GARBAGE_START + random.Random(seed).randbytes(_GARBAGE_BYTES)  # noqa: S311
    return _HTML if defect == "html" else b""
