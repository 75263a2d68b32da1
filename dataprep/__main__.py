"""``python -m dataprep``."""

from __future__ import annotations

import sys

# Python puts the working directory first, where a data set may lie that brings a numpy.py.
if not sys.flags.safe_path:
    del sys.path[0]

from dataprep.cli import entry_point

sys.exit(entry_point())
