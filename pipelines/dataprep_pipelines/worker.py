"""Processes of this machine that work for the launcher: deaf to Ctrl-C, and gone with it.

Ctrl-C on a terminal reaches every process of the job at once. Only the launcher acts on it; its
workers learn of it through the file system, finish the image they are at, and clean up. They run
this module as a program, and import what their orders need: not Beam. They scan, write shards, or
convert images for a shard that one other process writes.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any
from weakref import WeakValueDictionary

from dataprep.system.job_limits import one_thread_each
from dataprep.system.throttle import divide

DEBUG = "DATAPREP_DEBUG"
"""Environment variable, set by ``dataprep --debug``: workers say on stderr what Beam says."""

_LOOK_SECONDS = 1.0
_POOLS: WeakValueDictionary[int, HelperProcesses] = WeakValueDictionary()


class HelperProcesses(ThreadPoolExecutor):
    """A pool that ends with this process, and that Ctrl-C reaches through this process only.

    Each of its threads starts a process when it first has work, hands it what there is to do, one
    thing at a time, and waits. The queues of `concurrent.futures.ProcessPoolExecutor` are made of
    named semaphores in ``/dev/shm``: none can be made where that is full, and they stay there when
    all of a job is killed at once.

    Args:
        clean_up_seconds: what they are given to end what they are doing when this one is gone.
    """

    def __init__(self, count: int, clean_up_seconds: float = 0.0) -> None:
        divide(count + 1)
        super().__init__(count, "helper", initializer=block_interrupts)
        self._clean_up_seconds = clean_up_seconds
        self._mine = threading.local()
        self._started: list[tuple[subprocess.Popen[bytes], Connection]] = []
        self.count = count
        _POOLS[id(self)] = self

    def __reduce__(self) -> tuple[Callable[[int], HelperProcesses], tuple[int]]:
        """The same pool: Beam pickles even what it runs in the process that made it."""
        return _pool, (id(self),)

    def start(self, module: str) -> None:
        """Start all of them, and have each import what it will need, while others go on."""
        for _ in range(self.count):
            self.submit(_import, module)

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have a process do it; raises BrokenExecutor in the future if that dies."""
        return super().submit(self._hand_on, partial(do, *args, **kwargs))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for what is being done, and end the processes."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        for _, orders in self._started:
            orders.close()
        for process, _ in self._started:
            process.wait()

    def _hand_on(self, do: Callable[[], Any]) -> Any:
        try:
            if not hasattr(self._mine, "orders"):
                self._mine.orders = self._start()
                self._mine.orders.send(sys.path)
            self._mine.orders.send(do)
            done, outcome = self._mine.orders.recv()
        except (OSError, EOFError) as error:
            raise BrokenExecutor("a process that helps has died") from error
        if not done:
            raise outcome
        return outcome

    def _start(self) -> Connection:
        ours, theirs = Pipe()
        with theirs:
            # It imports nothing from the working directory: that may be the data's.
            program = [sys.executable, "-P", "-m", __name__]
            words = (os.getpid(), theirs.fileno(), self._clean_up_seconds)
            environment = dict(os.environ)
            one_thread_each(environment)  # in a notebook this process may have more
            process = subprocess.Popen(  # noqa: S603  # ours
                [*program, *map(str, words)], pass_fds=[theirs.fileno()], env=environment
            )
        self._started.append((process, ours))
        return ours


def _pool(number: int) -> HelperProcesses:
    return _POOLS[number]


def _import(module: str) -> None:
    import_module(module)


def block_interrupts() -> None:
    """Keep Ctrl-C from this thread, and from processes it starts until they can ignore it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def serve(launcher: int, orders: Connection, clean_up_seconds: float) -> None:
    """Do what a pool hands on, until nothing more comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(100_000)  # what it imports and keeps is no garbage
    # In the midst of something it would not see that the launcher was killed.
    _end_with(launcher, clean_up_seconds)
    with suppress(EOFError, OSError):
        sys.path[:] = orders.recv()
        while True:
            do = orders.recv()
            try:
                outcome = True, do()
            except BaseException as error:  # noqa: BLE001  # raised where it was asked for
                outcome = False, error
            orders.send(outcome)
    gc.freeze()  # which ends sooner


def _end_with(launcher: int, clean_up_seconds: float) -> None:
    """End this process so many seconds after its launcher is gone."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(_LOOK_SECONDS)
        time.sleep(clean_up_seconds)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Connection(int(sys.argv[2])), float(sys.argv[3]))
