"""``python -m dataprep``."""

from __future__ import annotations

import sys

from dataprep.cli import main

sys.exit(main())
