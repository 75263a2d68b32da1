"""A local worker process: Beam's own, but silent, deaf to Ctrl-C, and gone with its launcher.

Ctrl-C on a terminal reaches every process of the job at once. Only the launcher acts on it; its
workers learn of it through the file system, finish the image they are at, and clean up.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time

DEBUG = "DATAPREP_DEBUG"
"""Environment variable, set by ``dataprep --debug``: workers say on stderr what Beam says."""

_LOOK_SECONDS = 1.0
_CLEAN_UP_SECONDS = 5.0  # a worker with a lost lease needs about two to remove its files


def command_line() -> str:
    """The shell command that starts a worker of this process."""
    # What the shell ignores, its program ignores from its first moment on.
    return f"trap '' INT; exec {shlex.quote(sys.executable)} -m {__name__} {os.getpid()}"


def main(launcher: int) -> None:
    """Run Beam's worker until the launcher has no more work for it.

    Args:
        launcher: the process id of the launcher.
    """
    if DEBUG not in os.environ:
        # Beam's chatter, and its complaints when the launcher is gone, would bury the progress
        # bar; what matters reaches the launcher through commit records and the failure log.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    # Beam would wait for ever for a launcher that was killed before it took up contact.
    end_with(launcher, clean_up_seconds=_CLEAN_UP_SECONDS)

    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


def end_with(launcher: int, *, clean_up_seconds: float) -> None:
    """End this process when its launcher is gone, looking from a thread of its own.

    Args:
        launcher: the process id of the launcher.
        clean_up_seconds: how long this process may go on after that.
    """

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_LOOK_SECONDS)
        time.sleep(clean_up_seconds)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
