"""Which process this is: its node, its place on the node, its job; from the scheduler or MPI."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dataprep.errors import UsageError
from dataprep.staging.schedulers import (
    Job,
    Launch,
    find_job,
    find_launch,
    in_slurm_step,
    short_name,
    slurm_hosts,
    whole_number,
)

# Slurm's numbers of nodes and its lists, the step's own first.
_STEP_NODES = "SLURM_STEP_NUM_NODES SLURM_NNODES SLURM_JOB_NUM_NODES"
_STEP_HOSTS = "SLURM_STEP_NODELIST SLURM_JOB_NODELIST"
LOOP = "RANK"  # the origin where a loop over the nodes tells which one this is


@dataclass(frozen=True, slots=True)
class Placement:
    """Where this process stands, as far as that is known."""

    host: str  # the node's name, as messages give it
    node: int = 0  # 0-based index of this node
    nodes: int = 1  # how many nodes take part
    local_rank: int = 0  # 0-based index of this process on its node
    job: str | None = None  # the scheduler's job, e.g. ``slurm-4711``, the same after a requeue
    # Names this one launch of processes (a Slurm step and its restart, a PMIx namespace, …), the
    # same in all of them and never used again.
    step: str | None = None
    leader: str | None = None  # host name of node 0, where the others can meet
    origin: str = "nothing"  # what told all this, for messages, e.g. ``Slurm``; or `LOOP`
    # Why it cannot be told which of several nodes this is: then ``node`` and ``nodes`` are 0 and 1,
    # and must not be relied on, see `require_node`.
    doubt: str | None = None


def find_placement(
    environment: Mapping[str, str] = os.environ, *, hostname: str | None = None
) -> Placement:
    """Read the scheduler's and the launcher's variables.

    The innermost counts: ``mpirun`` and its like, then a Slurm step, then the job, then nothing.
    Processes of ``mpirun`` inherit the batch script's variables, or those of the Slurm step of its
    daemons, which say nothing of their own place. Where none of them tells which node this is, a
    loop over the nodes does, with the variables that ``torchrun`` has for it: ``RANK`` and
    ``WORLD_SIZE``, one process a node.

    Args:
        environment: Slurm's, PBS's, LSF's, Open MPI's, PMIx's, MPICH's variables are known.
        hostname: this host's name; the system's if None.

    Returns:
        The placement; `Placement.doubt` says if the node could only be guessed.

    Raises:
        UsageError: variables that make no sense, or contradict each other.
    """
    host = short_name(hostname or socket.gethostname())
    job = find_job(environment)
    if (launch := find_launch(environment)) is not None:
        found = _launched(launch, job, host)
    elif job is not None and in_slurm_step(environment):
        found = _in_slurm_step(environment, job, host)
    elif job is not None:
        found = _in_job(job, host)
    else:
        found = Placement(host, leader=host)
    if launch is None and (job is None or found.doubt is not None):
        found = _in_loop(environment, found) or found
    if found.node >= found.nodes:
        raise UsageError(
            f"{found.origin}'s variables contradict each other: node {found.node} of {found.nodes},"
            " counted from 0; unset what another job has left"
        )
    return found


def require_node(placement: Placement, purpose: str) -> None:
    """Insist on knowing which node this is, before anything is done by it.

    Args:
        purpose: what needs to know, for the message, e.g. ``--share``.

    Raises:
        UsageError: it is not known.
    """
    if placement.doubt is not None:
        raise UsageError(
            f"{purpose} needs to know which node this is: {placement.doubt}; start one process a "
            "node; a loop of ssh sets RANK, from 0, and WORLD_SIZE for each"
        )


def _in_loop(environment: Mapping[str, str], found: Placement) -> Placement | None:
    """One of the processes that a loop of ssh, or pdsh, has started on the nodes."""
    # Those of torchrun itself have a number among all processes, too; then its agents are nodes.
    node = whole_number(environment, "GROUP_RANK RANK")
    nodes = whole_number(environment, "GROUP_WORLD_SIZE WORLD_SIZE")
    if node is None or nodes is None:
        return None
    local_rank = whole_number(environment, "LOCAL_RANK") or 0
    return Placement(found.host, node, nodes, local_rank, job=found.job, origin=LOOP)


def _in_slurm_step(environment: Mapping[str, str], job: Job, host: str) -> Placement:
    nodes = whole_number(environment, _STEP_NODES)
    node = whole_number(environment, "SLURM_NODEID")
    if node is None or nodes is None:
        raise UsageError(
            "$SLURM_NODEID or $SLURM_STEP_NUM_NODES is not set in a Slurm step, where Slurm sets "
            "it; pass it on to this process"
        )
    restart = environment.get("SLURM_RESTART_COUNT") or 0
    return Placement(
        host=environment.get("SLURMD_NODENAME") or host,
        node=node,
        nodes=nodes,
        local_rank=whole_number(environment, "SLURM_LOCALID") or 0,
        job=job.name,
        step=f"{job.name}.{environment['SLURM_STEP_ID']}.{restart}",
        leader=next(iter(slurm_hosts(environment, _STEP_HOSTS)), None),
        origin=job.origin,
    )


def _in_job(job: Job, host: str) -> Placement:
    """A process that no launcher has started: a batch script, or a task of pbsdsh or blaunch."""
    node, nodes = _index_of(host, job.hosts), job.count
    if node is None:
        # In Slurm, the shell of salloc, on a login node.
        node = 0 if job.index is None and job.origin == "Slurm" else job.index
    found = Placement(host, job=job.name, origin=job.origin)
    if (nodes is None and not node) or (nodes == 1 and node is None):
        return found
    if node is None or nodes is None:
        return replace(found, doubt=f"{host} is not among the hosts that {job.origin} names")
    return replace(found, node=node, nodes=nodes)


def _launched(launch: Launch, job: Job | None, host: str) -> Placement:
    hosts = job.hosts if job else ()
    step = ".".join([*([job.name] if job else []), f"{launch.origin}-{launch.name}"])
    found = Placement(
        host,
        local_rank=launch.local_rank or 0,
        job=job.name if job else None,
        step=step.replace(" ", "-") if launch.name else None,
        origin=launch.origin,
    )
    place = _node_of(launch, hosts, host)
    if place is None:
        doubt = f"{launch.origin} does not tell which node of how many this is"
        return replace(found, doubt=doubt)
    node, nodes = place
    leader = host if nodes == 1 else None
    if len(hosts) == nodes and _index_of(host, hosts) == node:
        leader = hosts[0]  # the launch counts hosts as the scheduler lists them
    return replace(found, node=node, nodes=nodes, leader=leader)


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
    if local_size == 1:
        return launch.rank, size
    node = _index_of(host, hosts)
    return (node, len(hosts)) if node is not None and local_size * len(hosts) == size else None


def _index_of(host: str, hosts: Sequence[str]) -> int | None:
    """With or without a domain."""
    names = [short_name(name) for name in hosts]
    return names.index(short_name(host)) if short_name(host) in names else None
