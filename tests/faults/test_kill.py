"""Processes killed: the same command ends with the same bytes, and leaves nothing behind.

Every moment is tried in tests/crash, without processes.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.conftest import BEAM, Cli, Made, hashes, leftovers, shelf_of
from tests.faults.conftest import commits, eventually


def check_finished(made: Made, out: Path) -> None:
    assert hashes(out) == made.files
    assert leftovers(out) == []
    notes = [path for path in (out / ".dataprep").rglob("*") if path.is_file()]
    assert {path.suffix for path in notes} == {".json", ".parquet"}


@pytest.mark.parametrize(
    ("name", "begun", "kills"),
    [("tfrecord", ".dataprep", 12), ("hdf5", "*.partial", 2), ("lmdb", "*.partial", 2)],
)
def test_kills_at_random_moments_are_healed(
    cli: Cli, photos: Made, tmp_path: Path, name: str, begun: str, kills: int
) -> None:
    """Also of what is built elsewhere first, while that is written."""
    made = shelf_of(photos, tmp_path / "shelf")(name, *photos.raw.options)
    moments = random.Random(name)
    place = tmp_path / "place"
    out, scratch = place / "out", place / "scratch"
    scratch.mkdir(parents=True)
    words = made.command(out, "--workers", 2, "--build_dir", scratch)
    while kills:
        process = cli.start(*words)

        def begun_or_over(it: subprocess.Popen[str] = process) -> bool:
            return any(place.rglob(begun)) or it.poll() is not None

        eventually(begun_or_over)
        time.sleep(moments.uniform(0.0, 0.3 if name == "tfrecord" else 0.04))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        code = cli.done(process).code
        kills -= code == -signal.SIGKILL
        if code == 0:
            check_finished(made, out)
            shutil.rmtree(out)
    assert cli(*words).code == 0
    check_finished(made, out)
    assert list(scratch.iterdir()) == []
    result = cli("verify", out, "--level", "records", "--workers", 2)
    assert result.code == 0, result


def written(path: Path) -> int:
    """How many bytes of a file, if it is there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize(
    ("name", "shards", "workers"),
    [
        ("tfrecord", 3, 5),  # more shards than there are processes
        ("recordio", 1, 6),  # six processes that help a seventh, which writes the only shard
    ],
)
def test_processes_whose_launcher_was_killed_stop_and_do_no_harm(
    cli: Cli, long: Made, tmp_path: Path, name: str, shards: int, workers: int
) -> None:
    """The next run starts at once, while they are still in the middle of a long shard."""
    take = shelf_of(long, tmp_path / "shelf")
    made = take(name, "--splits", "train", "--num_shards", shards, "--resize", "480x360")
    out = tmp_path / "out"
    launcher = cli.start(*made.command(out, "--workers", workers))
    eventually(lambda: any(map(written, out.rglob(".train*.partial"))))
    others = psutil.Process(launcher.pid).children(recursive=True)
    assert len(others) >= 2
    launcher.kill()
    launcher.wait()
    result = cli(*made.command(out, "--workers", 2))
    launcher.communicate()  # only now: the others hold the other ends of its pipes
    _, alive = psutil.wait_procs(others, timeout=60)
    assert alive == []
    assert result.code == 0, result
    check_finished(made, out)


@pytest.mark.parametrize(
    ("number", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGINT, 5)]
)
def test_a_signal_stops_cleanly_and_says_how_to_go_on(
    cli: Cli, long: Made, tmp_path: Path, number: signal.Signals, workers: int
) -> None:
    process = cli.start(*long.command(tmp_path, "--workers", workers))
    eventually(lambda: commits(tmp_path))
    os.killpg(process.pid, number)  # as a terminal does: the workers get it too
    result = cli.done(process, timeout=30)
    assert result.code == 128 + number
    assert f"stopped by {number.name}" in result.error
    assert "run the same command again" in result.error
    assert not (tmp_path / "manifest.json").exists()
    assert leftovers(tmp_path) == []
    kept = {path.name: path.stat().st_mtime_ns for path in commits(tmp_path)}
    assert 1 <= len(kept) < 9
    assert cli(*long.command(tmp_path, "--workers", 2)).code == 0
    again = {path.name: path.stat().st_mtime_ns for path in commits(tmp_path)}
    assert {name: again[name] for name in kept} == kept
    check_finished(long, tmp_path)


def test_a_killed_worker_process_is_an_error_and_not_a_hang(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    """As the kernel does it to whoever uses too much memory."""
    out = tmp_path / "out"
    running = cli.start(*tiny.command(out, "--workers", 5, *BEAM))
    launcher = psutil.Process(running.pid)
    workers: list[psutil.Process] = []
    while running.poll() is None and not workers:
        children = launcher.children(recursive=True)
        workers = [child for child in children if "dataprep_pipelines.worker" in child.cmdline()]
    workers[0].kill()
    result = cli.done(running)
    assert result.code == 1
    assert "a worker process died" in result.error
    psutil.wait_procs(workers, timeout=60)
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files
