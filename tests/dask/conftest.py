"""A Dask cluster of separate processes on loopback, and a run that is held up on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Cli, Made, Result
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, install_sink, sink_in

SHARD = "train-00003-of-00006"
SHARDS = 8  # of the tiny set
SINK = ("--sink", "steered")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of packages that holds the sink."""
    return install_sink(tmp_path_factory.mktemp("site"))


@dataclass
class Cluster:
    """A scheduler and workers, each a process of its own."""

    directory: Path
    site: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Where the scheduler wrote its address."""
        return self.directory / "scheduler.json"

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_bytes())["address"])

    @property
    def scheduler(self) -> subprocess.Popen[bytes]:
        return self._started[0]

    def options(self) -> list[str]:
        """What makes dataprep run here."""
        return ["--runner", "dask", "--dask_client_address", self.address]

    def start_scheduler(self, host: str = "127.0.0.1", **settings: object) -> None:
        """Settings in Dask's way of spelling environment variables, without their beginning."""
        words = ("scheduler", "--host", host, "--port", "0", "--no-dashboard")
        named = {f"DASK_DISTRIBUTED__{name}": str(value) for name, value in settings.items()}
        self._start([*words, "--scheduler-file", str(self.file)], named)
        eventually(lambda: self.file.exists() and self.file.stat().st_size)

    def start_workers(
        self, count: int, *, before: Sequence[str] = (), nanny: bool = False, site: str = ""
    ) -> list[subprocess.Popen[bytes]]:
        """Start workers of one thread, and wait until the scheduler knows them.

        Args:
            before: words before the command.
            site: another directory of packages, which comes first.
        """
        words = ["worker", "--scheduler-file", str(self.file), "--no-dashboard"]
        words += ["--nthreads", "1", "--local-directory", str(self.directory)]
        words += ["--nanny" if nanny else "--no-nanny"]
        new = [self._start(words, {}, before=before, site=site) for _ in range(count)]
        self.workers += new
        eventually(lambda: all("Registered to" in self.log(worker).read_text() for worker in new))
        return new

    def log(self, process: subprocess.Popen[bytes]) -> Path:
        """What a process of the cluster says."""
        return self.directory / f"{self._started.index(process)}.log"

    def close(self) -> None:
        """Leave no process behind."""
        for process in self._started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(
        self,
        words: list[str],
        settings: Mapping[str, str],
        *,
        before: Sequence[str] = (),
        site: str = "",
    ) -> subprocess.Popen[bytes]:
        places = (site, str(self.site), os.environ.get("PYTHONPATH"))
        # Deprecations inside other people's programs are none of this suite's business.
        quiet = {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
        path = {"PYTHONPATH": os.pathsep.join(filter(None, places))}
        with (self.directory / f"{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "dask", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **quiet, **path, **settings},
                start_new_session=True,
            )
        self._started.append(process)
        return process


Start = Callable[..., Cluster]


@pytest.fixture(scope="session", autouse=True)
def _dask_is_installed() -> None:
    if find_spec("dask") is None or find_spec("distributed") is None:
        pytest.skip("the extra dask is not installed")


@pytest.fixture(scope="session")
def cluster(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers that serve many tests; none may harm it."""
    shared = Cluster(tmp_path_factory.mktemp("cluster"), site)
    try:
        shared.start_scheduler()
        shared.start_workers(2)
        yield shared
        assert [worker.poll() for worker in shared.workers] == [None, None]
    finally:
        shared.close()


@pytest.fixture
def own_cluster(site: Path, tmp_path: Path) -> Iterator[Start]:
    """``own_cluster(workers, **settings of the scheduler)``, for a test that kills or listens."""
    clusters: list[Cluster] = []

    def start(workers: int, *, nanny: bool = False, **settings: Any) -> Cluster:
        directory = tmp_path / f"cluster-{len(clusters)}"
        directory.mkdir()
        clusters.append(Cluster(directory, site))
        clusters[-1].start_scheduler(**settings)
        clusters[-1].start_workers(workers, nanny=nanny)
        return clusters[-1]

    try:
        yield start
    finally:
        for each in clusters:
            each.close()


@pytest.fixture
def steered(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sink can be found here, and by processes that are started here."""
    with sink_in(site, monkeypatch):
        yield


@dataclass(frozen=True)
class Held:
    """A run that has made all shards but one, which waits; another process's, not this one's."""

    cli: Cli
    made: Made
    out: Path
    steer: Steer
    command: list[str]
    process: subprocess.Popen[str]

    @classmethod
    def on(cls, cluster: Cluster, cli: Cli, made: Made, out: Path) -> Held:
        """Start it, and wait until it is so far."""
        steer = Steer.of(out)
        steer.order(SHARD, "wait")
        command = made.command(out, *SINK, *cluster.options())
        process = cli.start(*command)
        eventually(lambda: len(commits(out)) == SHARDS - 1 and steer.obeyed(SHARD))
        return cls(cli, made, out, steer, command, process)

    def ended(self) -> Result:
        """What the run said, and its exit code."""
        return self.cli.done(self.process)

    def resume(self) -> None:
        """The same command makes what is missing, and the same bytes."""
        result = self.cli(*self.command)
        assert result.code == 0, result
        check_same(self.made, self.out)
