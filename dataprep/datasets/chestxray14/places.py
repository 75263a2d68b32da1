"""Says where ChestX-ray14 may be when it is not where it was looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dataprep.archives import raw_directory

_EXPECTED: Final = "Data_Entry_2017_v2020.csv and images_001.tar.gz or images/"
_DOWNLOAD: Final = "CXR8"  # the folder that the whole download comes in


def list_raw(raw: Path) -> list[str]:
    """The names in the raw directory, sorted.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    return raw_directory.list_raw(raw, _EXPECTED)


def likely(raw: Path, names: Sequence[str]) -> Iterator[str]:
    """Directories below or above `raw` that hold one of these files, while `raw` does not."""

    def holds(directory: Path) -> bool:
        return any((directory / name).is_file() for name in names)

    return raw_directory.likely(raw, (_DOWNLOAD, *list_raw(raw)), 1, holds)
