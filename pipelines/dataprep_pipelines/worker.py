"""Processes of this machine that work for the launcher: deaf to Ctrl-C, and gone with it.

Ctrl-C on a terminal reaches every process of the job at once. Only the launcher acts on it; its
workers learn of it through the file system, finish the image they are at, and clean up. There are
Beam's own workers, run by this module as a program, and pools that help a worker with what keeps
Python's lock: they scan, and convert images for a shard that one other process writes.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

from dataprep.system.throttle import divide

DEBUG = "DATAPREP_DEBUG"
"""Environment variable, set by ``dataprep --debug``: workers say on stderr what Beam says."""

_LOOK_SECONDS = 1.0
_CLEAN_UP_SECONDS = 5.0  # a worker with a lost lease needs about two to remove its files


def command_line() -> str:
    """The shell command that starts one of Beam's workers of this process."""
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
    _end_with(launcher, clean_up_seconds=_CLEAN_UP_SECONDS)

    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main(sys.argv)


def helper_processes(count: int) -> ProcessPoolExecutor:
    """A pool that ends with this process, and that Ctrl-C reaches through this process only.

    Its processes are started by the threads that submit to it: `block_interrupts` in those.
    """
    divide(count + 1)
    return ProcessPoolExecutor(
        count,
        # Not fork: other threads of this process hold locks.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )


def block_interrupts() -> None:
    """Keep Ctrl-C from this thread, and from processes it starts until they can ignore it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _begin(launcher: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The pool's own queues never tell a process that its launcher was killed.
    _end_with(launcher, clean_up_seconds=0.0)


def _end_with(launcher: int, *, clean_up_seconds: float) -> None:
    """End this process so many seconds after its launcher is gone."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_LOOK_SECONDS)
        time.sleep(clean_up_seconds)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]))
