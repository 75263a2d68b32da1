"""Formats of one file, killed at any moment: the same bytes in the end, nothing left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.conftest import Cli, Made, Shelf, hashes, leftovers, shelf_of
from tests.faults.conftest import Forks, eventually

# Long enough to be killed in the middle; one shard, so that more workers than four are helpers.
_HELPED = (*("--splits", "train", "--num_shards", 1), *("--resize", "480x360"))


@pytest.fixture(scope="module")
def photo_shelf(photos: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return shelf_of(photos, tmp_path_factory.mktemp("photo-shelf"))


@pytest.fixture(scope="module")
def long_shelf(long: Made, tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return shelf_of(long, tmp_path_factory.mktemp("long-shelf"))


def begun(place: Path, process: int) -> bool:
    return any(place.rglob("*.partial")) or not psutil.pid_exists(process)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["hdf5", "lmdb"])
def test_kills_while_a_shard_is_written_are_healed(
    forks: Forks, photo_shelf: Shelf, tmp_path: Path, name: str
) -> None:
    """Also of what is built elsewhere first."""
    made = photo_shelf(name)
    moments = random.Random(name)
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    scratch.mkdir()
    words = made.command(out, "--workers", 2, "--build_dir", scratch)
    kills = 0
    for _ in range(20):
        process = forks.start(words)
        eventually(partial(begun, tmp_path, process))
        time.sleep(moments.uniform(0.0, 0.04))
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        killed = forks.wait() == -signal.SIGKILL
        kills += killed
        if not killed:
            assert hashes(out) == made.files
            shutil.rmtree(out)
        if kills == 2:
            break
    assert kills == 2
    assert forks.run(words) == 0
    assert hashes(out) == made.files
    assert leftovers(tmp_path) == []
    assert list(scratch.iterdir()) == []


# --- processes that help with images ---


def helpers_of(process: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(process).children()
        return [child for child in children if "dataprep_pipelines.worker" in child.cmdline()]
    return []


def gone(processes: list[psutil.Process]) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=30)
    return alive == []


class Helped:
    """A run with six processes that help a seventh, which writes the only shard."""

    def __init__(self, cli: Cli, made: Made, out: Path) -> None:
        self.made, self.out, self._cli = made, out, cli
        self.process = cli.start(*made.command(out, "--workers", 6))
        self.helpers: list[psutil.Process] = []
        eventually(self._seen)

    def _seen(self) -> bool:
        """Whether some of the shard has been written, from what helpers made."""
        assert self.process.poll() is None
        self.helpers = helpers_of(self.process.pid)
        return any(path.stat().st_size for path in self.out.glob(".train.rec.*.partial"))

    def check_resumed(self) -> None:
        assert gone(self.helpers)
        result = self._cli(*self.made.command(self.out, "--workers", 2))
        assert result.code == 0, result
        assert hashes(self.out) == self.made.files
        assert leftovers(self.out) == []


@pytest.fixture
def helped(cli: Cli, long_shelf: Shelf, tmp_path: Path) -> Helped:
    return Helped(cli, long_shelf("recordio", *_HELPED), tmp_path)


@pytest.mark.thorough
def test_helpers_end_when_their_launcher_is_killed(helped: Helped) -> None:
    helped.process.kill()
    helped.process.wait()
    helped.check_resumed()
    helped.process.communicate()  # only now: the helpers held the other ends of its pipes
