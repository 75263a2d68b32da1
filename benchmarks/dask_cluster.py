"""A Dask cluster of separate processes on this machine's loopback interface."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measure import CommandFailedError
from benchmarks.setting import ROOT

_START_SECONDS = 60.0
_END_SECONDS = 10.0
_TICKS = os.sysconf("SC_CLK_TCK")
# As a batch job should set them: threads of libraries beside Dask's own would only get in the way.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Cluster:
    """A scheduler and its workers, all processes of their own.

    Attributes:
        address: of the scheduler.
        scheduler: its process id.
        workers: theirs, in the order of the threads that were asked for.
    """

    address: str
    scheduler: int
    workers: Sequence[int] = field(default_factory=tuple)

    def cpu_seconds(self) -> tuple[float, float]:
        """User and system time so far: the scheduler's, and of all workers together."""
        return cpu_seconds(self.scheduler), sum(map(cpu_seconds, self.workers))


@contextmanager
def cluster(
    directory: Path,
    threads: Sequence[int],
    *options: str,
    environments: Sequence[Mapping[str, str]] = (),
) -> Iterator[Cluster]:
    """Start it, wait until all workers are there, and end it.

    Workers have no nanny, which would only restart them.

    Args:
        directory: for its files; made if need be.
        threads: of each worker.
        options: of every worker.
        environments: of each worker, in the same order; added to this process's own.

    Raises:
        CommandFailedError: a program of it ended, or took too long.
    """
    directory.mkdir(parents=True, exist_ok=True)
    found = directory / "scheduler.json"
    found.unlink(missing_ok=True)
    place = ("--scheduler-file", str(found))
    with ExitStack() as stack:
        local = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        log = directory / "scheduler.log"
        scheduler = stack.enter_context(_program(log, {}, "scheduler", *local, *place))
        _wait_for(lambda: found.exists() and found.stat().st_size > 0, [scheduler], log)
        address = json.loads(found.read_text())["address"]
        workers = [
            stack.enter_context(
                _program(
                    directory / f"worker-{number}.log",
                    environments[number] if environments else {},
                    *("worker", *place, "--no-nanny", "--no-dashboard", "--host", "127.0.0.1"),
                    *("--nthreads", str(count), "--local-directory", str(directory), *options),
                )
            )
            for number, count in enumerate(threads)
        ]
        _wait_for_workers(address, len(threads), [scheduler, *workers], log)
        yield Cluster(address, scheduler.pid, tuple(worker.pid for worker in workers))


def cpu_seconds(process: int) -> float:
    """User and system time of one process so far."""
    stat = Path(f"/proc/{process}/stat").read_bytes()
    # The name before the last parenthesis may hold anything, spaces included.
    fields = stat.rpartition(b")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes(process: int) -> int:
    """What a process has in memory now."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def _program(
    log: Path, environment: Mapping[str, str], *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **_ONE_THREAD, **environment},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_workers(
    address: str, count: int, programs: Sequence[subprocess.Popen[bytes]], log: Path
) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        _wait_for(lambda: len(client.nthreads()) == count, programs, log)


def _wait_for(
    ready: Callable[[], bool], programs: Sequence[subprocess.Popen[bytes]], log: Path
) -> None:
    end = time.monotonic() + _START_SECONDS
    while not ready():
        if time.monotonic() > end or any(program.poll() is not None for program in programs):
            raise CommandFailedError("the Dask cluster did not start", log.read_text()[-2000:])
        time.sleep(0.1)
