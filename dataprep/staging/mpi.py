"""Nodes that know each other through MPI.

All processes of the launch, one a node, call `join`.

Collective calls must match on all nodes, or they wait for ever. So a node that fails does not fall
silent: it takes part in the next exchange, and says there that it has failed and why. All nodes see
that in the same exchange, and none exchanges anything after it. What a signal's handler raises in
the midst of a collective call waits until all have completed it. If MPI itself fails, `MPI_Abort`
ends all; if a process is killed, ``mpirun``, or ``srun -K``, does.

Once all know how it has ended, each process ends MPI, and only then itself: to a launcher, whoever
ends without has crashed, and the launch's exit code says so whatever the process's own.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from dataprep.errors import NoRoomError, StagingError
from dataprep.staging.agreement import Agreed, Report, Waiting
from dataprep.system.messages import printable, some_of

if TYPE_CHECKING:
    from mpi4py import MPI

# What launchers set for the processes of an MPI job: mpirun's and srun's, by way of PMI or PMIx.
_LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PALS_RANKID")
_PAUSE = 0.005  # seconds between two looks, for what may take long
_HERE = 1  # a tag: this node has come to where all report
_LONGEST_REASON = 500  # characters; short messages are on their way before anybody asks for them


def unavailable(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why there can be no broadcast through MPI; None if there can, and then MPI is started."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py is not installed (install the extra: mpi (mpi4py))"
    # Unless launched, MPI must not even be started: under srun without PMI it ends the process.
    if not any(name in environment for name in _LAUNCHED):
        return "MPI has not started this process (use mpirun, or srun with --mpi=pmix or the like)"
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return f"MPI cannot be loaded ({' '.join(str(error).split())})"
    if MPI.COMM_WORLD.Get_size() > 1:
        return None
    _end_mpi()
    return (
        "MPI knows only this process (use mpirun, or the srun --mpi=… that this MPI was built for)"
    )


def join() -> MpiPeers:
    """Find the other nodes. All processes of the launch must call it, and enter what it returns."""
    from mpi4py import MPI

    return MpiPeers(MPI.COMM_WORLD.Dup())  # nobody else's messages travel on it


class MpiPeers:
    """This node among the others. A context manager.

    Left with an exception, it tells the other nodes. Left without, it waits for them, and raises
    if one of them has failed meanwhile.
    """

    def __init__(self, nodes: MPI.Comm) -> None:
        self.index: int = nodes.Get_rank()
        self.count: int = nodes.Get_size()
        self.nodes = nodes
        self.failure: BaseException | None = None  # the first thing that has gone wrong here
        self._over = False  # all nodes know that one has failed

    def note(self, error: BaseException) -> None:
        """This has gone wrong here.

        Whoever fails notes it and goes on without doing any more, for the other nodes count on
        this one's part, until all know.
        """
        self.failure = self.failure or error

    def exchange(self, report: Report, conclude: Callable[[Sequence[Report]], Agreed]) -> Agreed:
        """What follows from the reports of all nodes; see `dataprep.staging.agreement.Peers`."""
        with self.in_step():
            reports = self.settle(report)
        return conclude(reports)

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """What all nodes do together, and none may leave half-way but by `settle`.

        Raises:
            BaseException: what was noted, as what signals' handlers raise is.
        """
        with _signals_noted(self.note):
            try:
                yield
            except BaseException as error:
                if not self._over:  # the others may wait for a call that this node does not make
                    text = f"dataprep: error: {_reason(error)}; all nodes are ended"
                    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201  # nobody else will
                    self.nodes.Abort(1)
                raise
        if self.failure is not None:
            raise self.failure

    def settle(self, report: object = None) -> list[Any]:
        """Let all nodes know whether one has failed. Only within `in_step`.

        Returns:
            All nodes' reports, by index.

        Raises:
            BaseException: this node's own failure.
            NoRoomError: another node has ended with that.
            StagingError: another node has failed otherwise.
        """
        error, ending = self.failure, None
        if error is not None:
            kind = NoRoomError if isinstance(error, NoRoomError) else StagingError
            ending = kind, f"({socket.gethostname()}) failed: {_reason(error)}"
        # Sleeps until all have come; a collective call would keep a core busy.
        sent = self.nodes.isend(self.index, 0, _HERE)  # so that node 0 can name the others
        request = self.nodes.Ibarrier()
        absent, waiting = set(range(self.count)) if self.index == 0 else set(), Waiting()
        while not request.Test() or absent:
            while absent and self.nodes.iprobe(tag=_HERE):
                absent.remove(self.nodes.recv(tag=_HERE))
            if absent and not waiting.left:
                waiting.tell(
                    f"node {some_of([*map(str, absent)])} to report, of {self.count} nodes"
                )
            time.sleep(_PAUSE)
        sent.wait()
        found: list[Any] = self.nodes.allgather((report, ending))
        for node, (_, ending) in enumerate(found):
            if ending is not None:
                self._over = True
                kind, reason = ending
                raise error or kind(f"node {node} {reason}")
        return [report for report, _ in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with _signals_noted(self.note):
            try:
                if not self._over:
                    if error is not None:
                        self.note(error)
                    with self.in_step():
                        self.settle()
            finally:
                _end_mpi()


def _reason(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:_LONGEST_REASON]


def _end_mpi() -> None:
    from mpi4py import MPI

    MPI.Finalize()


@contextmanager
def _signals_noted(note: Callable[[BaseException], None]) -> Iterator[None]:
    """Let handlers of SIGINT, SIGTERM and SIGHUP run, but only note what they raise."""

    def handle(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:  # noqa: BLE001  # whoever asked for it raises it
            note(error)

    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):  # not SIG_DFL or SIG_IGN
            handlers[number] = handler
    for each in handlers:
        signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
