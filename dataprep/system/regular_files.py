"""Opens what must be a regular file: a pipe would be waited for, a device read for ever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST: Final = 1 << 29  # a manifest of a million shards has 300 MB


def open_descriptor(path: str | Path, *, link: bool = True) -> int:
    """Open a file to read.

    Args:
        link: whether its name may be a symbolic link.

    Returns:
        A descriptor, for the caller to close.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, _FLAGS | (0 if link else os.O_NOFOLLOW))
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "no regular file", str(path))


def open_regular(path: str | Path, *, buffering: int = -1, link: bool = True) -> BinaryIO:
    """The same as a Python file.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    return open(open_descriptor(path, link=link), "rb", buffering=buffering)


def read_regular(path: str | Path, *, link: bool = True) -> bytes:
    """What is in a file that is read as a whole: a list, a manifest, a state.

    Raises:
        OSError: it cannot be read, is no regular file, or has more than 512 MiB.
    """
    with open_regular(path, buffering=0, link=link) as file:
        size = os.fstat(file.fileno()).st_size
        if size > _MOST:
            raise OSError(errno.EFBIG, f"{size:,} bytes, expected {_MOST:,} at most", str(path))
        return file.read()


def require_regular(path: str | Path) -> None:
    """Refuse what a library is about to open by its path.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    os.close(open_descriptor(path))
