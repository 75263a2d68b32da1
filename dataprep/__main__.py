"""``python -m dataprep``."""

from __future__ import annotations

import sys

from dataprep.cli import entry_point

sys.exit(entry_point())
