"""Processes killed: the same command ends with the same bytes, and leaves nothing behind.

Every moment is tried in tests/crash, without processes.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import Cli, Made, hashes, leftovers
from tests.faults.conftest import Forks, commits, eventually


def check_finished(made: Made, out: Path) -> None:
    assert hashes(out) == made.files
    assert leftovers(out) == []
    notes = [path for path in (out / ".dataprep").rglob("*") if path.is_file()]
    assert {path.suffix for path in notes} == {".json", ".parquet"}


# --- at random moments ---


@pytest.mark.thorough
def test_kills_at_random_moments_are_healed(
    cli: Cli, photos: Made, forks: Forks, tmp_path: Path
) -> None:
    moments = random.Random(2012)
    out = tmp_path / "0"
    kills = finished = 0
    while kills < 16:
        process = forks.start(photos.command(out, "--workers", 2))
        time.sleep(moments.uniform(0.0, 0.3))
        with suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        code = forks.wait()
        kills += code == -signal.SIGKILL
        if code == 0:
            check_finished(photos, out)
            finished += 1
            out = tmp_path / str(finished)
    assert cli(*photos.command(out, "--workers", 2)).code == 0
    check_finished(photos, out)
    result = cli("verify", out, "--level", "records", "--workers", 2)
    assert result.code == 0, result


@pytest.mark.thorough
def test_workers_whose_launcher_was_killed_stop_and_do_no_harm(
    cli: Cli, long: Made, tmp_path: Path
) -> None:
    """The next run starts at once, while they are still in the middle of a long shard."""
    options = ("--splits", "train", "--num_shards", "train=3")  # more than there are processes
    assert cli(*long.command(tmp_path / "whole", *options)).code == 0
    out = tmp_path / "out"
    process = cli.start(*long.command(out, *options, "--workers", 5))
    eventually(lambda: any(out.glob("train/.*.partial")))
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    process.wait()
    result = cli(*long.command(out, *options, "--workers", 2))
    process.communicate()  # only now: the workers hold the other ends of its pipes
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
    assert result.code == 0, result
    assert hashes(out) == hashes(tmp_path / "whole")
    assert leftovers(out) == []


# --- signals ---


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
    assert re.search("run the same command again", result.error)
    assert not (tmp_path / "manifest.json").exists()
    assert [name for name in leftovers(tmp_path) if not name.endswith("failure.json")] == []
    kept = {path.name: path.stat().st_mtime_ns for path in commits(tmp_path)}
    assert 1 <= len(kept) < 9
    assert cli(*long.command(tmp_path, "--workers", 2)).code == 0
    again = {path.name: path.stat().st_mtime_ns for path in commits(tmp_path)}
    assert {name: again[name] for name in kept} == kept
    check_finished(long, tmp_path)


def test_a_killed_worker_process_is_an_error_and_not_a_hang(tiny: Made, tmp_path: Path) -> None:
    # As the kernel does it to whoever uses too much memory.
    out = tmp_path / "out"
    words = [*tiny.raw.command(out), "--workers", "5"]
    running = subprocess.Popen(
        [sys.executable, "-m", "dataprep", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    launcher = psutil.Process(running.pid)
    workers: list[psutil.Process] = []
    while running.poll() is None and not workers:
        workers = [
            child
            for child in launcher.children(recursive=True)
            if "dataprep_pipelines.worker" in child.cmdline()
        ]
    workers[0].kill()
    _, printed = running.communicate(timeout=120)
    assert running.returncode == 1
    assert "a worker process died" in printed
    assert "Traceback" not in printed
    psutil.wait_procs(workers, timeout=60)
    done = subprocess.run(
        [sys.executable, "-m", "dataprep", *words[:-1], "1"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert hashes(out) == tiny.files
