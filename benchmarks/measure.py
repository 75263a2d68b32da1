"""What every question shares: programs that are run and timed, in turn, and the machine's words.

A figure alone says how busy a machine was. So sides are measured in rounds, each side once a round,
and what is reported is the median of the rounds' ratios. A fixed cost, such as starting up, shows
in whole commands; two sizes of the same job tell what each further image costs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[1]
"""Where ``python -m benchmarks.…`` works from, for the programs that benchmarks start."""

_TAIL = 20  # lines of a failed program's output that its error repeats
_LIBRARIES = (
    *("dataprep-shards", "apache-beam", "numpy", "pillow", "cykooz-resizer", "simplejpeg"),
    *("google-crc32c", "lmdb", "h5py", "webdataset", "torch", "array-record", "grain", "datasets"),
    *("litdata", "tensorflow-cpu", "tensorflow", "distributed", "mxnet", "opencv-python-headless"),
    *("mosaicml-streaming", "tensorflow-datasets", "xxhash", "obstore", "boto3", "s3fs"),
)
_VERSIONS = """
import platform, sys
from importlib.metadata import distributions
named = {one.metadata["Name"]: one.version for one in distributions()}
found = {name.lower().replace("_", "-"): version for name, version in named.items()}
print("Python " + platform.python_version(), end="")
print(*(f", {name} {found[name]}" for name in sys.argv[1:] if name in found), sep="")
"""

Value = TypeVar("Value")


class CannotRunError(Exception):
    """A benchmark lacks something that this machine does not have; the text says what to do."""


class CommandFailedError(Exception):
    """A program that should have worked did not.

    Args:
        text: which and how, without paths of this machine.
        output: the end of what it said.
    """

    def __init__(self, text: str, output: str = "") -> None:
        super().__init__(text)
        self.output = output


@dataclass(frozen=True)
class Setting:
    """How to measure.

    Attributes:
        work: an existing directory for inputs, which are kept between benchmarks, and outputs.
        images: a directory of class directories with JPEG files; None for drawn images.
        repeat: how many rounds.
        quick: tiny sizes, to see that everything runs; the figures then mean nothing.
        peers: a directory with an environment for each tool to compare with.
        training: options of `feed` alone.
    """

    work: Path
    images: Path | None
    repeat: int
    quick: bool
    peers: Path
    training: argparse.Namespace

    @property
    def cores(self) -> int:
        """Cores this process may use, which is also what dataprep uses by default."""
        return len(os.sched_getaffinity(0))

    def size(self, full: Value, quick: Value) -> Value:
        """The one of two sizes that this run wants."""
        return quick if self.quick else full

    def peer(self, name: str) -> Path:
        """The interpreter of another tool's environment."""
        python = self.peers / name / "bin" / "python"
        if not python.exists():
            raise CannotRunError(f"{name} is not in --peers, which `make peers` fills")
        return python

    def say(self, text: str) -> None:
        """Progress, apart from the table."""
        print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Usage:
    """What a program cost.

    Attributes:
        seconds: wall time, including the flush to disk where one was asked for.
        cpu_seconds: user and system time of all its processes.
        peak_bytes: peak resident memory of the largest of its processes: what decides whether a
            job fits a node.
        lines: what it printed, each line with the second in which it came.
    """

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    lines: Sequence[tuple[float, str]] = ()


def run(
    command: Sequence[str | Path],
    *,
    flush: bool = False,
    until: str = "",
    watch: Callable[[int, str], object] = lambda *_: None,
    environment: Mapping[str, str] | None = None,
) -> Usage:
    """Run a program to its end.

    Args:
        command: program and arguments.
        flush: make everything durable with ``sync``, and count that too. What was dirty before is
            flushed before the clock starts.
        until: end it when it prints a line with this.
        watch: called with its process's number and each line.
        environment: added to this process's own.

    Raises:
        CommandFailedError: it ended with another exit code than 0, or without that line.
    """
    if flush:
        os.sync()
    lines: list[tuple[float, str]] = []
    stopped = False
    start = time.perf_counter()
    with subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append((time.perf_counter() - start, line.rstrip()))
                watch(process.pid, line)
                if until and until in line and not stopped:
                    stopped = True
                    process.terminate()
            _, status, resources = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.terminate()
            raise
    if flush:
        os.sync()
    seconds = lines[-1][0] if stopped else time.perf_counter() - start
    if stopped != bool(until) or (process.returncode != 0 and not stopped):
        # Program and module: other arguments would be paths of this machine.
        name = Path(command[0]).name
        if "-m" in command:
            name += f" -m {command[list(command).index('-m') + 1]}"
        output = "\n".join(line for _, line in lines[-_TAIL:])
        raise CommandFailedError(f"{name} ended with code {process.returncode}", output)
    return Usage(
        seconds=seconds,
        cpu_seconds=resources.ru_utime + resources.ru_stime,
        peak_bytes=resources.ru_maxrss * 1024,
        lines=lines,
    )


class Program:
    """A program that answers lines of JSON with lines of JSON, so that many can take turns."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self._name, self._process, self._log = name, process, log

    def tell(self, asked: Mapping[str, Any]) -> None:
        """Give it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What it says to the oldest line that it has not answered."""
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        try:
            return json.loads(said)
        except ValueError:
            text = self._log.read_text()[-2000:] + said
            raise CommandFailedError(f"the program {self._name} failed", text) from None

    def ask(self, **asked: Any) -> Any:
        """Both."""
        self.tell(asked)
        return self.answer()


@contextmanager
def program(
    setting: Setting,
    name: str,
    command: Sequence[str | Path],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Program]:
    """Start one, and end it; what it says beside its answers goes into a file of that name."""
    log = setting.work / f"{name}.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        ) as process,
    ):
        try:
            yield Program(name, process, log)
        finally:
            process.terminate()


@contextmanager
def fresh(directory: Path) -> Iterator[Path]:
    """A path where nothing is, and where nothing is left."""
    shutil.rmtree(directory, ignore_errors=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def prepared(
    setting: Setting,
    raw: Path,
    *options: str | Path,
    dataset: str = "imagenet",
) -> Usage:
    """Prepare a raw set, flush it to disk, and delete it.

    Args:
        setting: where.
        raw: the raw directory.
        options: of ``dataprep imagenet``, or of the command of another data set.
        dataset: that command.
    """
    with fresh(setting.work / "out") as out:
        place = ("--raw_data_dir", raw, "--local_scratch_dir", out)
        return run([sys.executable, "-m", "dataprep", dataset, *place, *options], flush=True)


@dataclass(frozen=True)
class Speed:
    """What one program does a second.

    Attributes:
        whole: images a second of the whole command at its larger size, start-up included.
        steady: of each further image: the difference of two sizes over that of their times.
    """

    whole: float
    steady: float


def two_sizes(job: Callable[[int], Usage], small: int, large: int) -> Speed:
    """Measure a program on few images, and on several times as many."""
    short, long = job(small), job(large)
    further = long.seconds - short.seconds
    steady = (large - small) / further if further > 0 else math.nan
    return Speed(large / long.seconds, steady)


def rounds(
    setting: Setting,
    name: str,
    programs: Mapping[str, Callable[[], Value]],
    *,
    warm_up: Sequence[Callable[[], object]] = (),
) -> dict[str, list[Value]]:
    """Measure several programs in rounds: each once a round, and each round starts elsewhere.

    So what drifts while a round lasts is not always to the same program's advantage.

    Args:
        setting: how many rounds.
        name: for progress.
        programs: measures each of them once.
        warm_up: called before, so that no side reads its libraries from a cold disk.

    Returns:
        What was measured of each, a value a round, in the order of the rounds.
    """
    if warm_up:
        setting.say(f"{name}: warming up")
    for program in warm_up:
        program()
    order = list(programs)
    measured: dict[str, list[Value]] = {program: [] for program in order}
    for number in range(setting.repeat):
        first = number * len(order) // setting.repeat
        for each in order[first:] + order[:first]:
            setting.say(f"{name}: round {number + 1} of {setting.repeat}: {each}")
            measured[each].append(programs[each]())
    return measured


def describe(setting: Setting) -> dict[str, str]:
    """Processor, memory, file system and versions; no host name and no path."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    processor = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
    described = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": f"{processor}, {setting.cores} of {os.cpu_count()} cores usable",
        "memory": f"{memory / (1 << 30):.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "kernel": f"{platform.system()} {platform.release()}",
        "images": "real, repeated" if setting.images else "drawn, repeated",
        "rounds": f"{setting.repeat}{', --quick: figures mean nothing' if setting.quick else ''}",
    }
    peers = {path.name: setting.peer(path.name) for path in sorted(setting.peers.glob("*"))}
    for name, python in {"ours": Path(sys.executable), **peers}.items():
        described[name] = run([python, "-c", _VERSIONS, *_LIBRARIES]).lines[-1][1]
    return described
