"""Nodes that know each other through MPI.

All processes of the launch call `join`. One process a node becomes the copier (the lowest rank
that has its target there); the others wait for its outcome without using the processor.

Collective calls must match on all nodes, or they wait for ever. So a node that fails does not fall
silent: it takes part in the next exchange, and says there that it has failed and why. All nodes see
that in the same exchange, and none exchanges anything after it. What a signal's handler raises in
the midst of a collective call waits until all have completed it. What remains:

- A process is killed: ``mpirun``, and ``srun -K``, end the others.
- A process ends without having joined: the same. Whoever has no target joins without one, and
  raises inside, so that all others hear why.
- MPI itself fails, or a process ends without having left: `MPI_Abort`, the last resort.

Once all know how it has ended, each process ends MPI, and only then itself: to a launcher, whoever
ends without has crashed, and the launch's exit code says so whatever the process's own.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dataprep.staging.broadcast.deferring import signals_deferred
from dataprep.staging.broadcast.mpi_messages import (
    abort,
    ending,
    failure,
    gather,
    raise_as,
    receive,
    send,
    wait_for,
)
from dataprep.staging.nodes.agreement import Report

if TYPE_CHECKING:
    from mpi4py import MPI

_T = TypeVar("_T")

# What launchers set for the processes of an MPI job: mpirun's and srun's, by way of PMI or PMIx.
_LAUNCHED = (
    *("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"),
    *("PALS_RANKID", "ALPS_APP_PE"),  # Cray
)

_OUTCOME = 1  # tag of a copier's message to those who wait on its node
_PAUSE = 0.05  # seconds between two looks of those who wait on a node


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
    started_here = "mpi4py.MPI" not in sys.modules
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return f"MPI cannot be loaded ({' '.join(str(error).split())})"
    if MPI.Is_finalized():
        return "MPI has been used and ended in this process already"
    if MPI.COMM_WORLD.Get_size() == 1:
        if started_here:
            MPI.Finalize()
        return (
            "MPI knows only this process (use mpirun, or the srun --mpi=… that this MPI was "
            "built for)"
        )
    return None


def join(target: Path | None, *, ends_mpi: bool = True) -> MpiPeers | MpiWaiter:
    """Find the other processes of the launch, and what this one is to do. All must call it.

    Args:
        target: where this process would copy to. Processes of one machine that have the same are
            one node. None if it could not be found out: then this process counts as a node of its
            own, and should raise its error inside the context, so that all others hear of it.
        ends_mpi: whether MPI ends with the context, for all processes of the launch. If not, they
            can join again.
    """
    with signals_deferred() as deferred:
        joined = _join(target, ends_mpi)
    if deferred.error is not None:
        with joined:
            raise deferred.error
    return joined


def _join(target: Path | None, ends_mpi: bool) -> MpiPeers | MpiWaiter:
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()  # nobody else's messages travel on it
    rank: int = world.Get_rank()
    identities = gather(world, _identity(target, rank))
    copier_of = [identities.index(identity) for identity in identities]
    copier = copier_of[rank]
    # All must take part in the division, those who wait too.
    among = world.Split(0 if copier == rank else MPI.UNDEFINED, rank)
    if copier != rank:
        return MpiWaiter(world, copier, ends_mpi=ends_mpi)
    waiting = [other for other, chosen in enumerate(copier_of) if chosen == rank != other]
    return MpiPeers(world, among, waiting, ends_mpi=ends_mpi)


def _identity(target: Path | None, rank: int) -> list[Any]:
    """What is equal in processes that would write to the same place, and in no others."""
    host = [socket.gethostname(), _boot()]
    if target is None:
        return [*host, rank]
    place = Path(os.path.realpath(target))
    try:
        existing = next(path for path in (place, *place.parents) if path.exists())
        # The same path may be another file system in another mount namespace.
        return [*host, existing.stat().st_dev, str(place)]
    except OSError:  # whoever makes the directory will say so
        return [*host, rank]


def _boot() -> str:
    """Tells machines apart that have the same name; empty if the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class MpiPeers:
    """This node's copier, among those of the other nodes. A context manager.

    Left with an exception, it tells the other nodes, and the processes that wait on this one. Left
    without, it waits for the other nodes, and raises if one of them has failed meanwhile.

    Attributes:
        index: of this node, 0-based, in the order of the nodes' lowest ranks.
        count: of nodes.
        among: the communicator of the copiers.
    """

    def __init__(
        self, world: MPI.Comm, among: MPI.Comm, waiting: Sequence[int], *, ends_mpi: bool
    ) -> None:
        self.index: int = among.Get_rank()
        self.count: int = among.Get_size()
        self.among = among
        self._world = world
        self._waiting = waiting
        self._ends_mpi = ends_mpi
        self._over = False  # all nodes know that one has failed
        self._broken = False  # some may wait for a call that this node does not make
        atexit.register(self._end_others)

    def exchange(self, report: Report) -> Sequence[Report]:
        """Give every node this one's report, and get all of theirs, by node index.

        Raises:
            NoRoomError: a node has ended with that; its name and its reason are in the message.
            StagingError: a node has failed otherwise.
        """
        return self.run(lambda: self.settle(None, report))

    def run(
        self,
        work: Callable[[], _T],
        on_interrupt: Callable[[BaseException], None] | None = None,
    ) -> _T:
        """Do something with MPI that all nodes do, and that none may leave half-way.

        Args:
            work: what. It may fail only by `settle`.
            on_interrupt: told what a signal's handler has raised meanwhile; that is raised again
                once the work is done.
        """
        with signals_deferred(on_interrupt) as deferred:
            self._broken = True
            try:
                result = work()
            except BaseException:
                self._broken = not self._over
                raise
            self._broken = False
        if deferred.error is not None:
            raise deferred.error
        return result

    def settle(self, error: BaseException | None, report: Report | None = None) -> list[Report]:
        """Let all nodes know whether one has failed. Only within `run`.

        Args:
            error: of this node, if it has failed.
            report: what else to tell.

        Returns:
            All nodes' reports.

        Raises:
            BaseException: ``error``.
            NoRoomError: another node has ended with that.
            StagingError: another node has failed otherwise.
        """
        message = {"host": socket.gethostname(), "report": report, **ending(error)}
        messages = gather(self.among, message)
        found = failure(messages)
        if found is not None:
            self._over = True
            raise error or found
        return [other["report"] for other in messages]

    def _leave(self, error: BaseException | None) -> BaseException | None:
        """Tell and hear how it went, all that wait for it; what to raise in the end."""
        if not self._over and not self._broken:
            try:
                self.run(lambda: self.settle(error))
            except BaseException as another:  # noqa: BLE001 - raised once all are told
                error = error or another
        if self._broken:
            abort(self._world, error)
        atexit.unregister(self._end_others)
        for request in [send(self._world, ending(error), each, _OUTCOME) for each in self._waiting]:
            wait_for(request)
        if self._ends_mpi:
            _end_mpi()
        return error

    def _end_others(self) -> None:
        """The process ends, and by a mishap the context was never entered or left."""
        abort(self._world, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        with signals_deferred() as deferred:
            found = self._leave(error)
        if error is None and (found := found or deferred.error) is not None:
            raise found


class MpiWaiter:
    """A process whose node has another copier. A context manager."""

    def __init__(self, world: MPI.Comm, chosen: int, *, ends_mpi: bool) -> None:
        self._world = world
        self._chosen = chosen
        self._ends_mpi = ends_mpi
        self._told = False

    def wait(self) -> None:
        """Sleep until the copier is done.

        Raises:
            NoRoomError: it has ended with that.
            StagingError: it has failed otherwise; the message is its own.
        """
        while not self._world.Iprobe(self._chosen, _OUTCOME):
            time.sleep(_PAUSE)
        with signals_deferred() as deferred:
            message = receive(self._world, self._chosen, _OUTCOME)
            self._told = True
        raise_as(message)
        if deferred.error is not None:
            raise deferred.error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A process that was stopped before must not wait here until all others are done.
        if self._told and self._ends_mpi:
            _end_mpi()


def _end_mpi() -> None:
    """Wait for all other processes of the launch to do the same, which they are about to."""
    from mpi4py import MPI

    MPI.Finalize()
