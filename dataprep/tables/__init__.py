"""Tables of images: what scanning found, the order they are written in, what became of them.

`rows` is what the rest of dataprep sees of them; everything else here loads pyarrow or DuckDB, and
is imported where it is needed.
"""

from __future__ import annotations

from dataprep.rows import Ignored, Packing, Row, Scanned, Unmatched

__all__ = ["Ignored", "Packing", "Row", "Scanned", "Unmatched"]
