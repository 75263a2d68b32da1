"""One copier a node, with processes that are killed, stopped, and too many."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from dataprep.errors import StagingError
from dataprep.staging import node_lock as module
from dataprep.staging.directory import PRIVATE, StageDirectory
from dataprep.staging.node_lock import LOCK, describe_holder, node_lock, try_lock

# Holds the lock, says so, does what it is told by its first argument, and waits to be killed.
_HOLDER = """
import pathlib, subprocess, sys
from dataprep.staging.directory import StageDirectory
from dataprep.staging.node_lock import node_lock
with StageDirectory.make(pathlib.Path(sys.argv[1])) as directory:
    with node_lock(directory):
        if "child" in sys.argv:
            child = subprocess.Popen(["sleep", "600"], close_fds=False, stdout=subprocess.DEVNULL)
            print(child.pid, flush=True)
        print("held", flush=True)
        sys.stdin.read()
"""


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    passing = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    monkeypatch.setattr(module, "time", passing)
    return clock


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture
def directory(target: Path) -> Iterator[StageDirectory]:
    with StageDirectory.make(target) as opened:
        yield opened


class Holder:
    """Somebody else who holds the lock: a lock is of an open file, so this process will do."""

    def __init__(self, target: Path) -> None:
        self._stack = ExitStack()
        directory = self._stack.enter_context(StageDirectory.make(target))
        assert self._stack.enter_context(node_lock(directory))

    def release(self) -> None:
        self._stack.close()


@pytest.fixture
def holder(target: Path, clock: Clock) -> Iterator[Holder]:
    holding = Holder(target)
    yield holding
    holding.release()


def start(script: str, *words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_free_lock_is_taken_and_given_back(directory: StageDirectory) -> None:
    for _ in range(2):
        assert describe_holder(directory) is None
        with node_lock(directory) as held:
            assert held
            assert f"process {os.getpid()} on " in str(describe_holder(directory))
    assert describe_holder(directory) is None


def test_the_lock_of_a_killed_holder_is_free_even_if_its_child_lives_on(
    target: Path, directory: StageDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_TELL_SECONDS", 0.0)
    lines: list[str] = []
    with start(_HOLDER, target, "child") as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        try:
            assert holder.stdout.readline() == "held\n"
            said = rf"process {holder.pid} on .* is working on it"
            assert re.fullmatch(said, str(describe_holder(directory)))
            with try_lock(directory) as held:
                assert not held

            def kill(line: str) -> None:
                lines.append(line)
                holder.kill()

            with node_lock(directory, on_wait=kill) as held:
                assert held
            os.kill(child, 0)  # still there
        finally:
            os.kill(child, signal.SIGTERM)
    assert lines[0].startswith(f"waiting for process {holder.pid} on ")
    assert lines[0].endswith(f", which works on {target}")


def remove(target: Path) -> None:
    shutil.rmtree(target)


def replace(target: Path) -> None:
    target.rename(target.with_name("old"))
    StageDirectory.make(target).close()


def remove_private(target: Path) -> None:
    shutil.rmtree(target / PRIVATE)


@pytest.mark.parametrize(
    ("change", "then"),
    [(remove, "released"), (replace, "holding on"), (remove_private, "released")],
)
def test_a_directory_that_is_cleaned_away_while_waiting_is_noticed(
    directory: StageDirectory, holder: Holder, change: Callable[[Path], None], then: str
) -> None:
    def clean(line: str) -> None:
        change(directory.path)
        if then == "released":
            holder.release()

    with (
        pytest.raises(StagingError, match="was removed or replaced"),
        node_lock(directory, on_wait=clean),
    ):
        pass


def test_a_lock_on_a_removed_file_is_worth_nothing(
    directory: StageDirectory, holder: Holder
) -> None:
    def clean(line: str) -> None:
        (directory.path / PRIVATE / LOCK).unlink()
        holder.release()

    with node_lock(directory, on_wait=clean) as held:
        assert held
        assert describe_holder(directory) is not None  # it holds the file that has the name now


@pytest.mark.parametrize("number", [errno.ENOLCK, 524])
def test_a_file_system_that_cannot_lock_is_named(
    directory: StageDirectory, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(number, "cannot")

    monkeypatch.setattr(fcntl, "flock", flock)
    for locking in (node_lock(directory), try_lock(directory)):
        with pytest.raises(StagingError, match=r"cannot lock files .*node's own"):
            locking.__enter__()
