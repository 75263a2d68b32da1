"""How many workers there are is told when it changes; and their memory."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from dataprep_pipelines.runners import Parallelism

dask = pytest.importorskip(
    "dataprep_pipelines.runners.dask", reason="the extra dask is not installed"
)


class Cluster:
    """Stands for a client: all that is asked of it here is who is there."""

    scheduler = type("Scheduler", (), {"address": "tcp://h:1"})()

    def __init__(self, **threads: int) -> None:
        self.threads = threads

    def nthreads(self) -> dict[str, int]:
        return self.threads


def test_workers_that_come_and_go_are_told_when_the_last_line_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(dask.time, "monotonic", lambda: now)
    said: list[str] = []
    cluster = Cluster(a=4)
    engine = dask.DaskEngine(cluster, 60.0, lambda: False, said.append)
    engine._runner.refusals["bad"] = "blind"
    assert said == ["Dask: 1 worker, 4 threads, at tcp://h:1"]
    for _ in range(20):
        now += 5
        engine.attend()
    cluster.threads = {"a": 4, "b": 4, "bad": 8}
    now += 5
    engine.attend()
    cluster.threads["c"] = 4
    for _ in range(5):
        now += 5
        engine.attend()
    assert said[2:] == ["Dask: 2 workers, 8 threads"]
    now += 5
    engine.attend()
    assert said[3:] == ["Dask: 3 workers, 12 threads"]
    del cluster.threads["b"]
    now += 30
    engine.attend()
    assert said[4:] == ["Dask: 2 workers, 8 threads"]
    assert engine.shards_at_once(Parallelism()) == 8  # without the one that is of no use


# Pages that the kernel had to bring for a hundred images of a megabyte, one after the other.
_FAULTS = """
import resource, sys
if "keep" in sys.argv:
    from dataprep_pipelines.runners.dask import keep_memory
    keep_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(1 << 20).find(b"x")
before = faults()
for _ in range(100):
    bytearray(1 << 20).find(b"x")
print(faults() - before)
"""


def faults(*arguments: str) -> int:
    command = [sys.executable, "-c", _FAULTS, *arguments]
    as_dask_does = {**os.environ, "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, env=as_dask_does, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_memory_of_one_image_serves_the_next() -> None:
    assert faults("keep") * 5 < faults()
