"""Launchers and workers with the real lock, and what must be true whatever befalls them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from dataprep.errors import DataprepError, DatasetError, PipelineError
from dataprep.formats import ShardName
from dataprep.jobs.output import commit, lock, workspace
from dataprep.jobs.output.commit import (
    finished_shard,
    publish_once,
    temporary_files,
)
from dataprep.jobs.output.lock import Lease, check_held, locked
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running import seal
from dataprep.jobs.running.seal import publish_manifest
from dataprep.jobs.running.shard import ShardStoppedError
from dataprep.system import durable_files, state_files
from dataprep.system.durable_files import write_durably
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.run import _forget
from dataprep_pipelines.tasks import task_file
from dataprep_schemas import manifest as shapes
from dataprep_schemas.state import CommitRecord, RowsFile
from tests.simulation import system
from tests.simulation.system import File, Host, Path, Process, System

OUT = Path("/out")
SHARDS = [ShardName("train", number, 2) for number in range(2)]
SLACK = 3 * lock.LEASE_SECONDS / 30 + 1  # of a silence: the last gap counts; clocks drift
LATE = 30.0  # seconds after its last look in which a worker's slow requests may publish
FAULTS = ("kill", "kill-late", "kill-underway", "stop", "stop-late", "pause", "pause-late")


@contextmanager
def simulated() -> Iterator[None]:
    """The modules under test see the simulated system."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (lock, durable_files):
            patch.setattr(module, "os", system.OS)
        patch.setattr(lock, "open_regular", lambda path, buffering: path.open("rb"))
        patch.setattr(
            durable_files, "open", lambda path, mode, opener: path.open(mode), raising=False
        )
        patch.setattr(state_files, "read_regular", lambda path, **_: path.read_bytes())
        patch.setattr(lock, "time", system.TIME)
        patch.setattr(lock, "socket", system.SOCKET)
        patch.setattr(lock, "threading", system.THREADING)
        patch.setattr(lock, "_machine", lambda: system.SYSTEM.current.process.host.name)
        patch.setattr(lock, "_look_up", lambda number: (b"S", f"{number}"))
        patch.setattr(lock, "_KNOWN", system.Known())
        for module in (lock, durable_files, workspace):
            patch.setattr(module, "secrets", system.SECRETS)
        patch.setattr(commit, "is_intact", lambda path, sha256: _sha256(_read(path)) == sha256)
        patch.setattr(seal, "sync_directory", lambda _: None)
        yield


def _sha256(data: bytes | None) -> str:
    return hashlib.sha256(data or b"").hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@dataclass(eq=False)
class Run:
    """One launcher.

    Attributes:
        request: what it makes; another one's shards have the same names and sizes.
        process: its own.
        lease: when it holds.
        workers: its workers' processes.
        over: when it was taken over.
        outcome: how it ended.
    """

    request: str
    host: Host
    places: Sequence[Host]
    process: Process = field(init=False)
    lease: Lease | None = None
    workers: list[Process] = field(default_factory=list)
    over: float = math.inf
    outcome: str = ""


class Schedule:
    """One schedule, from its seed to its findings.

    Attributes:
        problems: what must not be, in words; empty if all is well.
    """

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.seed = seed
        self.problems: list[str] = []
        self.removed_late: set[str] = set()
        self.system = sim = System(seed, trace=trace)
        random = self.random = sim.random
        sim.changing, sim.died = self._changing, self._died
        hosts = [Host(f"n{number}", random) for number in range(random.choice((2, 3)))]
        self.runs: list[Run] = []
        self.restarts = 1
        # As in PCT, few things go wrong, each at any operation, all equally likely.
        self.faults = [
            (random.choice(FAULTS), _duration(random)) for _ in range(random.choice((0, 1, 2, 3)))
        ]
        count = random.choice((2, 2, 3))
        for _ in range(count):
            places = [random.choice(hosts) for _ in range(1 if count == 3 else 2)]
            request = random.choice("AAB")
            self._launch(Run(request, random.choice(hosts), places), random.choice((0, 3, 20)))

    def trace(self) -> list[str]:
        """Time, host, process and operation of everything that was done."""
        return self.system.trace or []

    def run(self) -> list[str]:
        """Everything that happens, and what was wrong."""
        with system.running(self.system):
            self.system.run()
        for process in self.system.processes.values():
            if isinstance(process.error, BaseException):
                self.problems.append(f"{process.name}: {process.error!r}")
        for run in self.runs:
            if not (run.process.dead or run.process.ended):
                self.problems.append(f"{run.process.name} waits for ever")
        self._check_sealed()
        return self.problems

    def _launch(self, run: Run, latest: float) -> None:
        self.runs.append(run)
        name = f"launcher{len(self.runs)}{run.request}"
        after = self.random.uniform(0, latest)
        run.process = self.system.start(run.host, name, lambda: self._launcher(run), after)
        self._plan(run.process, 120)

    def _plan(self, process: Process, operations: int) -> None:
        if self.faults and self.random.random() < 0.5:
            process.faults[self.random.randint(1, self.random.choice((14, operations)))] = (
                self.faults.pop()
            )

    def _died(self, process: Process) -> None:
        """Whoever started it starts it again: the same command."""
        for run in self.runs[:]:
            if run.process is process and self.restarts:
                self.restarts -= 1
                host = run.host if self.random.random() < 0.5 else run.places[0]
                self._launch(Run(run.request, host, run.places), 40)

    # --- the program, in short ---

    def _launcher(self, run: Run) -> None:
        where = Workspace(OUT)  # type: ignore[arg-type]  # the simulated file system's
        try:
            with locked(where) as run.lease:
                self._build(run, where, run.lease)
            run.outcome = "sealed"
        except (DataprepError, OSError) as error:
            run.outcome = f"{type(error).__name__}: {error}"
        self.system.log(f"=== {run.outcome}")

    def _build(self, run: Run, where: Workspace, lease: Lease) -> None:
        for directory in (where.private, OUT, where.commits, OUT / "train"):
            for path in directory.glob(".*.partial"):
                path.unlink(missing_ok=True)
        failures = FailureLog(lease)
        self._claim(run, where, lease)
        pending = [shard for shard in SHARDS if finished_shard(where, shard) is None]
        if pending:
            check_held(lease)
            _forget(where, pending)
            with task_file(run.request, lease, None, "write"):
                for number, host in enumerate(run.places):
                    shards = pending[number:] + pending[:number]
                    self._start_worker(run, host, where, shards)
                while not all(worker.dead or worker.ended for worker in run.workers):
                    self.system.sleep(1)
                    failures.reraise()
            failures.reraise()
            check_held(lease)
            if any(finished_shard(where, shard) is None for shard in pending):
                raise PipelineError("the engine ended without making it")
        publish_manifest(where, lease, run.request.encode())

    def _claim(self, run: Run, where: Workspace, lease: Lease) -> None:
        check_held(lease)
        before = _read(where.job)  # type: ignore[arg-type]  # as above
        if before == run.request.encode():
            return
        if before is not None and run.request == "A":
            raise DatasetError("this directory is being made in another way")
        where.manifest.unlink(missing_ok=True)  # B is made with --overwrite
        for shard in SHARDS:
            made: list[Any] = [where.record(shard), *_finals(where, shard)]
            for path in made:
                path.unlink(missing_ok=True)
        write_durably(where.job, run.request.encode(), check=lambda: check_held(lease))

    def _start_worker(
        self, run: Run, host: Host, where: Workspace, shards: Sequence[ShardName]
    ) -> None:
        assert run.lease is not None
        lease = replace(run.lease)  # pickled

        def work() -> None:
            failures = FailureLog(lease)
            for shard in shards:
                with failures.recorded(shard):
                    if lease.lost() or failures.occurred():
                        return
                    if finished_shard(where, shard) is None:
                        try:
                            self._write_shard(run.request, lease, where, shard)
                        except ShardStoppedError:
                            return

        def guarded() -> None:
            try:
                work()
            except (DataprepError, OSError) as error:  # it cannot even tell; to the engine, it died
                self.system.log(f"=== {error}")
            self._check_stopped(lease)

        name = f"worker{len(run.workers) + 1} of {run.process.name[-2:]}"
        worker = self.system.start(host, name, guarded)
        run.workers.append(worker)
        self._plan(worker, 40)

    def _write_shard(self, request: str, lease: Lease, where: Workspace, shard: ShardName) -> None:
        """As `dataprep.jobs.running.shard.write_shard` does."""
        data = f"{request}{shard}".encode()
        finals = _finals(where, shard)
        with temporary_files(finals) as temporaries:  # type: ignore[arg-type]  # as above
            for path in temporaries:
                with path.open("xb") as file:
                    file.write(data)
            for _ in range(self.random.choice((1, 3))):
                self.system.sleep(self.random.uniform(0, 6))
                if lease.lost():
                    raise ShardStoppedError
            if lease.lost(now=True):
                raise ShardStoppedError
            made, rows = ((str(path.relative_to(OUT)), len(data), _sha256(data)) for path in finals)
            record = CommitRecord(shard, (shapes.File(*made),), RowsFile(*rows), 1)
            publish_once(where, record, temporaries, finals)  # type: ignore[arg-type]  # as above

    # --- what must be true ---

    def _changing(self, what: str, path: str, before: File | None, after: File | None) -> None:
        process, name = self.system.current.process, path.rpartition("/")[2]
        allowed = lock.LEASE_SECONDS - SLACK
        slept = process.ghost or process.longest >= allowed
        if name == "lock" and before is not None:
            owner = before.maker
            if what == "touch" and owner.number != process.number:
                self._problem(f"{process.name} touches the lock of {owner.name}")
            elif after is None and owner.number != process.number and not slept:
                self._problem(f"{process.name} removes the lock of {owner.name}")
            elif what == "rename":
                silent = max(before.longest, self.system.since(before.touched))
                if not (owner.dead or owner.ended) and silent < allowed:
                    self._problem(
                        f"{process.name} takes over {owner.name}, silent for {silent:.1f} s"
                    )
                for run in self.runs:
                    if run.process is owner:
                        run.over = self.system.now
        elif path.startswith("/out/train/train-"):
            if after is None and slept:
                self.removed_late.add(path)
            for run in self.runs:
                late = self.system.now - run.over > LATE
                if process in run.workers and late and not slept and not self.system.errors:
                    self._problem(f"{process.name} publishes after its run was taken over")
        elif name == "manifest.json" and after is not None:
            job = self.system.files.get("/out/.dataprep/job.json")
            if job is None or job.data != after.data:
                self._problem(f"{process.name} seals another job's directory")
        elif what == "unlink" and name.startswith(("failure-", "task-")):
            holder = self._holder()
            if holder and holder.lease and holder.process.number != process.number:
                # One that was stopped before it swept has looked when the directory was its own.
                began = any(run.process is process and not run.lease for run in self.runs)
                swept = slept and (began or process.ghost)
                if holder.lease.failure.stem in name and not swept:
                    self._problem(f"{process.name} removes {name} of {holder.process.name}")

    def _check_stopped(self, lease: Lease) -> None:
        process, found = self.system.current.process, self.system.files.get(str(lease.path))
        known = process.known.get((lease.path, lease.marker))
        if found and found.data.decode() == lease.marker and known and known.taken_over:
            self._problem(f"{process.name} stops for good, and its run has the lock")

    def _holder(self) -> Run | None:
        """Whose marker is in place, if it lives."""
        found = self.system.files.get("/out/.dataprep/lock")
        for run in self.runs:
            if found and run.process is found.maker and not (run.process.dead or run.process.ended):
                return run
        return None

    def _check_sealed(self) -> None:
        files = self.system.files
        manifest = files.get("/out/manifest.json")
        if manifest is None:
            return
        request = manifest.data.decode()
        for shard in SHARDS:
            path = f"/out/train/{shard}"
            found = files.get(path)
            if found is None and path in self.removed_late:
                continue  # by one that had looked before it was stopped
            if found is None or found.data != f"{request}{shard}".encode():
                self.problems.append(f"the seal is of {request}, {shard} is not")

    def _problem(self, text: str) -> None:
        self.system.log(f"!!! {text}")
        self.problems.append(text)


def _finals(where: Workspace, shard: ShardName) -> list[Path]:
    return [OUT / "train" / str(shard), where.rows(shard)]  # type: ignore[list-item]  # as above


def _duration(random: Random) -> float:
    """Of a suspension, in seconds."""
    return random.choice((random.uniform(0, 5), random.uniform(0, 40), random.uniform(25, 90)))


def again(seed: int) -> str:
    """How to see a schedule again."""
    return f"again: python -m tests.simulation --seed {seed}"


def sweep(seeds: Sequence[int], *, most: int | None = None) -> dict[int, list[str]]:
    """Try these schedules; returns what was wrong with which, at most so many."""
    found: dict[int, list[str]] = {}
    with simulated():
        for seed in seeds:
            problems = Schedule(seed).run()
            if problems:
                found[seed] = problems
                if len(found) == most:
                    break
    return found
