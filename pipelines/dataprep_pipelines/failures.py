"""How a worker's error reaches the user: through the file system, whole, on every engine.

Beam would retry an element whose function raises, and wrap the message in its own; so workers
do not raise. The first failure is written down, everybody stops, and the launcher raises it.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dataprep import errors
from dataprep.assembly.lock import Lease
from dataprep.durable_files import partial_path
from dataprep.errors import DataprepError, PipelineError

# A full disk may refuse even the few bytes of a failure; those of this process are kept here.
_UNWRITTEN: dict[Path, str] = {}


@dataclass(frozen=True, slots=True)
class FailureLog:
    """The first failure of a run; made by the launcher, which reads it too."""

    lease: Lease
    launcher: int = field(default_factory=os.getpid)

    @property
    def path(self) -> Path:
        """Where the failure is written down."""
        return self.lease.failure

    def stop(self) -> None:
        """Tell every worker, wherever it runs, that the launcher is stopping."""
        self._write(PipelineError("the launcher was stopped"))

    def occurred(self) -> bool:
        """Whether some worker has failed."""
        return self.path in _UNWRITTEN or self.path.exists()

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Write down whatever is raised inside, and go on.

        A worker whose run is over has nothing to tell: its files were swept away under it.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  # nothing is swallowed: `reraise` raises it
            if not self.lease.lost_now():
                self._write(error)

    def reraise(self) -> None:
        """Raise what was written down, if anything was.

        Raises:
            DataprepError: the expected error of a worker, as it was.
            PipelineError: an unexpected one; its cause holds the worker's traceback.
        """
        if not self.occurred():
            return
        failure = json.loads(_UNWRITTEN.get(self.path) or self.path.read_text())
        kind = getattr(errors, failure["kind"], None)
        cause = RuntimeError(failure["traceback"])
        if kind is not None:
            raise kind(failure["message"]) from cause
        raise PipelineError(
            f"a worker failed unexpectedly: {failure['kind']}: {failure['message']}; "
            "this is a defect of dataprep or of a plugin, run with --debug for the details"
        ) from cause

    def _write(self, error: Exception) -> None:
        message = str(error) if isinstance(error, DataprepError) else repr(error)
        text = "".join(traceback.format_exception(error))
        failure = json.dumps({"kind": _kind(error), "message": message, "traceback": text})
        temporary = partial_path(self.path)
        try:
            temporary.write_text(failure)
            temporary.replace(self.path)
        except OSError:
            temporary.unlink(missing_ok=True)
            _UNWRITTEN[self.path] = failure
            if os.getpid() != self.launcher:
                raise error from None  # only Beam is left to tell the launcher


def _kind(error: Exception) -> str:
    """Its class, or the nearest one above it that the launcher knows too."""
    known = (kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
    return next(known, type(error).__name__)
