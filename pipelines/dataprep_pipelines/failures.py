"""How a worker's error reaches the user: through the file system, whole, on every engine.

Beam would retry an element whose function raises, and wrap the message in its own; so workers
do not raise. What concerns one shard is written down for that shard, and the others go on. What
concerns the whole run is written down once, everybody stops, and the launcher raises it. Only what
cannot be written down, on a disk that is full to the last byte, is left to the engine to tell.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataprep import errors
from dataprep.errors import DataprepError, PipelineError, SinkError, SourceError
from dataprep.formats import ShardName
from dataprep.jobs.output.lock import Lease
from dataprep.system.durable_files import is_full, storage_error
from dataprep.system.state_files import read_document, write_state
from dataprep.system.throttle import lift
from dataprep_schemas.state import Failure

RESUME = "finished shards are kept: run the same command again to resume"
"""The end of what a user is told of an engine that failed."""

_LONGEST = 300  # characters of somebody else's words
_LONGEST_TRACEBACK = 3000  # its end


class QuietLauncherError(PipelineError):
    """A worker has stopped because the launcher seems to be dead: if it lives, it asks again."""


@dataclass(frozen=True, slots=True)
class FailureLog:
    """What went wrong in a run; made by the launcher, which reads it too."""

    lease: Lease

    def stop(self) -> None:
        """Tell every worker, wherever it runs, that the launcher is stopping."""
        lift()
        with suppress(PipelineError):  # why it stops is what matters; a lost lease says it too
            self.tell(PipelineError("the launcher was stopped"))

    def occurred(self) -> bool:
        """Whether the run as a whole has failed.

        Raises:
            SinkError: the file system does not say.
        """
        try:
            return self.lease.failure.exists()
        except OSError as error:
            raise storage_error(error, self.lease.failure.parents[1]) from error

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
            if self.lease.lost(now=True):
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
            message=_utf8(str(error) if isinstance(error, DataprepError) else repr(error)),
            traceback=_utf8("".join(traceback.format_exception(error)))[-_LONGEST_TRACEBACK:],
        )
        path = self.lease.failure if shard is None else self._path_of(shard)
        try:
            write_state(path, failure)
        except OSError as refused:
            if not is_full(refused) or not is_full(error.__cause__):
                message = f"{failure.message}; and {path} cannot be written: {refused.strerror}"
                failure = msgspec.structs.replace(failure, message=message)
            raise _error_of(failure) from error

    def of_shards(self) -> dict[str, DataprepError]:
        """The last failure of every shard that failed, by its name."""
        prefix = self._path_of("").stem
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


def worker_died(how: str) -> PipelineError:
    """What to tell the user when one of this program's processes is gone."""
    return PipelineError(
        f"a worker process died ({how.rstrip('.')}); if the system killed it for want of memory, "
        f"use fewer --workers; {RESUME}"
    )


def line_of(error: object, number: int = 0) -> str:
    """The first line of somebody else's words, or another one, cut where nobody reads on."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[number]
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _read(path: Path) -> DataprepError:
    """The error that a worker raised, by the name of its class."""
    # A power cut may have torn what is not flushed.
    return _error_of(read_document(path, Failure, f"mend the file system; {RESUME}"))


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


def _utf8(text: str) -> str:
    """Words that may have names in them, as files have them."""
    return text.encode(errors="backslashreplace").decode()
