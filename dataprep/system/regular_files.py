"""Opens what must be a regular file: a pipe would be waited for, a device read for ever.

And Parquet files, which may promise more than there is room for.
"""

from __future__ import annotations

import errno
import os
import stat
from io import RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from pyarrow import parquet

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
MOST_BYTES: Final = 1 << 29  # of what is read as a whole; a manifest of a million shards has 300 MB


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
        if size > MOST_BYTES:
            raise OSError(
                errno.EFBIG, f"{size:,} bytes, expected {MOST_BYTES:,} at most", str(path)
            )
        return file.read()


def require_regular(path: str | Path) -> None:
    """Refuse what a library is about to open by its path.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    os.close(open_descriptor(path))


# Of a row group, which is read as a whole. Ours have 65,536 rows, or 16 MiB and one image.
_MOST_ROWS: Final = 1 << 24
_MOST_BYTES: Final = 1 << 31
_MOST_PACKED: Final = 10  # times that long texts of people are packed
_FIXED_BYTES: Final = 1 << 20  # of few rows: dictionaries, and headers of pages


def open_parquet(
    path: Path, *, row_bytes: int | None = None, opened: RawIOBase | None = None
) -> parquet.ParquetFile:
    """A Parquet file whose checksums are compared; to be closed.

    Its footer is believed: one that lies can make a page of 2 GiB, which is what the format's
    lengths can say.

    Args:
        row_bytes: how many a row has at most, on average of a row group, where that is known.
        opened: the file, if it is not one of this machine.

    Raises:
        OSError: it cannot be read, or is no regular file.
        pa.ArrowException: it is no Parquet file, or a row group is too large.
    """
    import pyarrow as pa
    from pyarrow import parquet

    if opened is None:
        require_regular(path)
    file = parquet.ParquetFile(opened or path, page_checksum_verification=True)
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        most = _MOST_BYTES
        if row_bytes is not None:
            # Long rows take room in the file as well; what takes none is a trap.
            least = _FIXED_BYTES + group.num_rows * row_bytes
            most = min(most, max(least, _MOST_PACKED * path.stat().st_size))
        if not (0 <= group.num_rows <= _MOST_ROWS and 0 <= group.total_byte_size <= most):
            file.close()
            raise pa.ArrowInvalid(
                f"row group {number} of {group.num_rows:,} rows and {group.total_byte_size:,} "
                f"bytes, at most {_MOST_ROWS:,} and {most:,} are read"
            )
    return file
