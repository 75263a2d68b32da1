"""Files that appear whole or not at all, even after a power cut."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

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
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
