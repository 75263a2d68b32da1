"""``dataprep`` on a small tree as it works on a large one: with as many processes.

From so many images on it starts processes where threads would do (`LARGE`). The steady state of
that is measured on fewer images, which leave the page cache room.
"""

from __future__ import annotations

import sys

from dataprep.cli import main
from dataprep_pipelines.runners import local

if __name__ == "__main__":
    local.LARGE = 1
    sys.exit(main())
