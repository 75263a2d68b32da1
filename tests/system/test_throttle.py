"""The bound on what all processes of a run read and write: divided, and complete."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.archives import open_files
from dataprep.cli.signals import resumable
from dataprep.errors import StagingError, StoppedError
from dataprep.jobs.running import build_directory, shard
from dataprep.sealed.verify import verify
from dataprep.system import throttle
from dataprep.system.throttle import Bandwidth, divide, io_limited, pay
from tests.conftest import Cli, Made, Shelf

_BOUND = """
from dataprep.system import throttle
print(throttle._OF_PROCESS._rate)
"""


# --- the threads of one process, on a clock that only sleeping moves ---


class Clock:
    """In place of the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(throttle, "time", found)
    return found


@given(
    rate=st.integers(1_000, 10**10),
    counts=st.lists(st.integers(1, 1 << 23), min_size=1, max_size=8),
)
def test_what_was_taken_never_exceeds_the_rate_by_more_than_the_burst(
    rate: int, counts: list[int]
) -> None:
    clock = Clock()
    with patch.object(throttle, "time", clock):
        limit = Bandwidth(rate)
        counts = [min(count, rate * 10) for count in counts]  # no more naps than a test can afford
        for count in counts:
            limit.take(count)
    least = sum(counts) / rate - 0.1
    assert least - 1e-6 <= clock.now - 100 <= sum(counts) / rate + 1e-6


def test_a_pause_saves_up_no_more_than_the_burst(clock: Clock) -> None:
    limit = Bandwidth(1000)
    clock.now += 3600
    before = clock.now
    limit.take(1100)
    assert clock.now - before == pytest.approx(1.0)
    Bandwidth(None).take(1 << 40)
    assert clock.now - before == pytest.approx(1.0)


def test_whoever_waits_can_be_stopped(clock: Clock) -> None:
    def stop_after_a_second() -> None:
        if clock.now > 101:
            raise StagingError("another node failed")

    with pytest.raises(StagingError, match="another node failed"):
        Bandwidth(1).take(3600, stop_after_a_second)
    assert clock.now < 102


# --- the processes of a run ---


class Recorder:
    """Counts what is paid for, and holds nobody up."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            self.paid.append(count)

    @property
    def total(self) -> int:
        return sum(self.paid)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What everything is paid to."""
    recorder = Recorder()
    monkeypatch.setattr(throttle._OF_PROCESS, "take", recorder.take)
    return recorder


@pytest.fixture
def written(meter: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """What the bytes of the output are paid to, instead of to the meter."""
    recorder = Recorder()
    for module in (build_directory, shard):
        monkeypatch.setattr(module, "pay", recorder.take)
    return recorder


def _of_child() -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BOUND], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_processes_share_the_bound_equally() -> None:
    with io_limited(4_000_000):
        divide(4)
        assert _of_child() == str(throttle._OF_PROCESS._rate) == "1000000.0"
        divide(1)
        assert _of_child() == str(throttle._OF_PROCESS._rate) == "4000000.0"
    assert _of_child() == "None"


def test_once_a_signal_lifts_it_no_thread_waits_any_more() -> None:
    with io_limited(1_000_000):
        threads = [threading.Thread(target=pay, args=(1 << 40,), daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        with pytest.raises(StoppedError), resumable("how to go on"):
            signal.raise_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        pay(1 << 40)


def test_a_new_bound_owes_nothing_for_an_old_one() -> None:
    limit = Bandwidth(1.0)
    limit.bound(None)
    limit.bound(1.0)
    with pytest.raises(TimeoutError):  # it has to wait, so the debt is there
        limit.take(1 << 40, _refuse)
    limit.bound(1e12)
    limit.take(1, _refuse)


def _refuse() -> None:
    raise TimeoutError


def test_what_is_verified_is_paid_for(tiny: Made, meter: Recorder) -> None:
    found = verify(tiny.out, "hash", threads=1)
    assert meter.total == found.bytes


def test_every_image_is_read_and_written_and_paid_for_once(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Recorder
) -> None:
    read = Recorder()
    monkeypatch.setattr(open_files, "pay", read.take)
    assert cli(*tiny.command(tmp_path / "out", "--workers", 2)).code == 0
    images = sorted(path.stat().st_size for path in tiny.raw.path.rglob("*.JPEG"))
    assert sorted(written.paid) == images
    assert read.total == sum(images)


def test_what_is_built_elsewhere_is_paid_for_when_it_is_copied(
    cli: Cli, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Recorder
) -> None:
    made = shelf("lmdb")
    written.paid.clear()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(build_directory, "filesystem_of", lambda path: "lustre")
    monkeypatch.setenv("DATAPREP_SCRATCH", str(tmp_path / "scratch"))
    assert cli(*made.command(tmp_path / "out", "--workers", 2)).code == 0
    databases = [made.out / name for name in made.files if "lmdb" in name]
    assert written.total == sum(path.stat().st_size for path in databases)
