"""A file of a copy, and the name of what staging keeps for itself beside the copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PRIVATE = ".dataprep-stage"

Verify = Literal["none", "copy", "reread"]


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A file that is in a target, under its final name.

    Attributes:
        path: relative to the target.
        bytes: its size.
        sha256: of what was written; None if it was not hashed.
        modified: its time of modification, in ns.
    """

    path: str
    bytes: int
    sha256: str | None
    modified: int
