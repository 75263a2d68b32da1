"""Says what to do when ChestX-ray14 is not where it was looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.wording import printable, unreadable

_DOWNLOAD: Final = "CXR8"  # the folder that the whole download comes in
_MOST_FOLDERS_TRIED: Final = 100


def list_raw(raw: Path) -> list[str]:
    """The names in the raw directory, sorted.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    try:
        if raw.is_dir():
            return sorted(path.name for path in raw.iterdir())
        problem = "is not a directory" if raw.exists() else "does not exist"
    except OSError as error:
        raise unreadable(str(raw), error) from error
    raise SourceError(
        f"raw data directory {printable(str(raw))} {problem}; expected the directory that holds "
        "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/; check --raw_data_dir"
    )


def likely(raw: Path, names: Sequence[str]) -> Iterator[str]:
    """Directories below or above `raw` that hold one of these files, while `raw` does not."""
    if _holds(raw, names):
        return
    for below in (_DOWNLOAD, *list_raw(raw)[:_MOST_FOLDERS_TRIED]):
        if _holds(raw / below, names):
            yield str(raw / below)
    # Lexical on purpose: behind a symbolic link the user means the path as it was typed.
    above = os.path.normpath(raw / "..")
    if _holds(Path(above), names):
        yield above


def _holds(directory: Path, names: Sequence[str]) -> bool:
    try:
        return any((directory / name).is_file() for name in names)
    except OSError:  # a directory that cannot be looked into is no advice
        return False
