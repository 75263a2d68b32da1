"""What Slurm, LSF and PBS say of the job a process is in: its name and its hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import UsageError
from dataprep.staging.nodes.hostlist import expand_hosts

_MOST_STEPS = 0xFFFFFFF0  # Slurm's numbers from here on are batch scripts, shells and the like
_LAUNCH_HOST = re.compile(r"(batch|login)[0-9]*")  # of IBM's systems; no host of the job


@dataclass(frozen=True, slots=True)
class Allocation:
    """A scheduler's job.

    Attributes:
        origin: the scheduler's name.
        job: names the job; an array's elements differ; the same after a requeue.
        hosts: each once, in the scheduler's order; empty if it does not say.
        count: how many hosts; None if it does not say.
        index: of this host, if the scheduler says so.
    """

    origin: str
    job: str
    hosts: tuple[str, ...]
    count: int | None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class SlurmStep:
    """What ``srun`` has started this process in.

    Attributes:
        node: index of this host among the step's.
        nodes: how many they are.
        local_rank: index of this task on its host.
        host: this host, as Slurm calls it; None if it does not say.
        leader: the step's first host; None if Slurm does not say.
        name: names the step, and this run of a job that was requeued.
    """

    node: int
    nodes: int
    local_rank: int
    host: str | None
    leader: str | None
    name: str


def find_allocation(environment: Mapping[str, str]) -> Allocation | None:
    """The job this process is in; None if it is in none.

    Raises:
        UsageError: a variable makes no sense.
    """
    for find in (_slurm, _lsf, _pbs):
        if (allocation := find(environment)) is not None:
            return allocation
    return None


def find_slurm_step(environment: Mapping[str, str]) -> SlurmStep | None:
    """The step this process is a task of; None in batch scripts, shells and outside of Slurm.

    Raises:
        UsageError: variables make no sense, or contradict each other.
    """
    number, job = environment.get("SLURM_STEP_ID", ""), environment.get("SLURM_JOB_ID")
    if not job or not number.isdecimal() or int(number) >= _MOST_STEPS:
        return None
    if not environment.get("SLURM_PROCID"):
        return None
    counts = ("SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    counting = next((name for name in counts if environment.get(name)), counts[0])
    node, nodes = whole_number(environment, "SLURM_NODEID"), whole_number(environment, counting)
    if node is None or nodes is None:
        missing = "SLURM_NODEID" if node is None else counting
        raise UsageError(
            f"${missing} is not set in a Slurm step, where Slurm sets it; pass it on to this "
            "process, or give --rank and --world_size"
        )
    check_below(("SLURM_NODEID", node), (counting, nodes))
    hosts = _slurm_hosts(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    return SlurmStep(
        node=node,
        nodes=nodes,
        local_rank=whole_number(environment, "SLURM_LOCALID") or 0,
        host=environment.get("SLURMD_NODENAME"),
        leader=hosts[0] if hosts else None,
        name=f"slurm-{job}.{number}.{environment.get('SLURM_RESTART_COUNT') or 0}",
    )


def whole_number(environment: Mapping[str, str], *names: str) -> int | None:
    """The first of some variables that is set, as a number from 0 up; None if none is.

    Raises:
        UsageError: it is no such number.
    """
    for name in names:
        text = environment.get(name)
        if text:
            if text.isascii() and text.isdigit():
                return int(text)
            raise UsageError(
                f"${name} is {text!r}, where a number was expected; mend or unset it, or give "
                "--rank and --world_size"
            )
    return None


def check_below(index: tuple[str, int], count: tuple[str, int]) -> None:
    """Check an index against how many there are, each given with its variable's name.

    Raises:
        UsageError: they contradict each other.
    """
    if not index[1] < count[1]:
        raise UsageError(
            f"${index[0]} is {index[1]}, but ${count[0]} is {count[1]}, and it counts from 0; "
            "unset what another job has left, or give --rank and --world_size"
        )


def same_host(one: str, other: str) -> bool:
    """Whether two names, with or without a domain, are one host's."""
    return short_name(one) == short_name(other)


def short_name(host: str) -> str:
    """A host's name without its domain; an address as it is."""
    return host if re.fullmatch(r"[0-9.]+|.*:.*", host) else host.partition(".")[0].lower()


def _slurm(environment: Mapping[str, str]) -> Allocation | None:
    job = environment.get("SLURM_JOB_ID")
    if not job:
        return None
    hosts = _slurm_hosts(environment, "SLURM_JOB_NODELIST", "SLURM_NODELIST")
    count = whole_number(environment, "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
    return Allocation("Slurm", f"slurm-{job}", hosts, count or len(hosts) or None)


def _slurm_hosts(environment: Mapping[str, str], *names: str) -> tuple[str, ...]:
    for name in names:
        if text := environment.get(name):
            try:
                return tuple(expand_hosts(text))
            except ValueError as error:
                raise UsageError(
                    f"${name} is no list of hosts such as n[0-2,5]: {error}; mend or unset it"
                ) from error
    return ()


def _lsf(environment: Mapping[str, str]) -> Allocation | None:
    job = environment.get("LSB_JOBID")
    if not job:
        return None
    element = environment.get("LSB_JOBINDEX") or "0"  # 0 outside of arrays
    hosts = (
        _lines(environment.get("LSB_DJOB_HOSTFILE"))
        or environment.get("LSB_MCPU_HOSTS", "").split()[::2]  # each with its number of slots
        or environment.get("LSB_HOSTS", "").split()
    )
    if hosts and _LAUNCH_HOST.fullmatch(short_name(hosts[0])):
        hosts = hosts[1:]
    name = f"lsf-{job}" if element == "0" else f"lsf-{job}[{element}]"
    distinct = _distinct(hosts)
    return Allocation("LSF", name, distinct, len(distinct) or None)


def _pbs(environment: Mapping[str, str]) -> Allocation | None:
    job = environment.get("PBS_JOBID")
    if not job:
        return None
    hosts = _distinct(_lines(environment.get("PBS_NODEFILE")))
    count = len(hosts) or whole_number(environment, "PBS_NUM_NODES")
    index = whole_number(environment, "PBS_NODENUM")
    return Allocation("PBS", f"pbs-{job}", hosts, count, index)


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
