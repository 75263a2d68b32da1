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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from dataprep.errors import DataprepError, NoRoomError, StagingError, UsageError
from dataprep.staging.agreement import Conclude, Report

if TYPE_CHECKING:
    from mpi4py import MPI

# What launchers set for the processes of an MPI job: mpirun's and srun's, by way of PMI or PMIx.
_LAUNCHED = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PALS_RANKID")
_PAUSE = 0.005  # seconds between two looks, for what may take long
_LONGEST_REASON = 500  # characters; short messages are on their way before anybody asks for them


def unavailable(environment: Mapping[str, str] = os.environ) -> str | None:
    """Why there can be no broadcast through MPI; None if there can.

    Starts MPI in this process if nothing speaks against it.

    Args:
        environment: launchers leave their marks here.
    """
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
    MPI.Finalize()
    return (
        "MPI knows only this process (use mpirun, or the srun --mpi=… that this MPI was built for)"
    )


def join(target: Path | None) -> MpiPeers:
    """Find the other nodes. All processes of the launch must call it.

    Args:
        target: where this process would copy to. None if it could not be found out: then it should
            raise its error inside the context, so that all others hear of it.

    Raises:
        UsageError: two processes of one machine have the same target.
    """
    from mpi4py import MPI

    stopped = Failure()
    with _signals_noted(stopped):
        nodes = MPI.COMM_WORLD.Dup()  # nobody else's messages travel on it
        places = _gather(nodes, _place(target, nodes.Get_rank()))
        if len(set(places)) < len(places):  # all see the same, and none waits for another
            _end_mpi()
            raise UsageError(
                "several processes of one node would copy to the same directory; start one "
                "process a node (mpirun --map-by ppr:1:node, srun --ntasks-per-node=1)"
            )
        peers = MpiPeers(nodes)
    if stopped.error is not None:
        with peers:
            raise stopped.error
    return peers


class Failure:
    """The first thing that has gone wrong on this node.

    A thread that fails notes it here and goes on without doing any more, for the other nodes count
    on this one's part, until all know.
    """

    error: BaseException | None = None

    def note(self, error: BaseException) -> None:
        """This has gone wrong."""
        self.error = self.error or error


class MpiPeers:
    """This node among the others. A context manager.

    Left with an exception, it tells the other nodes. Left without, it waits for them, and raises
    if one of them has failed meanwhile.

    Attributes:
        index: of this node, 0-based.
        count: of nodes.
        nodes: the communicator.
    """

    def __init__(self, nodes: MPI.Comm) -> None:
        self.index: int = nodes.Get_rank()
        self.count: int = nodes.Get_size()
        self.nodes = nodes
        self._over = False  # all nodes know that one has failed

    def exchange(self, report: Report, conclude: Conclude) -> Any:
        """What follows from the reports of all nodes; see `dataprep.staging.agreement.Peers`."""
        with self.in_step() as failure:
            reports = self.settle(failure, report)
        return conclude(reports)

    @contextmanager
    def in_step(self) -> Iterator[Failure]:
        """What all nodes do together, and none may leave half-way but by `settle`.

        Yields:
            Where to note what goes wrong, as signals' handlers do.

        Raises:
            BaseException: what was noted.
        """
        failure = Failure()
        with _signals_noted(failure):
            try:
                yield failure
            except BaseException as error:
                if not self._over:  # the others may wait for a call that this node does not make
                    text = f"dataprep: error: {_reason(error)}; all nodes are ended"
                    print(text, file=sys.stderr, flush=True)  # noqa: T201  # nobody else will
                    self.nodes.Abort(1)
                raise
        if failure.error is not None:
            raise failure.error

    def settle(self, failure: Failure, report: Report | None = None) -> list[Report]:
        """Let all nodes know whether one has failed. Only within `in_step`.

        Args:
            failure: of this node.
            report: what else to tell.

        Returns:
            All nodes' reports.

        Raises:
            BaseException: this node's own failure.
            NoRoomError: another node has ended with that.
            StagingError: another node has failed otherwise.
        """
        error = failure.error
        messages = _gather(self.nodes, (socket.gethostname(), report, _ending(error)))
        failed = [node for node, (_, _, ending) in enumerate(messages) if ending is not None]
        if failed:
            self._over = True
            host, _, (kind, reason) = messages[failed[0]]
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise error or kind(f"node {failed[0]} ({host}){more} failed: {reason}")
        return [report for _, report, _ in messages]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        stopped = Failure()
        try:
            if not self._over:
                with self.in_step() as failure:
                    if error is not None:
                        failure.note(error)
                    self.settle(failure)
        finally:
            with _signals_noted(stopped):
                _end_mpi()
        if error is None and stopped.error is not None:
            raise stopped.error


def _place(target: Path | None, rank: int) -> tuple[object, ...]:
    """What is equal in processes that would write to the same place, and in no others."""
    host = socket.gethostname()
    if target is None:
        return host, rank
    place = Path(os.path.realpath(target))
    try:
        # The same path may be another file system in another mount namespace.
        existing = next(path for path in (place, *place.parents) if path.exists())
        return host, existing.stat().st_dev, str(place)
    except OSError:  # whoever makes the directory will say so
        return host, rank


def _gather(communicator: MPI.Comm, message: object) -> list[Any]:
    """Everybody's message, by rank; everybody must call it. Sleeps until all have."""
    request = communicator.Ibarrier()
    while not request.Test():
        time.sleep(_PAUSE)
    found: list[Any] = communicator.allgather(message)
    return found


def _ending(error: BaseException | None) -> tuple[type[StagingError], str] | None:
    """What others are told of how this process ends: the error to raise; None if all is well."""
    if error is None:
        return None
    full = isinstance(error, DataprepError) and error.exit_code == NoRoomError.exit_code
    return NoRoomError if full else StagingError, _reason(error)


def _reason(error: BaseException) -> str:
    line = " ".join(str(error).split()) or type(error).__name__
    return line[:_LONGEST_REASON]


def _end_mpi() -> None:
    """All other processes of the launch are about to do the same."""
    from mpi4py import MPI

    MPI.Finalize()


@contextmanager
def _signals_noted(failure: Failure) -> Iterator[None]:
    """Let handlers of SIGINT, SIGTERM and SIGHUP run, but only note what they raise."""

    def note(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:  # noqa: BLE001  # whoever asked for it raises it
            failure.note(error)

    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        handler = signal.getsignal(number)
        if callable(handler):  # not SIG_DFL or SIG_IGN
            handlers[number] = handler
    for each in handlers:
        signal.signal(each, note)
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
