"""Every error a user can meet, in one tree.

The exit code is 1 unless a class says otherwise.

A message is one line: what was found, what was expected, where, and what to do next.
"""

from __future__ import annotations

import sys


class DataprepError(Exception):
    """Base of every expected error; its message is shown to the user as it is.

    A notebook shows it as one line; after ``%xmode Verbose``, with where it came from.
    """

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """What IPython shows; where this raises anything, it shows the traceback."""
        shell = sys.modules["IPython"].get_ipython()
        if shell.InteractiveTB.mode in ("Verbose", "Docs"):
            raise RuntimeError("asked for the traceback")
        return [f"{type(self).__name__}: {self}"]


class UsageError(DataprepError):
    """The command line asks for something that cannot be done."""

    exit_code = 2


class SourceError(DataprepError):
    """The raw data is missing, contradictory, damaged or has changed."""


class ImageError(SourceError):
    """One image cannot be used; the message is the reason that goes into the manifest."""


class SinkError(DataprepError):
    """A shard could not be written, or is not what its format demands."""


class DatasetError(DataprepError):
    """The output directory holds something other than what the run expects."""


class LockedError(DatasetError):
    """Another process is working on the same output directory."""


class PipelineError(DataprepError):
    """The engine (Beam) failed for a reason that is not the data's."""


class StagingError(DataprepError):
    """A copy on node-local storage could not be made, or what is there cannot be trusted."""


class NoRoomError(StagingError):
    """A node has too little free space; found on every node before the first byte was copied.

    A code of its own, so that a batch script can go on with the data where they are.
    """

    exit_code = 4


class RemoteError(DataprepError):
    """A bucket does not answer, or refuses."""


class RejectedError(DataprepError):
    """More images were rejected than the user allows; nothing was sealed.

    Args:
        message: what to tell the user; how to accept them is added.
        rejected: how many there are.
    """

    exit_code = 3

    def __init__(self, message: str, rejected: int) -> None:
        accepting = f"run the same command with --max_bad {rejected}, without --overwrite"
        super().__init__(f"{message}; to accept them, {accepting}")
        self.rejected = rejected


class FindingsError(DataprepError):
    """``dataprep lint`` found what ``--fail_on`` names."""

    exit_code = 5


class StoppedError(DataprepError):
    """A signal stopped the run; everything committed so far is kept.

    Args:
        message: what to tell the user, including how to resume.
        signal_number: the signal, e.g. 2 for SIGINT; the exit code is 128 plus it.
    """

    def __init__(self, message: str, signal_number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + signal_number
