"""How a worker's error reaches the user: through the file system, whole, on every engine.

Beam would retry an element whose function raises, and wrap the message in its own; so workers
do not raise. What concerns one shard is written down for that shard, and the others go on. What
concerns the whole run is written down once, everybody stops, and the launcher raises it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from dataprep import errors
from dataprep.build.lock import Lease
from dataprep.errors import DataprepError, PipelineError, SinkError, SourceError
from dataprep.sinks import ShardName
from dataprep.system.durable_files import is_full, partial_path
from dataprep.system.throttle import lift
from dataprep_pipelines.runners.explaining import RunEndsError, as_raised

# A full disk may refuse even the few bytes of a failure; the launcher keeps its threads' here.
_UNWRITTEN: dict[Path, str] = {}
_RANDOM = secrets.token_hex(8)  # containers on two hosts may agree in all else


def _this_process() -> str:
    return f"{socket.gethostname()} {os.getpid()} {_RANDOM}"


@dataclass(frozen=True, slots=True)
class FailureLog:
    """What went wrong in a run; made by the launcher, which reads it too."""

    lease: Lease
    launcher: str = field(default_factory=_this_process)

    @property
    def path(self) -> Path:
        """Where the failure of the whole run is written down."""
        return self.lease.failure

    def stop(self) -> None:
        """Tell every worker, wherever it runs, that the launcher is stopping."""
        lift()
        self._tell(self.path, PipelineError("the launcher was stopped"), alone=False)

    def occurred(self) -> bool:
        """Whether the run as a whole has failed."""
        return self.path in _UNWRITTEN or self.path.exists()

    @contextmanager
    def recorded(self, shard: ShardName | None = None) -> Iterator[None]:
        """Write down whatever is raised inside, and go on.

        A worker whose run is over has nothing to tell: its files were swept away under it.

        Args:
            shard: what is being made; an error that may be this shard's alone is its own.

        Raises:
            RunEndsError: the whole run's, which a full disk does not take; the engine tells it.
            DataprepError: the same of one shard.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  # nothing is swallowed: the launcher raises it
            if self.lease.lost_now():
                return
            alone = shard is not None and _may_be_of_one_shard(error)
            self._tell(self._path_of(str(shard)) if alone else self.path, error, alone=alone)

    def of_shards(self) -> dict[str, DataprepError]:
        """The last failure of every shard that failed, by its name."""
        prefix = self._path_of("").stem
        return {
            path.stem.removeprefix(prefix): _read(path.read_text()) for path in self._shard_files()
        }

    def hosts(self) -> set[str]:
        """On which hosts shards failed."""
        return {json.loads(path.read_text())["host"] for path in self._shard_files()}

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
            raise _read(_UNWRITTEN.get(self.path) or self.path.read_text())

    def _shard_files(self) -> list[Path]:
        prefix = self._path_of("")
        return sorted(prefix.parent.glob(f"{prefix.stem}*.json"))

    def _path_of(self, shard: str) -> Path:
        return self.path.with_name(f"{self.path.stem}-{shard}.json")

    def _tell(self, path: Path, error: Exception, *, alone: bool) -> None:
        failure = _described(error)
        temporary = partial_path(path)
        try:
            temporary.write_text(failure)
            temporary.replace(path)
        except OSError as refusal:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            if _this_process() == self.launcher:
                _UNWRITTEN[self.path] = failure
            # Only the engine is left to tell the launcher; this process may outlive the run.
            elif alone and not is_full(refusal):
                raise _read(failure) from None
            else:
                raise RunEndsError.of(_read(failure)) from None


def _described(error: Exception) -> str:
    message = str(error) if isinstance(error, DataprepError) else repr(error)
    text = "".join(traceback.format_exception(error))
    host = socket.gethostname()
    return json.dumps({"kind": _kind(error), "message": message, "traceback": text, "host": host})


def _may_be_of_one_shard(error: Exception) -> bool:
    """Whether others may do better: not where the disk is full, or a program is wrong."""
    return isinstance(error, (SourceError, SinkError)) and not is_full(error.__cause__)


def _read(text: str) -> DataprepError:
    failure = json.loads(text)
    error = as_raised(failure["kind"], failure["message"])
    error.__cause__ = RuntimeError(failure["traceback"])
    return error


def _kind(error: Exception) -> str:
    """Its class, or the nearest one above it that the launcher knows too."""
    known = (kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return next(known, type(error).__name__)
