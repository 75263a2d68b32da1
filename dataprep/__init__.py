"""dataprep: raw image archives in; verified, shuffled, sharded record files out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataprep.dataset import Records

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(path: str | os.PathLike[str], split: str = "train") -> Records:  # noqa: A001  # dataprep.open
    """One split of a finished data set, in whatever format, to be read.

    Args:
        path: the directory that holds ``manifest.json``.
        split: its name.

    Raises:
        dataprep.errors.DatasetError: there is no intact manifest there.
        dataprep.errors.UsageError: no such split, or a format that is not installed.
    """
    # Imported here, because `import dataprep` should cost nothing.
    from dataprep.dataset import Records

    return Records(Path(path), split)
