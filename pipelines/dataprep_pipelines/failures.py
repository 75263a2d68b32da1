"""How a worker's error reaches the user: through the file system, whole, on every engine.

Beam would retry an element whose function raises, and wrap the message in its own; so workers
do not raise. What concerns one shard is written down for that shard, and the others go on. What
concerns the whole run is written down once, everybody stops, and the launcher raises it. A disk
that is full to the last byte would not take even that, so a little room is kept free for it.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dataprep import errors
from dataprep.build.lock import Lease
from dataprep.errors import DataprepError, PipelineError, SinkError, SourceError
from dataprep.sinks import ShardName
from dataprep.system.durable_files import is_full, partial_path, write_durably
from dataprep.system.throttle import lift

WORKER_DIED = "Worker subprocess exited"  # what Beam's SubprocessSdkWorker says

_LONGEST = 300  # characters of somebody else's words
_RESERVED = 1 << 13  # bytes


class TasksFailedError(PipelineError):
    """Some elements of a graph could not be processed; all others were.

    Args:
        errors: what happened to them, by their position.
    """

    def __init__(self, errors: Mapping[int, DataprepError]) -> None:
        super().__init__(str(next(iter(errors.values()))))
        self.errors = dict(errors)


class QuietLauncherError(PipelineError):
    """A worker has stopped because the launcher seems to be dead: if it lives, it asks again."""


class KillsWorkersError(PipelineError):
    """Every worker that had this element died; the engine has tried it often enough."""


@dataclass(frozen=True, slots=True)
class FailureLog:
    """What went wrong in a run; made by the launcher, which reads it too."""

    lease: Lease

    @property
    def path(self) -> Path:
        """Where the failure of the whole run is written down."""
        return self.lease.failure

    @property
    def _reserve(self) -> Path:
        return self.path.with_name(f"task-{self.path.stem}-reserve.pickle")

    def reserve(self) -> None:
        """Keep room free for a failure."""
        write_durably(self._reserve, b" " * _RESERVED)

    def stop(self) -> None:
        """Tell every worker, wherever it runs, that the launcher is stopping."""
        lift()
        self._tell(self.path, PipelineError("the launcher was stopped"))

    def occurred(self) -> bool:
        """Whether the run as a whole has failed."""
        return self.path.exists()

    @contextmanager
    def recorded(self, shard: ShardName | None = None) -> Iterator[None]:
        """Write down whatever is raised inside, and go on.

        A worker whose run is over has nothing to tell: its files were swept away under it.

        Args:
            shard: what is being made; an error that may be this shard's alone is its own.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  # nothing is swallowed: the launcher raises it
            if self.lease.lost_now():
                return
            alone = shard is not None and _may_be_of_one_shard(error)
            self._tell(self._path_of(str(shard)) if alone else self.path, error)

    def of_shards(self) -> dict[str, DataprepError]:
        """The last failure of every shard that failed, by its name."""
        prefix = self._path_of("").stem
        found = sorted(self.path.parent.glob(f"{prefix}*.json"))
        return {path.stem.removeprefix(prefix): _read(path.read_text()) for path in found}

    def forget_shards(self) -> None:
        """Before they are tried again."""
        for shard in self.of_shards():
            self._path_of(shard).unlink(missing_ok=True)

    def reraise(self) -> None:
        """Raise what was written down of the whole run, if anything was.

        Raises:
            DataprepError: the expected error of a worker, as it was.
            PipelineError: an unexpected one; its cause holds the worker's traceback.
        """
        if self.occurred():
            raise _read(self.path.read_text())

    def _path_of(self, shard: str) -> Path:
        return self.path.with_name(f"{self.path.stem}-{shard}.json")

    def _tell(self, path: Path, error: Exception) -> None:
        failure = _described(error)
        temporary = partial_path(path)
        try:
            temporary.write_text(failure)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            with suppress(FileNotFoundError):  # another worker has used it
                with self._reserve.open("r+") as file:
                    file.write(failure)  # spaces follow, which JSON does not mind
                self._reserve.replace(self.path)


def engine_error(error: BaseException) -> DataprepError:
    """An error of ours as it is, or a line about the engine's own."""
    if isinstance(error, DataprepError):
        return error
    last = _lines(error)[-1]
    if WORKER_DIED in last:
        return worker_died(last)
    return PipelineError(f"Beam failed: {shortened(last)}")


def worker_died(how: str) -> PipelineError:
    """What to tell the user when one of this program's processes is gone."""
    return PipelineError(
        f"a worker process died ({how.rstrip('.')}); if the system killed it for want of memory, "
        "use fewer --workers; finished shards are kept: run the same command again to resume"
    )


def first_line(error: object) -> str:
    """Of what it says; its class if it says nothing."""
    return _lines(error)[0]


def shortened(text: str) -> str:
    """Somebody else's words, cut where nobody reads on."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _lines(error: object) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]


def _described(error: Exception) -> str:
    """As JSON; of a class that the launcher knows too."""
    known = (kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    failure = {
        "kind": next(known, type(error).__name__),
        "message": str(error) if isinstance(error, DataprepError) else repr(error),
        "traceback": "".join(traceback.format_exception(error))[-_RESERVED // 3 :],
    }
    return json.dumps(failure)


def _read(text: str) -> DataprepError:
    failure = json.loads(text)
    error = _as_raised(failure["kind"], failure["message"])
    error.__cause__ = RuntimeError(failure["traceback"])
    return error


def _as_raised(kind: str, message: str) -> DataprepError:
    """The error that a worker raised, by the name of its class."""
    found = getattr(errors, kind, None)
    if found is not None:
        error: DataprepError = found(message)
        return error
    return PipelineError(
        f"a worker failed unexpectedly: {kind}: {message}; this is a defect of dataprep or of a "
        "plugin, run with --debug for the details"
    )


def _may_be_of_one_shard(error: Exception) -> bool:
    """Whether others may do better: not where the disk is full, or a program is wrong."""
    return isinstance(error, (SourceError, SinkError)) and not is_full(error.__cause__)
