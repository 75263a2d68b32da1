"""A local worker process: Beam's own, but silent, and deaf to Ctrl-C.

Ctrl-C on a terminal reaches every process of the job at once. Only the launcher acts on it; its
workers learn of it through the file system, finish the image they are at, and clean up.
"""

from __future__ import annotations

import os
import signal
import sys

COMMAND = f"{sys.executable} -m {__name__}"
DEBUG = "DATAPREP_DEBUG"
"""Environment variable, set by ``dataprep --debug``: workers say on stderr what Beam says."""


def main() -> None:
    """Run Beam's worker until the launcher has no more work for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if DEBUG not in os.environ:
        # Beam's chatter, and its complaints when the launcher is gone, would bury the progress
        # bar; what matters reaches the launcher through commit records and the failure log.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main()
