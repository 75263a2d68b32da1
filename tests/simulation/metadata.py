"""Where a metadata server becomes the limit: ``python -m tests.simulation.metadata --help``.

A launcher and workers with the real lock, lease and commit, in virtual time. Every request waits
for its turn at one server; what an image itself costs, docs/scale.md counts beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pytest

from dataprep.formats import ShardName
from dataprep.jobs.output import commit
from dataprep.jobs.output.commit import ShardProgress, finished_shard, publish_once, temporary_files
from dataprep.jobs.output.lock import Lease, locked
from dataprep.jobs.output.workspace import Workspace
from dataprep_pipelines import run
from dataprep_pipelines.failures import FailureLog
from dataprep_schemas.manifest import File
from dataprep_schemas.state import CommitRecord, RowsFile
from tests.simulation import system
from tests.simulation.scenario import simulated
from tests.simulation.system import Host, Path, System

_OUT: Final = Path("/out")
_TRAVEL: Final = 0.0005  # seconds of a request beside its turn
_DATA: Final = b"of a shard"
_BESIDE: Final = 19  # more of a shard: its directories, its part of the order; docs/scale.md
_STEP: Final = 1.0  # seconds between two images, at least: only where they fall in time matters


@dataclass(frozen=True, slots=True)
class Load:
    """What a run asks of the server.

    Attributes:
        seconds: of virtual time, from the first shard to the last.
        requests: by kind.
        busy: share of the time in which the server worked.
    """

    seconds: float
    requests: Counter[str]
    busy: float


class _Server(System):
    """A system in which nothing goes wrong, and one server serves all, one after another."""

    def __init__(self, rate: float) -> None:
        super().__init__(0)
        self.lag = self.slow = self.errors = 0.0
        self.away, self.horizon = (0.0, 0.0), 1e9
        self.requests: Counter[str] = Counter()
        self._each, self._free = 1 / rate, 0.0

    def request(self, what: str, effect: Callable[[], Any]) -> Any:
        """See `System.request`."""
        self.check()
        self.requests[what.split()[0]] += 1
        self._free = max(self._free, self.now) + self._each
        self.sleep(self._free - self.now + _TRAVEL)
        return effect()


def load(workers: int, shards: int, seconds: float, rate: float, look_seconds: float) -> Load:
    """Have every worker make so many shards.

    Args:
        seconds: that a shard takes without the server.
        rate: of the server, requests a second.
        look_seconds: between two looks of a worker at the lock.
    """
    server = _Server(rate)
    names = [ShardName("train", number, workers * shards) for number in range(workers * shards)]
    where = Workspace(_OUT)  # type: ignore[arg-type]  # the simulated file system's

    def launch() -> None:
        with locked(where) as lease:
            lease = replace(lease, look_seconds=look_seconds)
            failures = FailureLog(lease)
            started = [
                server.start(
                    Host(f"n{number}", server.random),
                    f"worker{number}",
                    partial(_make, server, where, lease, names[number::workers], seconds),
                    # They do not begin at one moment, nor end at one.
                    after=number / workers * seconds,
                )
                for number in range(workers)
            ]
            known: set[str] = set()

            def look() -> None:
                failures.of_shards()
                known.update(str(it.shard) for it in commit.read_records(where, known))
                commit.images_under_way(where)

            paced = run.paced(look)
            while not all(worker.ended for worker in started):
                server.sleep(0.5)
                paced()

    with simulated(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "time", system.TIME)
        patch.setattr(run, "time", system.TIME)
        patch.setattr(commit, "read_regular", lambda path: path.read_bytes())
        launcher = server.start(Host("login", server.random), "launcher", launch)
        with system.running(server):
            server.run()
    if launcher.error is not None:
        raise launcher.error
    assert sum(path.endswith(".json") for path in server.files) == len(names)
    requests = sum(server.requests.values())
    return Load(server.now, server.requests, requests / rate / server.now)


def _make(
    server: _Server, where: Workspace, lease: Lease, shards: Sequence[ShardName], seconds: float
) -> None:
    """As `dataprep.jobs.running.shard.write_shard` and its callers do."""
    lease = replace(lease)  # pickled
    failures = FailureLog(lease)
    sha256 = hashlib.sha256(_DATA).hexdigest()
    for shard in shards:
        with failures.recorded(shard):
            assert not lease.lost()
            assert not failures.occurred()
            assert finished_shard(where, shard) is None
            progress = ShardProgress(where, shard, lease.look_seconds)
            finals: list[Any] = [
                _OUT / "train" / str(shard),
                _OUT / "index" / "train" / str(shard),
                where.rows(shard),
            ]
            with temporary_files(finals) as temporaries:
                for _ in range(_BESIDE):
                    server.request("other", lambda: None)
                for path in temporaries:
                    with path.open("xb") as file:
                        file.write(_DATA)
                end = server.now + seconds
                while server.now < end:
                    server.sleep(min(_STEP, end - server.now))
                    assert not lease.lost()
                    progress.advance()
                assert not lease.lost(now=True)
                data, index, rows = (
                    (str(path.relative_to(_OUT)), len(_DATA), sha256) for path in finals
                )
                record = CommitRecord(shard, (File(*data), File(*index)), RowsFile(*rows), 1)
                publish_once(where, record, temporaries, finals)
            with suppress(OSError):
                progress.finish()


def main() -> None:
    # late: it wants Dask, and the tests do not
    from dataprep_pipelines.runners.dask import _LONGEST_LOOK, _LOOKS_A_SECOND

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--shards", type=int, default=4, help="of each worker")
    parser.add_argument("--seconds", type=float, default=1.3, help="that a shard takes")
    parser.add_argument("--rate", type=float, default=20_000, help="requests a second")
    parser.add_argument("--look", type=float, help="seconds between looks (default: as on Dask)")
    arguments = parser.parse_args()
    kinds = ("open", "read", "write", "stat", "list", "rename", "link", "unlink", "other")
    _say("workers", "shards a second, ideally", "server busy", "requests a shard", *kinds)
    for workers in arguments.workers:
        look = arguments.look or min(max(workers / _LOOKS_A_SECOND, 2.0), _LONGEST_LOOK)
        found = load(workers, arguments.shards, arguments.seconds, arguments.rate, look)
        shards = workers * arguments.shards
        made = f"{shards / found.seconds:.0f}, {workers / arguments.seconds:.0f}"
        each = [found.requests[kind] / shards for kind in kinds]
        requests = sum(found.requests.values()) / shards
        _say(workers, made, f"{found.busy:.0%}", *(f"{it:.1f}" for it in (requests, *each)))


def _say(*cells: object) -> None:
    sys.stdout.write(f"| {' | '.join(map(str, cells))} |\n")


if __name__ == "__main__":
    main()
