"""Memory of a Dask worker: kept for the next image, as in any other process.

Dask sets MALLOC_TRIM_THRESHOLD_ for its workers, so that glibc gives memory back early. With that,
glibc no longer learns which sizes come again, and asks the kernel anew for every decoded image: a
fifth of a worker's time (docs/performance.md). These are the bounds at which its learning ends
(mallopt(3), malloc.c: DEFAULT_MMAP_THRESHOLD_MAX, and twice that).
"""

from __future__ import annotations

import ctypes
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
_LARGEST = 32 << 20  # bytes


@cache
def keep_memory() -> None:
    """Undo it for this process; where the C library is another, nothing happens."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, 2 * _LARGEST)
