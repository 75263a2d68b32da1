"""How the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dataprep.errors import DataprepError
from dataprep.staging.errand import Errand
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.outcome import Outcome, failed, read_outcome, write_outcome
from dataprep.staging.target.sentinel import changed_files, read_sentinel

_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


class LocalRanks:
    """One call of ``dataprep stage``, as all processes of its launch on this node see it.

    Args:
        directory: the target.
        errand: what is to be there. Where no launcher names its launch, the processes learn nothing
            from each other, and each looks for itself what is there.
    """

    def __init__(self, directory: StageDirectory, errand: Errand) -> None:
        step = errand.placement.step
        self._directory = directory
        self._selection = errand.selection.digest
        # A launch may stage more than one thing, one after the other.
        self._name = step and f"{step}.{self._selection[:16]}.{errand.request.verify}"
        self._since = time.time() - _STAGGER

    def outcome(self) -> Outcome | None:
        """How the call has ended, if another process has done the work.

        Only the failures of this call count, not those of one before it. A success counts as long
        as the copy is as it was left.
        """
        told = self._told()
        if told is not None and told.ok and not self._is_intact():
            return None
        return told

    def is_mending(self) -> bool:
        """Whether this launch was done once, so that other nodes do not wait for this one."""
        told = self._told()
        return told is not None and told.ok

    @contextmanager
    def told_the_outcome(self) -> Iterator[Callable[[], None]]:
        """Tell the other processes how it ends.

        Yields:
            What is to be called as soon as all is well here.
        """
        name = self._name
        if name is None:
            yield lambda: None
            return
        try:
            yield lambda: write_outcome(self._directory, name, Outcome(ok=True))
        except DataprepError as error:
            with suppress(DataprepError):  # what went wrong first is what the user must know
                write_outcome(self._directory, name, failed(error))
            raise

    def _told(self) -> Outcome | None:
        return (self._name and read_outcome(self._directory, self._name, self._since)) or None

    def _is_intact(self) -> bool:
        sentinel = read_sentinel(self._directory)
        if sentinel is None or sentinel.selection != self._selection:
            return False
        return not changed_files(self._directory, sentinel.files)
