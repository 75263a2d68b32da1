"""How many workers there are is told when it changes, and not more often than somebody reads."""

from __future__ import annotations

import pytest

running = pytest.importorskip(
    "dataprep_pipelines.runners.dask.running", reason="the extra dask is not installed"
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
    monkeypatch.setattr(running.time, "monotonic", lambda: now)
    said: list[str] = []
    cluster = Cluster(a=4)
    dask = running.DaskRunning(cluster, 60.0, lambda: False, said.append, {"bad": "blind"})
    assert said == ["Dask: 1 worker, 4 threads, at tcp://h:1"]
    for _ in range(20):
        now += 5
        dask.attend()
    cluster.threads = {"a": 4, "b": 4, "bad": 8}
    now += 5
    dask.attend()
    cluster.threads["c"] = 4
    for _ in range(5):
        now += 5
        dask.attend()
    assert said[1:] == ["Dask: 2 workers, 8 threads"]
    now += 5
    dask.attend()
    assert said[2:] == ["Dask: 3 workers, 12 threads"]
    del cluster.threads["b"]
    now += 30
    dask.attend()
    assert said[3:] == ["Dask: 2 workers, 8 threads"]
    assert dask.at_once(running.Share()) == 8  # without the one that is of no use
