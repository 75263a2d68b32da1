"""Which process this is: its node, its place on the node, its job; from the scheduler or MPI."""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import NamedTuple

from dataprep.errors import UsageError

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
    if (launched := _launched(environment, job, host)) is not None:
        found = launched
    elif job is not None and in_slurm_step(environment):
        found = _in_slurm_step(environment, job, host)
    elif job is not None:
        found = _in_job(job, host)
    else:
        found = Placement(host, leader=host)
    if launched is None and (job is None or found.doubt is not None):
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


def _launched(environment: Mapping[str, str], job: Job | None, host: str) -> Placement | None:
    """A process of a launcher other than ``srun``; None if none has started it."""
    in_step = in_slurm_step(environment)
    for launcher in _LAUNCHERS:
        rank = whole_number(environment, launcher.rank)
        local_rank = whole_number(environment, launcher.local_rank)
        known = local_rank is not None or not launcher.local_rank
        if rank is not None and known and not (in_step and launcher.by_slurm):
            break
    else:
        return None
    launch = environment.get(_set(environment, launcher.name))
    step = ".".join([*([job.name] if job else []), f"{launcher.origin}-{launch}"])
    found = Placement(
        host,
        local_rank=local_rank or 0,
        job=job.name if job else None,
        step=step.replace(" ", "-") if launch else None,
        origin=launcher.origin,
    )
    hosts = job.hosts if job else ()
    size, local = (whole_number(environment, each) for each in (launcher.size, launcher.local_size))
    place = _node_of(rank, size, local, _index_of(host, hosts), len(hosts))
    if place is None:
        doubt = f"{launcher.origin} does not tell which node of how many this is"
        return replace(found, doubt=doubt)
    node, nodes = place
    leader = host if nodes == 1 else None
    if len(hosts) == nodes and _index_of(host, hosts) == node:
        leader = hosts[0]  # the launch counts hosts as the scheduler lists them
    return replace(found, node=node, nodes=nodes, leader=leader)


def _node_of(
    rank: int, size: int | None, local_size: int | None, listed: int | None, hosts: int
) -> tuple[int, int] | None:
    """Index and number of nodes, where they are sure; None where they would be a guess.

    Each rule cannot hold on every node of a launch and be wrong on one: processes that are
    alone on their nodes are as many as the nodes; if on each of some hosts there are exactly
    size / N processes, then there are N such hosts.
    """
    if not size or not local_size:
        return (0, 1) if size == 1 else None
    if local_size == size:
        return 0, 1
    if local_size == 1:
        return rank, size
    return (listed, hosts) if listed is not None and local_size * hosts == size else None


def _index_of(host: str, hosts: Sequence[str]) -> int | None:
    """With or without a domain."""
    names = [short_name(name) for name in hosts]
    return names.index(short_name(host)) if short_name(host) in names else None


# --- What schedulers say of a job's hosts, and launchers of their processes ---

_MOST_STEPS = 0xFFFFFFF0  # Slurm's numbers from here on are batch scripts, shells and the like
_MOST_HOSTS = 1 << 18  # the largest machine yet has 158,976
_LONGEST_NUMBER = 18  # digits; what fits into 64 bits
_HOSTS = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")  # an entry such as r[0-1]n[00-03]


@dataclass(frozen=True, slots=True)
class Job:
    """A scheduler's job, as far as it says."""

    origin: str  # the scheduler's name
    name: str  # an array's elements differ; the same after a requeue
    hosts: tuple[str, ...]  # each once, in the scheduler's order
    count: int | None  # of hosts
    index: int | None = None  # of this host


class _Launcher(NamedTuple):
    """The variables of one launcher; of several the first that is set counts."""

    origin: str  # its name
    rank: str  # of this process among all
    size: str = ""  # how many processes there are
    local_rank: str = ""  # of this process among those on its host
    local_size: str = ""  # how many of them there are
    name: str = ""  # what it calls this launch
    by_slurm: bool = False  # srun sets the same ones, in steps of its own


# The more a launcher says the earlier it comes: Open MPI also sets PMIx's variables, Cray's also
# PMI's. Sources: Open MPI 4.1 and 5.0 and MPICH 5.0 as run; Cray PALS: Slurm's mpi/cray_shasta
# plugin and ALCF's scripts.
_LAUNCHERS = (
    _Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        "PMIX_NAMESPACE OMPI_MCA_ess_base_jobid",
    ),
    _Launcher(
        "Cray PALS",
        "PALS_RANKID",
        "PMI_SIZE",
        "PALS_LOCAL_RANKID",
        "PALS_LOCAL_SIZE PMI_LOCAL_SIZE",
        "PALS_APID",
        by_slurm=True,
    ),
    # MPICH's and Intel MPI's.
    _Launcher("Hydra", "PMI_RANK PMIX_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    _Launcher("PMI", "PMI_RANK", "PMI_SIZE", by_slurm=True),
    _Launcher("PMIx", "PMIX_RANK", name="PMIX_NAMESPACE", by_slurm=True),
)


def in_slurm_step(environment: Mapping[str, str]) -> bool:
    """Whether this is a task of ``srun``, or of a launcher's daemon that ``srun`` has started.

    Batch scripts and the shells of salloc have a step's number too, but one of their own.
    """
    number = environment.get("SLURM_STEP_ID", "")
    is_step = number.isdecimal() and int(number[:_LONGEST_NUMBER]) < _MOST_STEPS
    return is_step and all(map(environment.get, ("SLURM_JOB_ID", "SLURM_PROCID")))


def find_job(environment: Mapping[str, str]) -> Job | None:
    """The job this process is in; None if it is in none.

    Raises:
        UsageError: a variable makes no sense.
    """
    if job := environment.get("SLURM_JOB_ID"):
        hosts = slurm_hosts(environment, "SLURM_JOB_NODELIST SLURM_NODELIST")
        count = whole_number(environment, "SLURM_NNODES SLURM_JOB_NUM_NODES")
        return Job("Slurm", f"slurm-{job}", hosts, count or len(hosts) or None)
    if job := environment.get("LSB_JOBID"):
        element = environment.get("LSB_JOBINDEX") or "0"  # 0 outside of arrays
        listed = (
            _lines(environment.get("LSB_DJOB_HOSTFILE"))
            or environment.get("LSB_MCPU_HOSTS", "").split()[::2]  # each with its number of slots
        )
        hosts = _distinct(listed)
        name = f"lsf-{job}" if element == "0" else f"lsf-{job}[{element}]"
        return Job("LSF", name, hosts, len(hosts) or None)
    if job := environment.get("PBS_JOBID"):
        hosts = _distinct(_lines(environment.get("PBS_NODEFILE")))
        count = len(hosts) or whole_number(environment, "PBS_NUM_NODES")
        return Job("PBS", f"pbs-{job}", hosts, count, whole_number(environment, "PBS_NODENUM"))
    return None


def require_one_component(environment: Mapping[str, str]) -> None:
    """Refuse a heterogeneous job of Slurm: its variables in a batch script are of its first part.

    Raises:
        UsageError: it is one.
    """
    if (whole_number(environment, "SLURM_HET_SIZE") or 1) > 1:
        raise UsageError(
            "dataprep stage SRC -- COMMAND does not know the nodes of a heterogeneous job; start "
            "srun --ntasks-per-node=1 -K dataprep stage SRC in each of its components (--het-group)"
        )


def slurm_hosts(environment: Mapping[str, str], names: str) -> tuple[str, ...]:
    """The hosts of the first list that is set; none if none is.

    Raises:
        UsageError: it is no list of hosts.
    """
    name = _set(environment, names)
    try:
        return tuple(expand_hosts(environment.get(name, "")))
    except ValueError as error:
        raise UsageError(
            f"${name} is no list of hosts such as n[0-2,5]: {error}; correct or unset it"
        ) from error


def expand_hosts(text: str) -> list[str]:
    """The names that Slurm's ``n[0-2,5],m-a[01-10]b`` stands for, as ``scontrol show hostnames``.

    With several brackets in a name the last one counts fastest.

    Raises:
        ValueError: it is no such list.
    """
    hosts: list[str] = []
    entries = _HOSTS.findall(text)
    if ",".join(entries) != text:
        raise ValueError("an unexpected character")
    for entry in entries:
        parts = re.split(r"\[([^\[\]]*)\]", entry)
        choices = [_numbers(part) if at % 2 else [part] for at, part in enumerate(parts)]
        if len(hosts) + prod(map(len, choices)) > _MOST_HOSTS:
            raise ValueError(f"more than {_MOST_HOSTS:,} hosts")
        hosts += map("".join, itertools.product(*choices))
    return hosts


def _numbers(text: str) -> list[str]:
    """Every number of ``08-10,5``, with as many digits at least as the first of its range."""
    numbers: list[str] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if max(len(first), len(last)) > _LONGEST_NUMBER:
            raise ValueError(f"a number of more than {_LONGEST_NUMBER} digits")
        span = range(int(first), int(last or first) + 1)
        if len(numbers) + len(span) > _MOST_HOSTS:
            raise ValueError(f"more than {_MOST_HOSTS:,} hosts")
        numbers += (str(number).zfill(len(first)) for number in span)
    return numbers


def whole_number(environment: Mapping[str, str], names: str) -> int | None:
    """The first of some variables that is set, as a number from 0 up; None if none is.

    Raises:
        UsageError: it is no such number.
    """
    name = _set(environment, names)
    text = environment.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise UsageError(f"${name} is {text[:50]!r}, expected a number; correct or unset it")
    return int(text)


def _set(environment: Mapping[str, str], names: str) -> str:
    """The first of some names, separated by spaces, that is set; empty if none is."""
    return next((name for name in names.split() if environment.get(name)), "")


def short_name(host: str) -> str:
    """A host's name without its domain; an address as it is."""
    return host if re.fullmatch(r"[0-9.]+|.*:.*", host) else host.partition(".")[0].lower()


def _lines(path: str | None) -> list[str]:
    """A host file's lines; none if it is only on the job's first host."""
    try:
        text = Path(path).read_bytes().decode(errors="replace") if path else ""
    except (OSError, ValueError):
        return []
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def _distinct(hosts: Sequence[str]) -> tuple[str, ...]:
    """Each host once: files have a line for every slot, or chunk."""
    found: dict[str, str] = {}
    for host in hosts:
        found.setdefault(short_name(host), host)
    return tuple(found.values())
