"""Files that appear whole or not at all, even after a power cut."""

from __future__ import annotations

import errno
import os
import re
import secrets
from pathlib import Path

_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})

PARTIAL = ".partial"  # suffix of every file that is not finished; hidden from readers' globs


def partial_path(final: Path) -> Path:
    """A new temporary name beside ``final``, hidden and unlike any other process's."""
    return final.with_name(f".{final.name}.{secrets.token_hex(4)}{PARTIAL}")


def is_partial(path: Path) -> bool:
    """Whether `partial_path` gave the file its name."""
    return re.fullmatch(rf"\..+\.[0-9a-f]{{8}}{re.escape(PARTIAL)}", path.name) is not None


def sync_directory(directory: Path) -> None:
    """Make the renames in ``directory`` survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``: whole or not at all, even after a power cut."""
    temporary = partial_path(path)
    try:
        _write_flushed(temporary, data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_once(path: Path, data: bytes) -> bool:
    """The same, unless there is such a file: then that stays, and this is False.

    Of several processes, on any hosts, one succeeds. Where a file system has no hard links, the
    last one does.
    """
    temporary = partial_path(path)
    try:
        _write_flushed(temporary, data)
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _write_flushed(path: Path, data: bytes) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
