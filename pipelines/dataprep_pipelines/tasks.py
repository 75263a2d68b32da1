"""What the workers of a run are told, and what they must have in common with the launcher.

A task's specification is in a file that all workers share, not in every message to them: class
names alone can be megabytes, and a graph of ten thousand shards should not carry them as often. A
worker reads it once a process, and makes sure that it sees the same files and runs the same
programs: the same bytes come out wherever a shard is made only if the same libraries make them.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import socket
import sys
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from dataprep.build.claim import remove_partial_files
from dataprep.build.lock import Lease
from dataprep.build.workspace import Workspace
from dataprep.datasets import close_archives
from dataprep.errors import PipelineError
from dataprep.system.durable_files import write_durably
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.runners.engine import Engine, RunningEngine, started

# What has a part in the bytes of a shard besides `codec_versions`, or in graphs sent to workers.
_PACKAGES = (
    *("dataprep-shards", "apache-beam", "numpy", "h5py"),
    *("lmdb", "protobuf", "msgpack", "google-crc32c"),
)
_PLUGINS = ("dataprep.sinks", "dataprep.datasets")
_SHARED = "put it on a file system that all workers share, under the same path"

_READING = threading.Lock()
_READ: OrderedDict[Path, Any] = OrderedDict()
_KEPT = 8  # a worker may serve several runs at a time


class CannotWorkError(PipelineError):
    """This worker cannot work for that run, whatever it is given; others may."""


@cache
def programs() -> dict[str, str]:
    """The versions of all that has a part in the bytes: here, in this process."""
    from dataprep.images import codec_versions

    found = {name: _version(name) for name in _PACKAGES} | codec_versions()
    for group in _PLUGINS:
        for entry in entry_points(group=group):
            if entry.dist is not None:
                found[entry.dist.name] = entry.dist.version
    found["Python"] = ".".join(platform.python_version_tuple()[:2])
    found["Python's zlib"] = zlib.ZLIB_RUNTIME_VERSION
    found["the machine"] = platform.machine()
    return found


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@dataclass(frozen=True, slots=True)
class WorkerRequirements:
    """What workers must share with the launcher.

    Attributes:
        out: the output directory, as the launcher names it.
        raw: the raw data.
        marker: a file in the output directory that only this run has.
        others: further directories that were asked for, by the options that name them.
        programs: what the launcher runs; see `with_programs`.
    """

    out: Path
    raw: Path
    marker: Path
    others: tuple[tuple[str, Path], ...] = ()
    programs: dict[str, str] = field(default_factory=dict)

    def with_programs(self) -> WorkerRequirements:
        """The same, with what this process runs, for workers elsewhere to compare."""
        return replace(self, programs=programs())

    def check(self) -> None:
        """Whether this process, wherever it is, may work for the launcher.

        Raises:
            CannotWorkError: it may not; the message says why, and on which host.
        """
        host = socket.gethostname()
        for option, place, path in (
            ("--local_scratch_dir", self.out, self.marker),
            ("--raw_data_dir", self.raw, self.raw),
            *((option, path, path) for option, path in self.others),
        ):
            if not path.exists():
                remedy = "make it on every worker's host" if option == "--build_dir" else _SHARED
                raise CannotWorkError(f"a worker on {host} does not see {option} {place}; {remedy}")
        own = programs()
        for name, there in sorted(self.programs.items()):
            here = own.get(name, "none")
            if here != there:
                raise CannotWorkError(
                    f"a worker on {host} has {name} {here}, this command has {there}; the bytes "
                    f"could differ: give all the same environment (the worker's is {sys.prefix})"
                )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Where it says what is to be done; pickled into every task, so it is small.

    Attributes:
        path: the file.
        lease: of the run that wrote it.
        sha256: of the file. Reading it runs what is in it, and others may be able to write there.
    """

    path: Path
    lease: Lease
    sha256: str

    def read(self) -> Any:
        """What is to be done, the same object for all threads of a process.

        Raises:
            CannotWorkError: this process cannot do it; or it was withdrawn, since the run is over,
                which looks the same from a host with a directory of that name of its own.
        """
        with _READING:
            if self.path in _READ:
                return _READ[self.path]
            host = socket.gethostname()
            try:
                requirements, task = self._load()
            except FileNotFoundError:
                raise CannotWorkError(
                    f"a worker on {host} does not see --local_scratch_dir {self.path.parents[1]}; "
                    f"{_SHARED}"
                ) from None
            except (ImportError, AttributeError) as error:
                raise CannotWorkError(
                    f"a worker on {host} does not have what its task needs ({error}); give all the "
                    "same environment"
                ) from error
            if requirements is not None:
                requirements.check()
            # This process may have worked for another run, and the raw data changed since.
            close_archives()
            _READ[self.path] = task
            while len(_READ) > _KEPT:
                _READ.popitem(last=False)
            return task

    def _load(self) -> Any:
        content = self.path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise CannotWorkError(
                f"{self.path} is not what this run wrote; see who else can write there"
            )
        return pickle.loads(content)  # noqa: S301  # ours, as was just made sure


@contextmanager
def task_file(
    task: Any, lease: Lease, requirements: WorkerRequirements | None, name: str
) -> Iterator[TaskSpec]:
    """A task that workers can read as long as this lasts.

    Args:
        task: anything that can be pickled.
        lease: of this run.
        requirements: what workers elsewhere must have; None: there are none elsewhere.
        name: what to call the file, one a phase of the run.
    """
    path = lease.failure.with_name(f"task-{lease.failure.stem}-{name}.pickle")
    content = pickle.dumps((requirements, task))
    write_durably(path, content)
    try:
        yield TaskSpec(path, lease, hashlib.sha256(content).hexdigest())
    finally:
        path.unlink(missing_ok=True)
        with _READING:
            _READ.pop(path, None)


@dataclass(frozen=True, slots=True)
class Workers:
    """A run's engine, and what its workers are given and tell.

    Attributes:
        engine: where they run.
        requirements: what they must share with this process.
        lease: with which they know whether the run still holds its directory.
        failures: where they tell what went wrong.
    """

    engine: RunningEngine
    requirements: WorkerRequirements
    lease: Lease
    failures: FailureLog

    @contextmanager
    def task(self, task: Any, name: str) -> Iterator[TaskSpec]:
        """See `task_file`."""
        requirements = None if self.engine.is_local else self.requirements.with_programs()
        with task_file(task, self.lease, requirements, name) as spec:
            yield spec


@contextmanager
def workers_for(
    engine: Engine,
    requirements: WorkerRequirements,
    lease: Lease,
    splits: Sequence[str],
    report: Callable[[str], None],
) -> Iterator[Workers]:
    """The workers of a run that holds its directory; nothing of theirs is left behind.

    At the end, temporary files are removed of workers elsewhere that died or were cancelled: they
    could not, and nobody else knows of them.

    Args:
        engine: where.
        requirements: what workers must share with this process.
        lease: of this run.
        splits: those that it makes, as far as they are known.
        report: told what takes time.

    Raises:
        PipelineError: the engine does not start, or none of its workers can work for this run.
    """
    try:
        with started(engine, requirements, report) as running:
            # Of many workers, each should look less often.
            lease = replace(lease, look_seconds=running.look_seconds)
            failures = FailureLog(lease)
            failures.reserve()
            yield Workers(running, requirements, lease, failures)
    finally:
        if not engine.is_local and not lease.taken_over_now():
            remove_partial_files(Workspace(requirements.out), splits)
