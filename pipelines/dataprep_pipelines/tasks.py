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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any

from dataprep.datasets import close_archives
from dataprep.errors import PipelineError
from dataprep.jobs.output.lock import Lease
from dataprep.system.durable_files import write_durably
from dataprep.system.regular_files import read_regular
from dataprep_pipelines.failures import RESUME

# What has a part in the bytes of a shard besides `codec_versions`, or in graphs sent to workers.
_PACKAGES = (
    *("dataprep-shards", "apache-beam", "numpy", "h5py"),
    *("lmdb", "protobuf", "google-crc32c"),
)
_PLUGINS = ("dataprep.sinks", "dataprep.datasets")
_SHARED = "put it on a file system that all workers share, under the same path"

_READING = threading.Lock()
_KEPT = 8  # a worker may serve several runs at a time


class CannotWorkError(PipelineError):
    """This worker cannot work for that run, whatever it is given; others may."""


@cache
def programs() -> dict[str, str]:
    """The versions of all that has a part in the bytes: here, in this process."""
    from dataprep.images import codec_versions

    found = dict.fromkeys(_PACKAGES, "none") | codec_versions()
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    for group in _PLUGINS:
        for entry in entry_points(group=group):
            if entry.dist is not None:
                found[entry.dist.name] = entry.dist.version
    found["Python"] = ".".join(platform.python_version_tuple()[:2])
    found["Python's zlib"] = zlib.ZLIB_RUNTIME_VERSION
    found["the machine"] = platform.machine()
    return found


@dataclass(frozen=True, slots=True)
class WorkerRequirements:
    """What workers elsewhere must share with the launcher."""

    places: dict[str, Path]  # directories that they must see, by the options that name them
    programs: dict[str, str] = field(default_factory=programs)

    def check(self) -> None:
        """Whether this process, wherever it is, may work for the launcher.

        Raises:
            CannotWorkError: it may not; the message says why, and on which host.
        """
        host = socket.gethostname()
        for option, path in self.places.items():
            if not path.exists():
                remedy = "make it on every worker's host" if option == "--build_dir" else _SHARED
                raise CannotWorkError(f"a worker on {host} does not see {option} {path}; {remedy}")
        for name, there in sorted(self.programs.items()):
            here = programs().get(name, "none")
            if here != there:
                raise CannotWorkError(
                    f"a worker on {host} has {name} {here}, this command has {there}; the bytes "
                    f"could differ: give all the same environment (the worker's is {sys.prefix})"
                )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """Where it says what is to be done; pickled into every task, so it is small."""

    path: Path  # the file; only this run has one of that name
    sha256: str  # of the file. Reading it runs what is in it, and others may be able to write there

    def read(self) -> Any:
        """What is to be done, the same object for all threads of a process.

        Raises:
            CannotWorkError: this process cannot do it; or it was withdrawn, since the run is over,
                which looks the same from a host with a directory of that name of its own.
        """
        with _READING:
            return _load(self)


@lru_cache(maxsize=_KEPT)
def _load(spec: TaskSpec) -> Any:
    host = socket.gethostname()
    try:
        content = read_regular(spec.path)
        if hashlib.sha256(content).hexdigest() != spec.sha256:
            raise CannotWorkError(f"{spec.path} is not what this run wrote")
        requirements, task = pickle.loads(content)  # noqa: S301  # ours, as was just made sure
    except FileNotFoundError:
        out = spec.path.parents[1]
        raise CannotWorkError(f"a worker on {host} does not see --out {out}; {_SHARED}") from None
    except OSError as error:
        raise CannotWorkError(
            f"a worker on {host} cannot read {spec.path}: {error.strerror}; mend the file system; "
            f"{RESUME}"
        ) from error
    except (ImportError, AttributeError) as error:
        raise CannotWorkError(
            f"a worker on {host} does not have what its task needs ({error}); give all the same "
            "environment"
        ) from error
    if requirements is not None:
        requirements.check()
    # This process may have worked for another run, and the raw data changed since.
    close_archives()
    return task


class Work(ABC):
    """What is done with elements; pickled into every worker."""

    def setup(self) -> None:  # noqa: B027  # most need it, not all
        """Once a process, before anything else."""

    @abstractmethod
    def process(self, elements: Iterable[Any]) -> None:
        """Do it with some elements: one, or all there are."""

    def teardown(self) -> None:  # noqa: B027  # a few need it
        """Once a process, at the end."""

    def run(self, elements: Iterable[Any]) -> None:
        """All of that in this process."""
        self.setup()
        try:
            self.process(elements)
        finally:
            self.teardown()


@contextmanager
def task_file(
    task: Any, lease: Lease, requirements: WorkerRequirements | None, name: str
) -> Iterator[TaskSpec]:
    """A task that workers can read as long as this lasts.

    Args:
        requirements: what workers elsewhere must have; None: there are none elsewhere.
        name: what to call the file, one a phase of the run.
    """
    path = lease.failure.with_name(f"task-{lease.failure.stem}-{name}.pickle")
    content = pickle.dumps((requirements, task))
    write_durably(path, content)
    try:
        yield TaskSpec(path, hashlib.sha256(content).hexdigest())
    finally:
        with suppress(OSError):  # the lock's end tries again; what was raised matters more
            path.unlink(missing_ok=True)
