"""Processes that help another one with what keeps Python's lock.

They convert images for a shard that one other process writes: a format with one file a split has
one writer, but encoded images are small beside the work of making them, so they are sent through a
pipe. And they scan, which is nearly all Python.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor

from dataprep.system.throttle import divide
from dataprep_pipelines.worker import end_with


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
    end_with(launcher, clean_up_seconds=0.0)
