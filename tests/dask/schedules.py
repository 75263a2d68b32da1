# ruff: noqa: T201 - it prints what it finds
"""Seeded schedules of kills and losses on Dask: the same command completes, with the same bytes.

``python -m tests.dask.schedules --schedules 200`` runs many, ``--first NUMBER --schedules 1`` one
again. A few are among the thorough tests.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.conftest import DATAPREP, hashes, leftovers
from tests.dask.conftest import SINK, Cluster
from tests.steering import Steer, add_distribution, install_sink

SECONDS: Final = 180.0  # of a run; those that end have taken a third of it at most
RERUNS: Final = 4
SHARDS: Final = [f"train-{number:05d}-of-00006" for number in range(6)]
TIMEOUT: Final = ("--dask_timeout", "20")
OPTIONS: Final = ("--num_shards", "train=6,validation=2", "--workers", "1")


@dataclass(frozen=True)
class Given:
    """What all schedules share: raw data, the bytes that must come of it, and the sink."""

    raw: Path
    files: dict[str, str]
    site: Path
    other: Path  # a sink of another version

    @classmethod
    def made(cls, place: Path) -> Given:
        """Make it, without Dask."""
        raw, out, other = place / "raw", place / "out", place / "other"
        synthesize_imagenet(raw, classes=4, images_per_class=12)
        site = install_sink(place / "site")
        add_distribution(
            other, "steered-sink", "2", "[dataprep.sinks]\nsteered = steered:SteeredSink\n"
        )
        shutil.copy(site / "steered.py", other)
        done = subprocess.run(_words(raw, out), env=_env(site), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return cls(raw, hashes(out), site, other)


def run(seed: int, given: Given, place: Path) -> str:
    """One schedule: whether it completed, or a rerun did; or what is bad."""
    draw = random.Random(seed)
    out = place / "out"
    steer, clusters = Steer.of(out), list[Cluster]()
    for shard in draw.sample(SHARDS, draw.choice((0, 1, 1, 2))):
        what = draw.choice(("SIGKILL", "SIGKILL", "SIGSTOP", "OSError", "BlockingIOError"))
        steer.order(shard, what, record=draw.choice((0, 1, 3, "close")), times=draw.choice((1, 2)))
    loss = draw.choice(
        (None, "scheduler", "launcher", "worker", "nanny", "hang", "SIGTERM", "other")
    )
    wait = draw.uniform(0.5, 5.0)
    try:
        for attempt in range(1 + RERUNS):
            # Workers of the one before live on: those that wake must do no harm.
            clusters.append(_cluster(place / str(attempt), given, draw, None if attempt else loss))
            code, said = _launched(given, out, clusters[-1], None if attempt else loss, wait)
            _go_on(clusters[-1])
            if code == 0:
                break
            if code > 0 and (said.count("\n") > 40 or "Traceback" in said):
                return f"bad: it says {said[-600:]!r}"
        else:
            return f"bad: {RERUNS} reruns did not complete: {said[-300:]!r}"
        if hashes(out) != given.files:
            return "bad: other bytes"
        deadline = time.monotonic() + 30
        while left := leftovers(out):
            if time.monotonic() > deadline:
                return f"bad: left {left}"
            time.sleep(0.2)
        return "completed" if attempt == 0 else "a rerun completed"
    finally:
        for cluster in clusters:
            cluster.close()


def _cluster(place: Path, given: Given, draw: random.Random, loss: str | None) -> Cluster:
    place.mkdir()
    cluster = Cluster(place, given.site)
    cluster.start_scheduler(SCHEDULER__WORKER_TTL="3s")
    cluster.start_workers(2, nanny=loss == "nanny" or draw.random() < 0.3)
    if loss == "other":
        cluster.start_workers(1, site=str(given.other))
    return cluster


def _launched(
    given: Given, out: Path, cluster: Cluster, loss: str | None, wait: float
) -> tuple[int, str]:
    """Run the command, and lose something meanwhile; its exit code, and what it said."""
    process = subprocess.Popen(
        [*_words(given.raw, out), *cluster.options(), *TIMEOUT],
        env=_env(given.site),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    worker = cluster.workers[0].pid
    losses: dict[str | None, Callable[[], None]] = {
        "scheduler": cluster.scheduler.kill,
        "launcher": process.kill,
        "SIGTERM": process.terminate,
        "worker": lambda: os.killpg(worker, signal.SIGKILL),
        "nanny": lambda: os.kill(worker, signal.SIGKILL),
        "hang": lambda: _hang(worker),
    }
    timer = threading.Timer(wait, losses.get(loss, lambda: None))
    timer.start()
    try:
        _, said = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return 99, f"no end after {SECONDS} s: {process.communicate()[1]}"
    finally:
        timer.cancel()
        timer.join()
    return process.returncode, said


def _hang(worker: int) -> None:
    with suppress(psutil.Error):
        for each in [psutil.Process(worker), *psutil.Process(worker).children(recursive=True)]:
            each.suspend()
        threading.Timer(6.0, _resume, [worker]).start()


def _resume(worker: int) -> None:
    with suppress(psutil.Error):
        for each in [psutil.Process(worker), *psutil.Process(worker).children(recursive=True)]:
            each.resume()


def _go_on(cluster: Cluster) -> None:
    for worker in cluster.workers:
        _resume(worker.pid)


def _words(raw: Path, out: Path) -> list[str]:
    places = ["--raw_data_dir", str(raw), "--local_scratch_dir", str(out)]
    return [*DATAPREP, "imagenet", *places, *OPTIONS, *SINK]


def _env(site: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as scratch:
        given = Given.made(Path(scratch))
        for seed in range(asked.first, asked.first + asked.schedules):
            place = Path(scratch, f"schedule-{seed}")
            place.mkdir()
            started = time.monotonic()
            what = run(seed, given, place)
            found[what.partition(":")[0]] += 1
            print(f"{seed}: {what} ({time.monotonic() - started:.0f} s); {dict(found)}", flush=True)
            shutil.rmtree(place, ignore_errors=True)
    sys.exit(bool(found["bad"]))


if __name__ == "__main__":
    _main()
