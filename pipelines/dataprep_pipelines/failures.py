"""How a worker's error reaches the user: through the file system, whole, on every engine.

Beam would retry an element whose function raises, and wrap the message in its own; so workers
do not raise. What concerns one shard is written down for that shard, and the others go on. What
concerns the whole run is written down once, everybody stops, and the launcher raises it. A disk
that is full to the last byte would not take even that, so a little room is kept free for it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataprep import errors
from dataprep.errors import DataprepError, DatasetError, PipelineError, SinkError, SourceError
from dataprep.jobs.lock import Lease
from dataprep.sinks import ShardName
from dataprep.system.durable_files import is_full, write_durably
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import encode, parse, write_state
from dataprep.system.throttle import lift
from dataprep_schemas.state import Failure

WORKER_DIED = "Worker subprocess exited"  # what Beam's SubprocessSdkWorker says

# What Beam makes of an error of ours that a worker raised.
_OURS = re.compile(r"dataprep[\w.]*\.(\w+): (.*?) \[while running '.*'\]")
_LONGEST = 300  # characters of somebody else's words
_RESERVED = 1 << 13  # bytes


class QuietLauncherError(PipelineError):
    """A worker has stopped because the launcher seems to be dead: if it lives, it asks again."""


@dataclass(frozen=True, slots=True)
class FailureLog:
    """What went wrong in a run; made by the launcher, which reads it too."""

    lease: Lease

    @property
    def _reserve(self) -> Path:
        return self.lease.failure.with_name(f"task-{self.lease.failure.stem}-reserve.pickle")

    def reserve(self) -> FailureLog:
        """Keep room free for a failure."""
        write_durably(self._reserve, b" " * _RESERVED)
        return self

    def stop(self) -> None:
        """Tell every worker, wherever it runs, that the launcher is stopping."""
        lift()
        with suppress(PipelineError):  # why it stops is what matters; a lost lease says it too
            self.tell(PipelineError("the launcher was stopped"))

    def occurred(self) -> bool:
        """Whether the run as a whole has failed.

        Raises:
            PipelineError: the file system does not say.
        """
        with _reading(self.lease.failure):
            return self.lease.failure.exists()

    @contextmanager
    def recorded(self, shard: ShardName | None = None) -> Iterator[None]:
        """Write down whatever is raised inside, and go on.

        A worker whose run is over has nothing to tell: its files were swept away under it.

        Args:
            shard: what is being made; an error that may be this shard's alone is its own: not a
                disk that is full, nor a program that is wrong.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  # nothing is swallowed: the launcher raises it
            if self.lease.lost_now():
                return
            alone = isinstance(error, (SourceError, SinkError)) and not is_full(error.__cause__)
            self.tell(error, shard if alone else None)

    def tell(self, error: BaseException, shard: ShardName | None = None) -> None:
        """Write down what went wrong with a shard, or with the whole run.

        Raises:
            DataprepError: what went wrong, where it cannot be written down.
        """
        # Of a class that the launcher knows too.
        known = (kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        failure = Failure(
            kind=next(known, type(error).__name__),
            message=_written(str(error) if isinstance(error, DataprepError) else repr(error)),
            traceback=_written("".join(traceback.format_exception(error)))[-_RESERVED // 3 :],
        )
        try:
            path = self.lease.failure if shard is None else self._path_of(shard)
            write_state(path, failure)
        except OSError as refused:
            try:
                with self._reserve.open("r+b") as file:
                    file.write(encode(failure))
                    file.truncate()
                self._reserve.replace(self.lease.failure)
            except FileNotFoundError:
                return  # another worker has used it
            except OSError:
                message = f"{failure.message}; and {path} cannot be written: {refused.strerror}"
                failure = msgspec.structs.replace(failure, message=message)
                raise _error_of(failure) from error

    def of_shards(self) -> dict[str, DataprepError]:
        """The last failure of every shard that failed, by its name."""
        prefix = self._path_of("").stem
        with _reading(self.lease.failure.parent):
            found = sorted(self.lease.failure.parent.glob(f"{prefix}*.json"))
        return {path.stem.removeprefix(prefix): _read(path) for path in found}

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
            raise _read(self.lease.failure)

    def _path_of(self, shard: ShardName | str) -> Path:
        return self.lease.failure.with_name(f"{self.lease.failure.stem}-{shard}.json")


def engine_error(error: BaseException) -> DataprepError:
    """An error of ours as it is, or a line about the engine's own."""
    raised = traceback.format_exception_only(error)[-1].rstrip().rpartition("\n")[2]
    if found := _OURS.fullmatch(raised):
        ours: DataprepError = getattr(errors, found[1], PipelineError)(found[2])
        return ours
    if isinstance(error, DataprepError):
        return error
    last = line_of(error, -1)
    return worker_died(last) if WORKER_DIED in last else PipelineError(f"Beam failed: {last}")


def worker_died(how: str) -> PipelineError:
    """What to tell the user when one of this program's processes is gone."""
    return PipelineError(
        f"a worker process died ({how.rstrip('.')}); if the system killed it for want of memory, "
        "use fewer --workers; finished shards are kept: run the same command again to resume"
    )


def line_of(error: object, number: int = 0) -> str:
    """The first line of somebody else's words, or another one, cut where nobody reads on."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[number]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, DatasetError) as error:  # a power cut may have torn what is not flushed
        reason = getattr(error, "strerror", None) or "damaged"
        raise PipelineError(
            f"cannot read {path}, where workers say what went wrong: {reason}; mend the file "
            "system and run the same command again: finished shards are kept"
        ) from error


def _read(path: Path) -> DataprepError:
    """The error that a worker raised, by the name of its class."""
    with _reading(path):
        failure = parse(read_regular(path), Failure, path, "")
    return _error_of(failure)


def _written(text: str) -> str:
    """Words that may have names in them, as files have them: UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def _error_of(failure: Failure) -> DataprepError:
    error: DataprepError
    if hasattr(errors, failure.kind):
        error = getattr(errors, failure.kind)(failure.message)
    else:
        error = PipelineError(
            f"a worker failed unexpectedly: {failure.kind}: {failure.message}; this is a defect of "
            "dataprep or of a plugin, run with --debug for the details"
        )
    error.__cause__ = RuntimeError(failure.traceback)
    return error
