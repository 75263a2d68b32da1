"""Runs inputs in a forked process that may die, hang or swell, and says which of them did so.

An input has 5 s of processor time, 4 GiB of address space and a target's own bound of memory. What
it may end in is an answer, `DataprepError`; anything else is a finding.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import pickle
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from dataprep.errors import DataprepError
from tests.fuzz.mutations import mutated

SECONDS = 5.0  # of processor time
_STUCK = 60.0  # on the clock, for one that waits
_ENOUGH = 3  # findings of a target, in which it may take long
_ADDRESSES = 4 << 30
_BATCH = 2000  # inputs of one process: what its allocator keeps must not count for an input


@dataclass(frozen=True)
class Target:
    """Something that reads hostile bytes.

    Attributes:
        name: for the command line and the corpus.
        seeds: makes valid inputs; the same ones each time.
        run: reads an input, with a directory for its files; raises what the reader raises.
        count: inputs in CI, which takes a few seconds of each target.
        seal: makes checksums right again, of every other input.
        mutate: another way than changing bytes.
        memory: MiB that an input may need.
        isolated: the library may crash or hang, and dataprep reads such files in a process that it
            ends; so only Python's exceptions are findings.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    run: Callable[[bytes, Path], object]
    count: int = 1000
    seal: Callable[[bytes], bytes] | None = None
    mutate: Callable[[Random, list[bytes]], bytes] = mutated
    memory: int = 128
    isolated: bool = False

    def input(self, seeds: list[bytes], seed: int, number: int) -> bytes:
        """Input ``number`` of a seed; the same on every machine with the same seeds."""
        random = Random(f"{self.name} {seed} {number}")
        data = self.mutate(random, seeds)
        return self.seal(data) if self.seal and random.getrandbits(1) else data


@dataclass(frozen=True)
class Finding:
    """An input that did not end in an answer: its name, what happened and where, its bytes."""

    name: str
    what: str
    data: bytes


Input = Callable[[int], tuple[str, bytes]]
"""Name and bytes of an input."""


def run(
    target: Target,
    make: Input,
    warm: bytes,
    count: int | None,
    deadline: float = float("inf"),
) -> tuple[int, list[Finding], int]:
    """Run inputs 0 to ``count`` - 1 of a target, or as many as there is time for.

    Args:
        target: which.
        make: makes each input.
        warm: a valid one, to begin with.
        count: how many; None: until the deadline.
        deadline: of `time.monotonic`.

    Returns:
        How many ran, the findings, and how often an isolated library ended the process.
    """
    findings: list[Finding] = []
    first = deaths = 0
    with mmap.mmap(-1, 8) as at:
        while (count is None or first < count) and time.monotonic() < deadline:
            if len(findings) >= _ENOUGH:
                break
            last = first + _BATCH if count is None else min(count, first + _BATCH)
            said, died = _batch(target, make, warm, range(first, last), at, deadline)
            ended = int.from_bytes(at[:])
            if died.startswith("memory") and ended > first:  # alone: it may be what others left
                _, died = _batch(target, make, warm, range(ended, ended + 1), at, deadline)
            if target.isolated and died.startswith(("ended with -", "over ")):
                deaths += 1
            elif died:
                said.append((ended, died))
            for number, what in said:
                name, data = make(number)
                findings.append(Finding(name, what, data))
            first = ended + 1
    return first, findings, deaths


def made_apart(function: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own: this one shall have no threads to fork."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with open(writer, "wb") as file:
                pickle.dump(function(), file)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - it must not go on as the parent
            traceback.print_exc()
        os._exit(1)
    os.close(writer)
    with open(reader, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


def _batch(
    target: Target, make: Input, warm: bytes, numbers: range, at: mmap.mmap, deadline: float
) -> tuple[list[tuple[int, str]], str]:
    """Findings of some inputs by number, and how the process died; ``at`` tells the last one."""
    at[:] = numbers[0].to_bytes(8)
    place = Path(tempfile.mkdtemp(prefix="fuzz"))
    reader, writer = os.pipe()
    with tempfile.TemporaryFile() as log:
        if (child := os.fork()) == 0:
            try:
                os.close(reader)
                for stream in (1, 2):
                    os.dup2(log.fileno(), stream)
                with open(writer, "w", buffering=1) as file:
                    _work(target, make, warm, numbers, at, deadline, place, file)
            except BaseException:  # noqa: BLE001 - it must not go on as the parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as said:
            lines = said.read()
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        log.seek(0)
        shown = log.read().decode(errors="replace")
    shutil.rmtree(place, ignore_errors=True)
    found = [json.loads(line) for line in lines.splitlines()]
    died = [what for kind, _, what in found if kind == "died"]
    if code and not died:
        late = code in (-signal.SIGPROF, -signal.SIGALRM)
        how = f"over {SECONDS:.0f} s" if late else f"ended with {code}"
        died = [f"{how}\n{shown[-3000:]}"]
    return [(number, what) for kind, number, what in found if kind == "found"], "".join(died)


def _work(
    target: Target,
    make: Input,
    warm: bytes,
    numbers: range,
    at: mmap.mmap,
    deadline: float,
    place: Path,
    said: Any,
) -> None:
    faulthandler.enable(2)
    timers = {signal.SIGPROF: signal.ITIMER_PROF, signal.SIGALRM: signal.ITIMER_REAL}
    for each in timers:  # says where the process is, and then ends it
        faulthandler.register(each, 2, all_threads=True, chain=True)
    warnings.simplefilter("error")
    os.environ["HOME"] = str(place)
    _address_space(_ADDRESSES)
    target.run(warm, place)  # so that what is imported late counts for nobody
    start = _peak()
    for number in numbers:
        if time.monotonic() > deadline:
            break
        at[:] = number.to_bytes(8)
        data = make(number)[1]
        for timer, seconds in zip(timers.values(), (SECONDS, _STUCK), strict=True):
            signal.setitimer(timer, seconds)
        try:
            target.run(data, place)
        except DataprepError:
            pass
        except Exception as error:  # noqa: BLE001 - all of them are findings
            what = "".join(traceback.format_exception(error)[-6:])
            said.write(json.dumps(("found", number, what)) + "\n")
        for timer in timers.values():
            signal.setitimer(timer, 0)
        if _peak() - start > target.memory:
            said.write(json.dumps(("died", number, f"memory: {_peak() - start} MiB")) + "\n")
            break


def _peak() -> int:
    """The most memory that this process ever had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _address_space(more: int) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + more, size + more))
