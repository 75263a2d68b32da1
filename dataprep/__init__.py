"""dataprep: raw image archives in; verified, shuffled, sharded record files out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataprep.records import Records
    from dataprep.sinks.example import Example

__version__ = "0.1.0"
__all__ = ["Example", "Records", "__version__", "open"]


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
    from dataprep.records import Records

    return Records(Path(path), split)


def __getattr__(name: str) -> object:
    """``dataprep.Records`` and ``dataprep.Example``, imported when first asked for."""
    if name == "Records":
        from dataprep.records import Records

        return Records
    if name == "Example":
        from dataprep.sinks.example import Example

        return Example
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """What there is, imported or not."""
    return sorted({*globals(), *__all__})
