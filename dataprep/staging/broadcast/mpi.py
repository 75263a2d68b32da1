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
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import Self

from dataprep.errors import DataprepError
from dataprep.staging.broadcast.deferring import signals_deferred
from dataprep.staging.broadcast.mpi_messages import (
    NodeFailedError,
    abort,
    gather,
    outcome_of,
    reason,
    receive,
    send,
    sentence,
    wait_for,
)
from dataprep.staging.nodes.peers import Report

if TYPE_CHECKING:
    from mpi4py import MPI

_T = TypeVar("_T")

# What launchers set for the processes of an MPI job: mpirun's and srun's, by way of PMI or PMIx.
_LAUNCHED = (
    *("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"),
    *("PALS_RANKID", "ALPS_APP_PE"),  # Cray
)

_TOLD = 1  # tag of a node's message that it has failed
_OUTCOME = 2  # tag of a copier's message to those who wait on its node
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
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        return f"MPI cannot be loaded ({' '.join(str(error).split())})"
    if MPI.COMM_WORLD.Get_size() == 1:
        return (
            "MPI knows only this process (use mpirun, or the srun --mpi=… that this MPI was "
            "built for)"
        )
    return None


def join(target: Path | None) -> MpiPeers | MpiWaiter:
    """Find the other processes of the launch, and what this one is to do. All must call it.

    Args:
        target: where this process would copy to. Processes of one machine that have the same are
            one node. None if it could not be found out: then this process counts as a node of its
            own, and should raise its error inside the context, so that all others hear of it.
    """
    with signals_deferred() as deferred:
        joined = _join(target)
    if deferred.error is not None:
        with joined:
            raise deferred.error
    return joined


def _join(target: Path | None) -> MpiPeers | MpiWaiter:
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()  # nobody else's messages travel on it
    rank: int = world.Get_rank()
    identities = gather(world, _identity(target, rank))
    copier_of = [identities.index(identity) for identity in identities]
    copier = copier_of[rank]
    # All must take part in the division, those who wait too.
    among = world.Split(0 if copier == rank else MPI.UNDEFINED, rank)
    if copier != rank:
        return MpiWaiter(world, copier)
    waiting = [other for other, chosen in enumerate(copier_of) if chosen == rank != other]
    return MpiPeers(world, among, waiting)


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
        copier: always true.
        among: the communicator of the copiers.
        outcome: what `MpiWaiter.wait` is to return on this node, JSON of at most 2 KB.
    """

    copier = True

    def __init__(self, world: MPI.Comm, among: MPI.Comm, waiting: Sequence[int]) -> None:
        self.index: int = among.Get_rank()
        self.count: int = among.Get_size()
        self.among = among
        self.outcome: Report = {}
        self._world = world
        self._waiting = waiting
        self._lock = threading.Lock()  # held by who talks to MPI
        self._heard: set[int] = set()  # nodes whose messages of failure have been received
        self._over = False  # all nodes know that one has failed, or have left
        self._broken = False  # some may wait for a call that this node does not make
        atexit.register(self._end_others)

    def exchange(self, report: Report) -> Sequence[Report]:
        """Give every node this one's report, and get all of theirs, by node index.

        Raises:
            StagingError: a node has failed; its name and its reason are in the message.
        """
        return self.run(lambda: self.settle(None, report))

    def check(self) -> None:
        """Raise if another node has failed meanwhile; quick, and safe from any thread.

        While nodes exchange or broadcast they learn that by themselves.

        Raises:
            StagingError: it has.
        """
        from mpi4py import MPI

        may = MPI.Query_thread() >= MPI.THREAD_SERIALIZED or MPI.Is_thread_main()
        if not may or not self._lock.acquire(blocking=False):
            return
        try:
            status = MPI.Status()
            if self._over or not self.among.Iprobe(MPI.ANY_SOURCE, _TOLD, status):
                return
            node = status.Get_source()
            told = receive(self.among, node, _TOLD)
            self._heard.add(node)
        finally:
            self._lock.release()
        raise NodeFailedError(told)

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
        with self._lock, signals_deferred(on_interrupt) as deferred:
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
            StagingError: another node has failed.
        """
        return self._settle(error, report, told=False)

    def _settle(
        self, error: BaseException | None, report: Report | None, *, told: bool
    ) -> list[Report]:
        message = {
            "host": socket.gethostname(),
            "report": report,
            "failed": reason(error),
            "echo": isinstance(error, NodeFailedError),
            "told": told,
        }
        messages = gather(self.among, message)
        for node, other in enumerate(messages):
            if other["told"] and node != self.index and node not in self._heard:
                receive(self.among, node, _TOLD)
        found = sentence(messages)
        if found is not None:
            self._over = True
            raise error or NodeFailedError(found)
        return [other["report"] for other in messages]

    def _leave(self, error: BaseException | None) -> None:
        """Tell and hear how it went; also those who will hear it while they copy."""
        if error is None or isinstance(error, NodeFailedError):
            self.settle(error)
            return
        told = f"node {self.index} ({socket.gethostname()}) failed: {reason(error)}"
        others = [node for node in range(self.count) if node != self.index]
        sent = [send(self.among, told, node, _TOLD) for node in others]
        try:
            self._settle(error, None, told=True)
        finally:
            for request in sent:
                wait_for(request)

    def _inform(self, error: BaseException | None) -> None:
        """Tell those who wait on this node how it ended."""
        code = error.exit_code if isinstance(error, DataprepError) else 1
        message = {"failed": reason(error), "code": code, "outcome": self.outcome}
        for request in [send(self._world, message, rank, _OUTCOME) for rank in self._waiting]:
            wait_for(request)

    def _end_others(self) -> None:
        """The process ends, and by a mishap the context was never entered or left."""
        abort(self._world, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ending = error
        if not self._over and not self._broken:
            try:
                self.run(lambda: self._leave(error))
            except BaseException as another:  # noqa: BLE001 - raised below, once all are told
                ending = error or another
            self._over = True
        if self._broken:
            abort(self._world, ending)
        atexit.unregister(self._end_others)
        self._inform(ending)
        if ending is not None and error is None:
            raise ending


class MpiWaiter:
    """A process whose node has another copier. A context manager.

    Attributes:
        copier: always false.
    """

    copier = False

    def __init__(self, world: MPI.Comm, chosen: int) -> None:
        self._world = world
        self._chosen = chosen

    def wait(self) -> Report:
        """Sleep until the copier is done.

        Returns:
            Its `MpiPeers.outcome`.

        Raises:
            NoRoomError: it has ended with that.
            StagingError: it has failed otherwise; the message is its own.
        """
        while not self._world.Iprobe(self._chosen, _OUTCOME):
            time.sleep(_PAUSE)
        return outcome_of(receive(self._world, self._chosen, _OUTCOME))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nobody waits for this one."""
