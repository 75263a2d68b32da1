"""Runs a program and tells its wall time, processor time and the peak memory of its processes.

The largest process of a tree is what decides whether a job fits a node, so memory is never a sum.
``wait4`` gives the peak of the largest process that was waited for; with `watched`, all
descendants are looked at in ``/proc`` as well, which tells them apart and finds daemons.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from benchmarks.setting import ROOT

_SAMPLE_SECONDS = 0.05
_WORKER = b"dataprep_pipelines.worker"
_TAIL = 2000  # characters of a failed program's output that its error repeats


class CommandFailedError(Exception):
    """A program that should have worked did not.

    Args:
        text: which and how, without paths of this machine.
        output: the end of what it said.
    """

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


@dataclass(frozen=True)
class Usage:
    """What a program cost.

    Attributes:
        seconds: wall time, including the flush to disk where one was asked for.
        cpu_seconds: user and system time of all its processes.
        peak_bytes: peak resident memory of the largest of its processes.
        peaks: the same by role (``launcher``, ``worker``, ``other``); only of watched programs.
        output: what it printed.
        written_bytes: size of the files it made; 0 if nobody looked.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    peaks: Mapping[str, int] = field(default_factory=dict)
    output: str = ""
    written_bytes: int = 0


def run(
    command: Sequence[str | Path],
    *,
    flush: bool = False,
    watched: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Usage:
    """Run a program to its end.

    Args:
        command: program and arguments.
        flush: make everything durable with ``sync``, and count that too. What was dirty before is
            flushed before the clock starts.
        watched: sample ``/proc`` for the memory of every process; costs about 1 % of one core.
        environment: added to this process's own.

    Raises:
        CommandFailedError: it ended with another exit code than 0.
    """
    if flush:
        os.sync()
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
        try:
            status, resources, peaks = _wait(process, watched)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if flush:
            os.sync()
        seconds = time.perf_counter() - start
        text = _text(output)
    if status != 0:
        raise CommandFailedError(f"{_name(command)} ended with code {status}", text[-_TAIL:])
    return Usage(
        seconds=seconds,
        cpu_seconds=resources.ru_utime + resources.ru_stime,
        peak_bytes=max(resources.ru_maxrss * 1024, *peaks.values(), 0),
        peaks=peaks,
        output=text,
    )


def _name(command: Sequence[str | Path]) -> str:
    """Program and module: arguments would be paths of this machine."""
    module = command.index("-m") + 1 if "-m" in command else 0
    return f"{Path(command[0]).name} -m {command[module]}" if module else Path(command[0]).name


def _wait(
    process: subprocess.Popen[bytes], watched: bool
) -> tuple[int, resource.struct_rusage, dict[str, int]]:
    peaks: dict[str, int] = {}
    while True:
        found, status, resources = os.wait4(process.pid, os.WNOHANG if watched else 0)
        if found:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, resources, peaks
        for role, peak in _sample(process.pid):
            peaks[role] = max(peak, peaks.get(role, 0))
        time.sleep(_SAMPLE_SECONDS)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _sample(root: int) -> Iterator[tuple[str, int]]:
    """Role and peak resident bytes of a process and of all its descendants."""
    for process in _tree(root):
        try:
            status = Path(f"/proc/{process}/status").read_bytes()
            words = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        _, found, rest = status.partition(b"VmHWM:")
        if found:  # a zombie has none
            role = "worker" if _WORKER in words else "other"
            yield "launcher" if process == root else role, int(rest.split(None, 1)[0]) * 1024


def _tree(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:
                continue
            # The name before the last parenthesis may hold anything, spaces included.
            parents[int(entry.name)] = int(stat.rpartition(b")")[2].split()[1])
    tree = {root}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sorted(tree)
