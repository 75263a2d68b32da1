"""Which process this is: its node, its place on the node, its job; from the scheduler or MPI."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dataprep.errors import UsageError
from dataprep.staging.nodes.launchers import Launch, find_launch
from dataprep.staging.nodes.schedulers import (
    Allocation,
    SlurmStep,
    check_below,
    find_allocation,
    find_slurm_step,
    same_host,
    short_name,
)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where this process stands.

    Attributes:
        host: the node's name, as messages give it.
        node: 0-based index of this node.
        nodes: how many nodes take part; 1 if nothing is known of others.
        local_rank: 0-based index of this process on its node; 0 if nothing is known.
        job: what names the scheduler's job, e.g. ``slurm-4711``, the same after a requeue; None
            outside of any.
        step: what names this one launch of processes (a Slurm step and its restart, a PMIx
            namespace, …), the same in all of them and never used again; None if nothing does.
        leader: host name of node 0, where the others can meet; None if not known.
        origin: what told all this, for messages, e.g. ``Slurm``, ``--rank``; ``nothing``.
        doubt: why it cannot be told which of several nodes this is; None if it is certain.
            ``node`` and ``nodes`` are 0 and 1 then, and must not be relied on: see `require_node`.
    """

    host: str
    node: int
    nodes: int
    local_rank: int
    job: str | None
    step: str | None
    leader: str | None
    origin: str
    doubt: str | None = None


def find_placement(
    environment: Mapping[str, str] = os.environ,
    *,
    rank: int | None = None,
    world_size: int | None = None,
    hostname: str | None = None,
) -> Placement:
    """Read the scheduler's and the launcher's variables.

    The innermost counts: ``--rank``, then ``mpirun`` and its like, then a Slurm step, then the
    job, then nothing. Processes of ``mpirun`` inherit the batch script's variables, or those of
    the Slurm step of its daemons, which say nothing of their own place.

    Args:
        environment: Slurm's, PBS's, LSF's, Open MPI's, PMIx's, MPICH's variables are known.
        rank: ``--rank``, the node's index, for loops of ssh; both or none.
        world_size: ``--world_size``, the number of nodes.
        hostname: this host's name; the system's if None.

    Returns:
        The placement; `Placement.doubt` says if the node could only be guessed.

    Raises:
        UsageError: one without the other, out of range, or variables that contradict each other.
    """
    host = short_name(hostname or socket.gethostname())
    if rank is None and world_size is None:
        return _from_environment(environment, host)
    if rank is None or world_size is None:
        given, missing = ("--rank", "--world_size")[:: 1 if world_size is None else -1]
        raise UsageError(f"{given} is given without {missing}; give both, or neither")
    if not 0 <= rank < world_size:
        raise UsageError(
            f"--rank {rank} is not one of {world_size} nodes; they count from 0 to --world_size "
            "less 1"
        )
    return _as_told(environment, host, rank, world_size)


def require_node(placement: Placement, purpose: str) -> None:
    """Insist on knowing which node this is, before anything is done by it.

    Args:
        placement: where this process stands.
        purpose: what needs to know, for the message, e.g. ``--share``.

    Raises:
        UsageError: it is not known.
    """
    if placement.doubt is not None:
        raise UsageError(
            f"{purpose} needs to know which node this is: {placement.doubt}; start one process a "
            "node, or give each node's index and their number with --rank and --world_size"
        )


def _from_environment(environment: Mapping[str, str], host: str) -> Placement:
    step = find_slurm_step(environment)
    launch = find_launch(environment, in_slurm_step=step is not None)
    allocation = find_allocation(environment)
    if launch is not None:
        return _launched(launch, allocation, host)
    if step is not None and allocation is not None:
        return _in_step(step, allocation, host)
    if allocation is not None:
        return _in_job(allocation, host)
    return Placement(host, 0, 1, 0, None, None, host, "nothing")


def _as_told(environment: Mapping[str, str], host: str, rank: int, nodes: int) -> Placement:
    """What the user says of the nodes, and what the variables say of all else."""
    try:
        found = _from_environment(environment, host)
    except UsageError:  # variables that the user has just overruled
        found = Placement(host, 0, 1, 0, None, None, None, "nothing")
    # A loop of launches, one a node, has a step for each of them.
    same = found.doubt is not None or found.nodes == nodes
    agreed = found.doubt is None and (found.node, found.nodes) == (rank, nodes)
    return replace(
        found,
        node=rank,
        nodes=nodes,
        step=found.step if same else None,
        leader=found.leader if agreed else None,
        origin="--rank",
        doubt=None,
    )


def _in_step(step: SlurmStep, allocation: Allocation, host: str) -> Placement:
    return Placement(
        host=step.host or host,
        node=step.node,
        nodes=step.nodes,
        local_rank=step.local_rank,
        job=allocation.job,
        step=step.name,
        leader=step.leader,
        origin=allocation.origin,
    )


def _in_job(allocation: Allocation, host: str) -> Placement:
    """A process that no launcher has started: a batch script, or a task of pbsdsh or blaunch."""
    node, nodes = _index_of(host, allocation.hosts), allocation.count
    if node is None:
        node = allocation.index
    if node is None and allocation.origin == "Slurm":
        node = 0  # the shell of salloc, on a login node
    if nodes is None and not node:
        node, nodes = 0, 1
    found = Placement(host, 0, 1, 0, allocation.job, None, None, allocation.origin)
    if node is None and nodes == 1:
        return found
    if node is None or nodes is None:
        return replace(found, doubt=_unlisted(allocation, host))
    if allocation.index is not None:
        check_below(("PBS_NODENUM", node), ("PBS_NODEFILE", nodes))
    return replace(found, node=node, nodes=nodes)


def _launched(launch: Launch, allocation: Allocation | None, host: str) -> Placement:
    hosts = _launch_hosts(launch, allocation, host)
    place = _node_of(launch, hosts, host)
    node, nodes = place or (0, 1)
    job = allocation.job if allocation else None
    name = None if launch.name is None else f"{launch.origin}-{launch.name}".replace(" ", "-")
    return Placement(
        host=host,
        node=node,
        nodes=nodes,
        local_rank=launch.local_rank or 0,
        job=job,
        step=name and (f"{job}.{name}" if job else name),
        leader=_leader(node, nodes, hosts, host) if place else None,
        origin=launch.origin,
        doubt=None if place else _uncounted(launch),
    )


def _node_of(launch: Launch, hosts: Sequence[str], host: str) -> tuple[int, int] | None:
    """Index and number of nodes, where they are sure; None where they would be a guess.

    Each rule cannot hold on every node of a launch and be wrong on one: processes that are
    alone on their nodes are as many as the nodes; if on each of some hosts there are exactly
    size / N processes, then there are N such hosts.
    """
    size, local_size = launch.size, launch.local_size
    if not size or not local_size:
        return (0, 1) if size == 1 else None
    if local_size == size:
        return 0, 1
    if launch.node is not None:
        return _counted_node(launch, size, local_size)
    if local_size == 1:
        return launch.rank, size
    node = _index_of(host, hosts)
    if node is not None and local_size * len(hosts) == size:
        return node, len(hosts)
    return None


def _counted_node(launch: Launch, size: int, local_size: int) -> tuple[int, int] | None:
    """With the launcher's own index of the node: only their number is to be found.

    Ranks in blocks, each of which begins where it would if all before it were as large: if that
    is so on every node, they are. Of ranks dealt in turn nothing like it can be said.
    """
    nodes, rest = divmod(size, local_size)
    node, local_rank = launch.node, launch.local_rank
    if node is None or local_rank is None or rest or not node < nodes:
        return None
    return (node, nodes) if launch.rank == node * local_size + local_rank else None


def _launch_hosts(launch: Launch, allocation: Allocation | None, host: str) -> Sequence[str]:
    """The hosts that a launch can be on: with jsrun not the one that the batch script is on."""
    hosts = allocation.hosts if allocation else ()
    fewer = (launch.local_size or 0) * (len(hosts) - 1) == launch.size
    if launch.origin == "jsrun" and fewer and _index_of(host, hosts) != 0:
        return hosts[1:]
    return hosts


def _leader(node: int, nodes: int, hosts: Sequence[str], host: str) -> str | None:
    """The first host, if the launch counts hosts as the scheduler lists them."""
    if nodes == 1:
        return host
    return hosts[0] if len(hosts) == nodes and same_host(hosts[node], host) else None


def _index_of(host: str, hosts: Sequence[str]) -> int | None:
    return next((index for index, name in enumerate(hosts) if same_host(name, host)), None)


def _uncounted(launch: Launch) -> str:
    if launch.size is None or launch.local_size is None:
        return f"{launch.origin} does not tell how many processes there are, or how many here"
    return (
        f"{launch.origin} tells that this is process {launch.rank} of {launch.size}, "
        f"{launch.local_size} of them on this node, but not which node it is"
    )


def _unlisted(allocation: Allocation, host: str) -> str:
    if not allocation.hosts:
        return f"{allocation.origin} does not tell the hosts of {allocation.job} here"
    return (
        f"{host} is not among the {len(allocation.hosts)} hosts that {allocation.origin} names "
        f"for {allocation.job}"
    )
