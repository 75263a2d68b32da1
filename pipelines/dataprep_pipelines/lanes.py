"""Threads that each do one thing after another, fed by one that waits for a free one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from dataprep_pipelines.processes import block_interrupts

Argument = TypeVar("Argument")


class Lanes:
    """So many threads; what they raise is raised in the thread that feeds them.

    Args:
        count: how many.
        name: what they are called in a debugger.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._threads = ThreadPoolExecutor(
            count, thread_name_prefix=name, initializer=block_interrupts
        )
        self._busy: set[Future[None]] = set()

    def await_free(self) -> None:
        """Wait until a thread is free."""
        while len(self._busy) >= self._count:
            done, self._busy = wait(self._busy, return_when=FIRST_COMPLETED)
            _raise_any(done)

    def submit(self, function: Callable[[Argument], None], argument: Argument) -> None:
        """Do it as soon as a thread is free, and return when it has begun."""
        self.await_free()
        self._busy.add(self._threads.submit(function, argument))

    def drain(self) -> None:
        """Wait until all is done."""
        done, self._busy = wait(self._busy)
        _raise_any(done)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()


def _raise_any(done: set[Future[None]]) -> None:
    for future in done:
        future.result()
