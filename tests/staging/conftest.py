"""Processes that stage, in a fork each: to be started together, killed, and given a false world."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from dataprep.staging.directory import StageDirectory
from tests.conftest import Result, shared
from tests.faults.conftest import eventually, small_disk
from tests.staging.staged_sets import Sets, arrived, make_sets, partials

__all__ = [
    "ONE_STREAM",
    "AsNode",
    "Call",
    "Forks",
    "Midway",
    "eventually",
    "free_port",
    "small_disk",
]

# Variables by which schedulers and launchers speak, and those that name scratch.
_SPOKEN = re.compile(
    r"(SLURM|SBATCH|SRUN|PBS|LSB|LSF|OMPI|PRTE|PMIX?|PALS|MPI|HYDRA|JSM|FLUX|TM)_.*"
    r"|DATAPREP_SCRATCH|LOCAL_SCRATCH|(GROUP_|LOCAL_)?(RANK|WORLD_SIZE)"
)

AsNode = Callable[[int, int], None]

# Has everything imported, and forks a process a call.
_FORKS = """
import json, os, sys
import dataprep.cli.staging, dataprep.cli.signals
import dataprep.staging.stage, dataprep.staging.existing
from dataprep.cli import entry_point

print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    if "wait" in order:
        child, status = os.waitpid(order["wait"], os.WNOHANG)
        print(json.dumps(os.waitstatus_to_exitcode(status) if child else None), flush=True)
        continue
    child = os.fork()
    if child == 0:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, place in enumerate(order["said"], 1):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        os.environ.update(order["environment"])
        os.fsync = lambda descriptor: None  # see `unflushed`
        sys.argv = ["dataprep", *order["words"]]
        exec(order["patch"])
        code = entry_point()
        sys.stdout.flush()
        os._exit(code)
    print(child, flush=True)
"""


class Call:
    """A process that stages."""

    def __init__(self, forks: Forks, pid: int, said: tuple[Path, Path]) -> None:
        self._forks = forks
        self._said = said
        self.pid = pid
        self.code: int | None = None

    def poll(self) -> int | None:
        """The exit code, or less than 0 for a signal; None as long as it runs."""
        if self.code is None:
            self.code = self._forks.ask({"wait": self.pid})
        return self.code

    def send(self, number: signal.Signals) -> None:
        """Send a signal; it is there as long as nobody has asked for its exit code."""
        assert self.code is None
        os.kill(self.pid, number)

    def said(self) -> str:
        """All that it has said so far, on both streams."""
        return "".join(place.read_text() for place in self._said if place.exists())

    def done(self, seconds: float = 60) -> Result:
        """Wait for its end."""
        eventually(lambda: self.poll() is not None, seconds)
        assert self.code is not None
        return Result(self.code, *(place.read_text() for place in self._said))


class Forks:
    """Starts calls of ``dataprep`` in processes that have everything imported already."""

    def __init__(self, process: subprocess.Popen[str], place: Path) -> None:
        self._process = process
        self._place = place
        self._calls: list[Call] = []
        assert self._answer() == "ready"

    def start(
        self,
        *words: object,
        environment: Mapping[str, str] | None = None,
        patch: str = "",
    ) -> Call:
        """Start a call.

        Args:
            words: after ``dataprep``.
            environment: variables besides those of the tests.
            patch: Python that changes the world for this call.
        """
        base = self._place / str(len(self._calls))
        said = (base.with_suffix(".out"), base.with_suffix(".err"))
        order = {
            "words": [str(word) for word in words],
            "environment": dict(environment or {}),
            "patch": patch,
            "said": [str(place) for place in said],
        }
        pid = self.ask(order)
        assert pid is not None
        call = Call(self, pid, said)
        self._calls.append(call)
        return call

    def run(self, *words: object, patch: str = "") -> Result:
        """A call to its end."""
        return self.start(*words, patch=patch).done()

    def ask(self, order: Mapping[str, object]) -> int | None:
        """One order, one answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: int | None = json.loads(self._answer())
        return answer

    def end_all(self) -> None:
        """Kill what a failed test has left."""
        for call in self._calls:
            if call.poll() is None:
                with suppress(ProcessLookupError):
                    call.send(signal.SIGKILL)
                call.done()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        assert answer, "the process that forks has died"
        return answer


# So that nobody waits for seconds until it is said who for.
TOLD_AT_ONCE = "import dataprep.staging.node_lock as it; it._FIRST_TELL_SECONDS = 0.0\n"

# So that the order of what is copied is known.
ONE_STREAM = "import dataprep.staging.copier as it; it.default_streams = lambda: 1\n"

# Reading stops behind so many files, as if the file system hung, until a file is there.
_HANGING = """
import os, time
from dataprep.system.throttle import Bandwidth
def take(self, count, check=lambda: None, left=[{files}]):
    left[0] -= 1
    while left[0] < 0 and not os.path.exists({going_on!r}):
        check()
        time.sleep(0.005)
Bandwidth.take = take
"""


class Midway:
    """A call that has finished some files, and hangs in the middle of another one.

    Args:
        forks: starts it.
        words: after ``dataprep``.
        to: the target.
        files: how many it finishes.
        environment: variables.
    """

    def __init__(
        self,
        forks: Forks,
        *words: object,
        to: Path,
        files: int = 9,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._go = to.with_name(f"{to.name}.go")
        patch = ONE_STREAM + _HANGING.format(files=files, going_on=str(self._go))
        self.call = forks.start(*words, "--to", to, environment=environment, patch=patch)
        eventually(
            lambda: (partials(to) and len(arrived(to)) > files) or self.call.poll() is not None
        )
        assert self.call.code is None, self.call.done()

    def go_on(self) -> Result:
        """Let it end."""
        self._go.touch()
        return self.call.done()


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    environment = {name: text for name, text in os.environ.items() if not _SPOKEN.fullmatch(name)}
    environment["HOME"] = str(tmp_path_factory.mktemp("home"))  # nodes leave a secret there
    process = subprocess.Popen(
        [sys.executable, "-c", _FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with process:
        forks = Forks(process, tmp_path_factory.mktemp("said"))
        yield forks
        forks.end_all()
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def forks(forking: Forks) -> Iterator[Forks]:
    yield forking
    forking.end_all()


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of any job, whatever runs the tests."""
    for name in list(os.environ):
        if _SPOKEN.fullmatch(name):
            monkeypatch.delenv(name)


@pytest.fixture
def as_node(monkeypatch: pytest.MonkeyPatch) -> AsNode:
    """Be one of several nodes, as a loop of ssh says it, none of which meets another."""

    def be(node: int, nodes: int) -> None:
        monkeypatch.setenv("RANK", str(node))
        monkeypatch.setenv("WORLD_SIZE", str(nodes))

    return be


@pytest.fixture
def unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the disk: what a killed process has written is not lost, and a power cut
    cannot be tried here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="session")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Sets:
    """A data set in 7 + 3 shards, twice."""
    return shared(tmp_path_factory, "sets", make_sets)


@pytest.fixture(scope="session")
def source(sets: Sets) -> Path:
    """A sealed data set that no test changes."""
    return sets.first.out


@pytest.fixture
def mine(sets: Sets, tmp_path: Path) -> Path:
    """The same, for one test to change and to damage."""
    return sets.first.copy(tmp_path / "mine")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An empty directory to copy into."""
    path = tmp_path / "target"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[StageDirectory]:
    with StageDirectory.make(tmp_path / "copy") as opened:
        yield opened


@pytest.fixture
def target(place: Path) -> Iterator[int]:
    """Its descriptor."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)
