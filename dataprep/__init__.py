"""dataprep: raw image archives in; verified, shuffled, sharded record files out."""

from __future__ import annotations

__version__ = "0.1.0"
