"""Files that are in a target, under their final names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verify = Literal["none", "copy", "reread"]


@dataclass(frozen=True, slots=True)
class Landed:
    """A file that is there, under its final name.

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
