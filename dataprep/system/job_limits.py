"""What control groups and the batch scheduler leave to this process: cores and memory.

A process sees all cores and all memory of the machine. The kernel makes it wait, or kills it, once
its group has used more than its bound. A scheduler may bind nothing, without a task plugin, cgroup
hook or the like; then only its variables tell what a job asked for.

Sources: the kernel's admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and scheduler/sched-bwc.rst;
cgroups(7) and proc_pid_mountinfo(5); the environment variables of sbatch(1), srun(1), salloc(1).
"""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from dataprep.system.filesystems import unescaped

_UNLIMITED = ("max", "-1")
_CPU = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
# Limits, what is in use, and what of that the kernel gives back when asked.
_MEMORY = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}

_STEPS_BUT_OF_SRUN = 0xFFFFFFF0  # Slurm's numbers from here on: batch scripts, shells and the like
_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")  # `2(x3)`: 2 on each of 3 nodes


def group_cores(root: Path = Path("/")) -> int | None:
    """The least bound of this process's control groups in whole cores, rounded up.

    Args:
        root: what ``proc`` and the groups' mount points are under.

    Returns:
        1 or more; None if there is no bound, or none that can be found out.
    """
    bounds = (_cpu_bound(group, version) for version, group in _groups("cpu", root))
    return min((bound for bound in bounds if bound is not None), default=None)


def group_memory(root: Path = Path("/")) -> int | None:
    """Bytes that the narrowest of this process's control groups leaves.

    What the kernel can take back of the page cache counts as left. ``root`` as in `group_cores`.
    """
    rooms = (_memory_left(group, version) for version, group in _groups("memory", root))
    return min((room for room in rooms if room is not None), default=None)


def _cpu_bound(group: Path, version: int) -> int | None:
    words = [word for name in _CPU[version] for word in _read(group / name).split()]
    if not words or words[0] in _UNLIMITED:
        return None
    try:
        return max(1, math.ceil(int(words[0]) / int(words[1])))
    except (ValueError, ArithmeticError, LookupError):
        return None


def _memory_left(group: Path, version: int) -> int | None:
    names, usage, reclaimable = _MEMORY[version]
    limits = [limit for name in names if (limit := whole_number(_read(group / name))) is not None]
    used = whole_number(_read(group / usage))
    if not limits or used is None:
        return None
    for line in _read(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == reclaimable:
            used -= whole_number(value) or 0
    return max(min(limits) - used, 0)


def _groups(controller: str, root: Path) -> Iterator[tuple[int, Path]]:
    """Version and directory of this process's groups, and of those above them, that are mounted."""
    own = dict(_memberships(_read(root / "proc/self/cgroup"), controller))
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, behind = line.partition(" - ")
        fields, (kind, _, rest) = before.split(" "), behind.partition(" ")
        version = {"cgroup2": 2, "cgroup": 1}.get(kind)
        if version not in own or len(fields) < 5:
            continue
        if version == 1 and controller not in rest.rpartition(" ")[2].split(","):
            continue
        top = root / unescaped(fields[4]).lstrip("/")
        group = top / _below(own[version], unescaped(fields[3]))
        # In a container the group may have the name that it has outside: the mount point is the
        # nearest that can be seen.
        group = group if group.is_dir() else top
        yield version, group
        while group != top:
            group = group.parent
            yield version, group


def _memberships(cgroup: str, controller: str) -> Iterator[tuple[int, str]]:
    """Version and name of this process's groups; lines of number, controllers and name."""
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            yield 2, name
        elif controller in controllers.split(","):
            yield 1, name


def _below(name: str, root: str) -> PurePosixPath:
    """A group's name relative to the group that is mounted; empty if it is not below it."""
    if ".." in name.split("/") or not PurePosixPath(name).is_relative_to(root):
        return PurePosixPath()
    return PurePosixPath(name).relative_to(root)


def scheduler_cores(environ: Mapping[str, str], host: str | None = None) -> int | None:
    """The cores that Slurm, PBS or LSF has given to this process on this host.

    Args:
        environ: the environment.
        host: this host; by default what it calls itself.

    Returns:
        1 or more; None outside of their jobs, and where they do not say.
    """
    if environ.get("SLURM_JOB_ID"):
        return _slurm_cores(environ)
    if environ.get("PBS_JOBID"):
        # Of PBS Professional and OpenPBS: the chunk's ncpus, or its ompthreads.
        return whole_number(environ.get("NCPUS", "")) or None
    if environ.get("LSB_JOBID"):
        return _lsf_cores(environ, host or socket.gethostname())
    return None


def scheduler_memory(environ: Mapping[str, str]) -> int | None:
    """The memory that Slurm has given to the job on this node, in bytes; it counts in MiB."""
    node, each, cores = (
        whole_number(environ.get(f"SLURM_{name}", ""))
        for name in ("MEM_PER_NODE", "MEM_PER_CPU", "CPUS_ON_NODE")
    )
    granted = (each or 0) * (cores or 0) if node is None else node
    return granted * (1 << 20) or None  # 0 stands for all of the node's


def _slurm_cores(environ: Mapping[str, str]) -> int | None:
    """Under ``srun`` a task's share; in a batch script or shell, all that the job has here.

    Slurm sets SLURM_CPUS_PER_TASK only if --cpus-per-task was given, and SLURM_CPUS_ON_NODE only on
    the nodes of the job: the shell of ``salloc`` may be on a login node, which is no part of it.
    """
    step = whole_number(environ.get("SLURM_STEP_ID", ""))
    by_srun = step is not None and step < _STEPS_BUT_OF_SRUN
    each = whole_number(environ.get("SLURM_CPUS_PER_TASK", "")) or None
    here = whole_number(environ.get("SLURM_CPUS_ON_NODE", "")) or None
    if here is None:
        return each
    tasks = _tasks(environ, "SLURM_STEP_TASKS_PER_NODE" if by_srun else "SLURM_TASKS_PER_NODE")
    if by_srun:
        return min(here, each or max(1, here // tasks))
    return min(here, each * tasks) if each else here


def _tasks(environ: Mapping[str, str], name: str) -> int:
    """How many tasks are on this node, by a list such as ``2(x3),1``; 1 if it does not say."""
    node = whole_number(environ.get("SLURM_NODEID", "")) or 0
    for count, nodes in _TASKS.findall(environ.get(name, "")):
        node -= int(nodes or 1)
        if node < 0:
            return max(1, int(count))
    return 1


def _lsf_cores(environ: Mapping[str, str], host: str) -> int | None:
    """The slots on this host, in LSB_MCPU_HOSTS: ``host1 4 host2 8``."""
    if environ.get("LSB_BIND_CPU_LIST"):
        return None  # asked for with affinity[]: a slot may be several cores, and LSF binds them
    words = environ.get("LSB_MCPU_HOSTS", "").split()
    for name, slots in zip(words[::2], words[1::2], strict=False):
        if name.partition(".")[0] == host.partition(".")[0] and slots.isdecimal():
            return max(1, int(slots))
    return None


def whole_number(text: str) -> int | None:
    """A number of the kernel's or a scheduler's; None if it is anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _read(path: Path) -> str:
    """A file of the kernel's; empty if it is not there or not for us."""
    try:
        return os.fsdecode(path.read_bytes())
    except OSError:
        return ""
