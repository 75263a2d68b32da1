"""Processes to kill, a small disk to fill, and a user who may not read everything."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Made, Raw, make


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again at once."""
    monkeypatch.setattr("dataprep_pipelines.run._PAUSES", (0.0, 0.0))


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
