"""A Dask cluster of separate processes on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.faults.conftest import eventually
from tests.steering import install_sink, sink_in


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of packages that holds the sink."""
    return install_sink(tmp_path_factory.mktemp("site"))


@dataclass
class Cluster:
    """A scheduler and workers, each a process of its own."""

    directory: Path
    environment: Mapping[str, str]
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _started: list[psutil.Process] = field(default_factory=list)
    _logs: dict[int, Path] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """Where the scheduler wrote its address."""
        return self.directory / "scheduler.json"

    @property
    def address(self) -> str:
        return str(json.loads(self.file.read_bytes())["address"])

    def options(self) -> list[str]:
        """What makes dataprep run here."""
        return ["--runner", "dask", "--dask_client_address", self.address]

    def start_scheduler(self, **settings: object) -> None:
        """Settings in Dask's way of spelling environment variables, without their beginning."""
        self.file.unlink(missing_ok=True)
        words = ("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.scheduler = self._start([*words, "--scheduler-file", str(self.file)], settings)
        eventually(lambda: self.file.exists() and self.file.stat().st_size)

    def start_workers(
        self,
        count: int,
        *options: str,
        before: Sequence[str] = (),
        nanny: bool = False,
        **environment: str,
    ) -> list[subprocess.Popen[bytes]]:
        """Start workers of one thread, and wait until the scheduler knows them."""
        words = ["worker", "--scheduler-file", str(self.file), "--no-dashboard"]
        words += ["--nthreads", "1", "--local-directory", str(self.directory), *options]
        words += ["--nanny" if nanny else "--no-nanny"]
        new = [self._start(words, {}, before=before, **environment) for _ in range(count)]
        self.workers += new
        eventually(lambda: all("Registered to" in self.log(worker).read_text() for worker in new))
        return new

    def log(self, process: subprocess.Popen[bytes]) -> Path:
        """What a process of the cluster says."""
        return self._logs[process.pid]

    def close(self) -> None:
        """Leave no process behind."""
        family = {child for process in self._started for child in _family(process)}
        for process in family:
            for number in (signal.SIGKILL, signal.SIGCONT):
                try:
                    process.send_signal(number)
                except psutil.NoSuchProcess:
                    break
        for started in [self.scheduler, *self.workers]:
            if started is not None:
                started.wait()
        psutil.wait_procs(family, timeout=60)

    def _start(
        self,
        words: list[str],
        settings: Mapping[str, object],
        *,
        before: Sequence[str] = (),
        **environment: str,
    ) -> subprocess.Popen[bytes]:
        named = {f"DASK_DISTRIBUTED__{name}": str(value) for name, value in settings.items()}
        path = self.directory / f"{words[0]}-{len(self._started)}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                [*before, sys.executable, "-m", "dask", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment, **named, **environment},
                start_new_session=True,
            )
        self._started.append(psutil.Process(process.pid))
        self._logs[process.pid] = path
        return process


def _family(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return [process]


Start = Callable[..., Cluster]


def _environment(site: Path) -> dict[str, str]:
    # Deprecations inside other people's programs are none of this suite's business.
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="session")
def _dask_is_installed() -> None:
    for name in ("dask", "distributed"):
        if importlib.util.find_spec(name) is None:
            pytest.skip("the extra dask is not installed")


@pytest.fixture(scope="session")
def cluster(
    _dask_is_installed: None, site: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Two workers that serve many tests; none may harm it."""
    shared = Cluster(tmp_path_factory.mktemp("cluster"), _environment(site))
    try:
        shared.start_scheduler()
        shared.start_workers(2)
        yield shared
        assert [worker.poll() for worker in shared.workers] == [None, None]
    finally:
        shared.close()


@pytest.fixture
def own_cluster(_dask_is_installed: None, site: Path, tmp_path: Path) -> Iterator[Start]:
    """``own_cluster(workers, **settings of the scheduler)``, for a test that kills."""
    clusters: list[Cluster] = []

    def start(workers: int, *, nanny: bool = False, **settings: object) -> Cluster:
        directory = tmp_path / f"cluster-{len(clusters)}"
        directory.mkdir()
        found = Cluster(directory, _environment(site))
        clusters.append(found)
        found.start_scheduler(**settings)
        found.start_workers(workers, nanny=nanny)
        return found

    try:
        yield start
    finally:
        for found in clusters:
            found.close()


@pytest.fixture
def steered(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sink can be found here, and by processes that are started here."""
    with sink_in(site, monkeypatch):
        yield
