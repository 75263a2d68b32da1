"""The name of what staging keeps for itself in a target."""

from __future__ import annotations

PRIVATE = ".dataprep-stage"
