"""How the processes of one launch on a node learn from the one that does the work."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dataprep.errors import DataprepError
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.progress import Progress
from dataprep.staging.request import StageRequest
from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.staging.target.node_lock import node_lock
from dataprep.staging.target.outcome import Outcome, failed, read_outcome, remove_old, write_outcome
from dataprep.staging.target.sentinel import changed_files, read_sentinel

_KIND = "launch"  # of the locks that say who does the work for one launch
_STAGGER = 10.0  # seconds within which the processes of one launch begin on a node


class LocalRanks:
    """One call of ``dataprep stage``, as all processes of its launch on this node see it.

    Where no launcher names its launch, the processes learn nothing from each other: each looks for
    itself what is there.

    Args:
        directory: the target.
        request: the call.
        placement: names the launch.
    """

    def __init__(
        self, directory: StageDirectory, request: StageRequest, placement: Placement
    ) -> None:
        self._directory = directory
        self._name = _call_name(request, placement)
        self._patience = request.patience + request.rendezvous_seconds
        self._since = time.time() - _STAGGER
        self._seen: Outcome | None = None

    @contextmanager
    def election(self, progress: Progress, on_wait: Callable[[str], None]) -> Iterator[bool]:
        """Be the one that does the work, or wait until that one is done.

        Args:
            progress: of the one that is elected, for the others.
            on_wait: told now and then who is waited for.

        Yields:
            Whether this process is to do the work; if not, see `follow`.

        Raises:
            StagingError: the one that does the work shows no sign of life.
        """
        if self._name is None:
            yield True
            return
        name = private_name(_KIND, self._name)
        remove_old(self._directory, _KIND, name)
        with node_lock(
            self._directory,
            patience=self._patience,
            done=self._is_settled,
            on_wait=on_wait,
            name=name,
        ) as lock:
            if lock is not None:
                progress.tell(lock)
            yield lock is not None

    def follow(self) -> None:
        """End as the process has ended that did the work."""
        if self._seen is not None and not self._seen.ok:
            raise self._seen.error()

    def is_mending(self) -> bool:
        """Whether this call was done once, so that other nodes do not wait for this one."""
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
        except Exception as error:
            with suppress(DataprepError):  # what went wrong first is what the user must know
                write_outcome(self._directory, name, failed(error))
            raise

    def _is_settled(self) -> bool:
        """Whether another process has done the work.

        Only the failures of this call count, not those of one before it. A success counts as long
        as the copy is as it was left.
        """
        self._seen = self._told()
        if self._seen is not None and self._seen.ok and not self._is_intact():
            self._seen = None
        return self._seen is not None

    def _told(self) -> Outcome | None:
        return (self._name and read_outcome(self._directory, self._name, self._since)) or None

    def _is_intact(self) -> bool:
        sentinel = read_sentinel(self._directory)
        return sentinel is not None and not changed_files(self._directory, sentinel.files)


def _call_name(request: StageRequest, placement: Placement) -> str | None:
    """The same in all processes of a call, without a look at the source; None if nothing is."""
    if placement.step is None:
        return None
    asked = (request.source, sorted(request.splits), request.share, request.replicas)
    how = (sorted(request.whole), request.verify, request.hashed)
    digest = hashlib.sha256(repr((*asked, *how)).encode()).hexdigest()
    return f"{placement.step}.{digest[:16]}"
