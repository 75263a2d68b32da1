"""Reading back what is in a target."""

from __future__ import annotations

import hashlib
import mmap
import os
from collections.abc import Callable

_PIECE = 1 << 22


def stored_sha256(
    descriptor: int, size: int, on_advance: Callable[[int], None] | None = None
) -> str:
    """SHA-256 of a file that was just flushed, read past the page cache where that is possible.

    Args:
        descriptor: open for reading.
        size: the file's.
        on_advance: told of every piece; of some twice, if reading begins anew.

    Raises:
        OSError: it cannot be read.
    """
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        # By way of /proc: the same file, but flags of its own.
        direct = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    except OSError:
        # A file system without it; the cache was emptied.
        return open_sha256(descriptor, size, on_advance)
    try:
        return open_sha256(direct, size, on_advance)
    except OSError:
        return open_sha256(descriptor, size, on_advance)  # such as blocks larger than a page
    finally:
        os.close(direct)


def open_sha256(descriptor: int, size: int, on_advance: Callable[[int], None] | None = None) -> str:
    """SHA-256 of the first ``size`` bytes of an open file, or of what there is of them.

    Args:
        descriptor: open for reading; its position does not matter.
        size: bytes.
        on_advance: told of every piece.

    Raises:
        OSError: it cannot be read.
    """
    digest, offset = hashlib.sha256(), 0
    with mmap.mmap(-1, _PIECE) as pages, memoryview(pages) as view:  # aligned, for O_DIRECT
        # Not beyond the end: there O_DIRECT would be asked for an offset that it does not take.
        while offset < size and (count := os.preadv(descriptor, [view], offset)):
            digest.update(view[:count])
            offset += count
            if on_advance is not None:
                on_advance(count)
    return digest.hexdigest()
