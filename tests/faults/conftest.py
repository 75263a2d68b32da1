"""Processes to kill, a small disk to fill, and a user who may not read everything."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Made, Raw, make

# Imports everything once, then forks a process a run, so that a kill costs no start-up. The process
# that forks never opens a database or reads a table: their threads would not be there in its forks.
_FORKS = """
import json, os, sys
import apache_beam
import dataprep_pipelines.run, dataprep_pipelines.scan, dataprep_pipelines.write
import h5py, lmdb
import dataprep.api.progress, dataprep.synthesize.imagenet
from dataprep.cli import main

print("ready", flush=True)
for line in sys.stdin:
    run = json.loads(line)
    child = os.fork()
    if child == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        os._exit(main(run["words"]))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    """Starts runs that can be killed, in processes that have everything imported already."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._answer()

    def run(self, words: list[str]) -> int:
        """Run to the end; returns the exit code."""
        self.start(words)
        return self.wait()

    def start(self, words: list[str]) -> int:
        """Start a run; returns its process, which leads a process group."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"words": words}) + "\n")
        self._process.stdin.flush()
        return int(self._answer())

    def wait(self) -> int:
        """The exit code, or minus the signal."""
        return int(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    with subprocess.Popen(
        [sys.executable, "-c", _FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield Forks(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture(scope="session")
def long(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """304 links to one photograph-sized image in 8 + 1 shards: a second of work on one core."""
    path = tmp_path_factory.mktemp("long")
    photo = path / "photo.jpg"
    Image.effect_noise((500, 375), 60).convert("RGB").save(photo, quality=92)
    for synset in ("n01440764", "n02097658", "n03720891"):
        folder = path / "raw" / "train" / synset
        folder.mkdir(parents=True)
        for number in range(100):
            (folder / f"{synset}_{number}.JPEG").hardlink_to(photo)
    folder = path / "raw" / "validation"
    folder.mkdir()
    for number in range(1, 5):
        (folder / f"ILSVRC2012_val_{number:08d}.JPEG").hardlink_to(photo)
    raw = Raw(path / "raw", ("--num_shards", "train=8,validation=1"))
    return make(raw, path / "out")


def commits(out: Path) -> list[Path]:
    """The commit records: what is finished."""
    return sorted((out / ".dataprep" / "commits").glob("[!.]*.json"))


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """``small_disk(size)`` mounts a tmpfs of that size, or resizes it; needs root."""
    path = tmp_path / "disk"
    path.mkdir()

    def mounted(size: str) -> Path:
        options = f"size={size},nr_inodes=4k" + (",remount" if path.is_mount() else "")
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
        if os.geteuid() != 0 or shutil.which("mount") is None:
            pytest.skip("only root may mount a small file system")
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"a small file system cannot be mounted: {done.stderr.strip()}")
        return path

    yield mounted
    if path.is_mount():
        gc.collect()  # errors that went through Beam are in cycles, and hold open files
        subprocess.run(["umount", str(path)], check=True)


@pytest.fixture
def public_path() -> Iterator[Path]:
    """A directory that every user may enter and write to; pytest's own are closed to others."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o777)
        yield path


@pytest.fixture
def ordinary_user() -> Callable[[], AbstractContextManager[None]]:
    """``with ordinary_user():`` file permissions count, even if the tests are run by root."""

    @contextmanager
    def become() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        try:
            os.seteuid(65534)
        except PermissionError:
            pytest.skip("root cannot become another user here, and root may read everything")
        try:
            yield
        finally:
            os.seteuid(0)

    return become
