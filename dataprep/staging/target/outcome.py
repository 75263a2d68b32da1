"""What the copier of one launch tells the other processes on its node: it is there, or why not."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.system.state_files import to_json

_KIND = "outcome"
_KEPT = 8  # of other steps, which may run side by side in one directory
_BY_CODE: dict[int, type[DataprepError]] = {
    NoRoomError.exit_code: NoRoomError,
    UsageError.exit_code: UsageError,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the copier of a step fared.

    Attributes:
        ok: whether the copy is there.
        message: why not; what the copier told the user, one line.
        exit_code: of the copier's process.
        time: when it was told, in seconds since the epoch, by this node's clock.
    """

    ok: bool
    message: str = ""
    exit_code: int = 0
    time: float = field(default_factory=time.time, compare=False)

    def error(self) -> DataprepError:
        """The copier's failure, for another rank to raise: the same exit code where it has one."""
        return _BY_CODE.get(self.exit_code, StagingError)(self.message)


def failed(error: Exception) -> Outcome:
    """The outcome of a copier that ended with an error, expected or not."""
    message = str(error) or type(error).__name__
    code = getattr(error, "exit_code", StagingError.exit_code)
    return Outcome(ok=False, message=" ".join(message.split()), exit_code=code)


def write_outcome(directory: StageDirectory, step: str, outcome: Outcome) -> None:
    """Tell the other ranks of a step; the outcomes of long gone steps are removed.

    Args:
        directory: the target.
        step: `Placement.step`.
        outcome: how it went.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    name = private_name(_KIND, step)
    remove_old(directory, _KIND, name)
    directory.write_private(name, to_json(asdict(outcome)))


def read_outcome(directory: StageDirectory, step: str, since: float = 0.0) -> Outcome | None:
    """What the copier of a step has told.

    Args:
        directory: the target.
        step: `Placement.step`, or what else the processes that wait have in common.
        since: failures that were told earlier, in seconds since the epoch, do not count: they are
            of a call before this one, which is to try again.

    Returns:
        The outcome; None if there is none, or nothing that makes sense.
    """
    try:
        said = json.loads(directory.read_private(private_name(_KIND, step)) or b"null")
        outcome = Outcome(**said)
        counts = outcome.ok or outcome.time >= since
    except (ValueError, TypeError):
        return None
    return outcome if counts else None


def remove_old(directory: StageDirectory, kind: str, name: str) -> None:
    """Remove what long gone steps have left of a kind, but for ``name`` and the last few."""
    ages: list[tuple[int, str]] = []
    for other in directory.private_names(kind):
        try:
            status = os.stat(other, dir_fd=directory.private, follow_symlinks=False)
        except FileNotFoundError:  # another step removed it
            continue
        if other != name:
            ages.append((status.st_mtime_ns, other))
    for _, other in sorted(ages)[:-_KEPT]:
        directory.remove_private(other)
