"""What this process may use of the machine: cores and memory.

A process sees all cores and all memory of the machine. The kernel makes it wait, or kills it, once
its control group has used more than its bound. A scheduler may bind nothing, without a task plugin,
cgroup hook or the like; then only its variables tell what a job asked for.

Sources: the kernel's admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and scheduler/sched-bwc.rst;
cgroups(7); the environment variables of sbatch(1), srun(1), salloc(1).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path

from dataprep.system.site import login_site

_THREADS = "OMP_NUM_THREADS"
_MOUNT = "sys/fs/cgroup"
_CPU = {1: ("cpu.cfs_quota_us", "cpu.cfs_period_us"), 2: ("cpu.max",)}
# The limit, what is in use, and what of that the kernel gives back when asked.
_MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
_STEPS_BUT_OF_SRUN = 0xFFFFFFF0  # Slurm's numbers from here on: batch scripts, shells and the like


def usable_cores() -> int:
    """The least of the affinity mask, the quota of control groups and what the scheduler gave.

    Outside of its jobs, what the site allows there.

    Raises:
        UsageError: the site's defaults are none.
    """
    here = login_site()
    given = here.login_workers if here else scheduler_cores(os.environ)
    bounds = (len(os.sched_getaffinity(0)), group_cores(), given)
    return min(bound for bound in bounds if bound is not None)


def group_cores(root: Path = Path("/")) -> int | None:
    """The least bound of this process's control groups in whole cores, rounded up.

    Args:
        root: what ``proc`` and ``sys`` are under.

    Returns:
        1 or more; None if there is no bound, or none that can be found out.
    """
    bounds = []
    for version, group in _groups("cpu", root):
        words = " ".join(_read(group / name) for name in _CPU[version]).split()
        quota, period = (_number(word) for word in (*words, "", "")[:2])
        if quota and period:
            bounds.append(math.ceil(quota / period))
    return min(bounds, default=None)


def scheduler_cores(environ: Mapping[str, str], host: str | None = None) -> int | None:
    """The cores that Slurm, PBS or LSF has given to this process on this host.

    Returns:
        1 or more; None outside of their jobs, and where they do not say.
    """
    if environ.get("SLURM_JOB_ID"):
        return _slurm_cores(environ)
    if environ.get("PBS_JOBID"):
        # Of PBS Professional and OpenPBS: the chunk's ncpus, or its ompthreads.
        return _number(environ.get("NCPUS")) or None
    if environ.get("LSB_JOBID") and not environ.get("LSB_BIND_CPU_LIST"):  # LSF binds nothing
        here = (host or os.uname().nodename).partition(".")[0]
        slots = re.findall(r"(\S+) (\d+)", environ.get("LSB_MCPU_HOSTS", ""))  # host1 4 host2 8
        return {name.partition(".")[0]: int(count) for name, count in slots}.get(here) or None
    return None


def _slurm_cores(environ: Mapping[str, str]) -> int | None:
    """Under ``srun`` a task's share; in a batch script or shell, all that the job has here.

    Slurm sets SLURM_CPUS_PER_TASK only if --cpus-per-task was given, and SLURM_CPUS_ON_NODE only on
    the nodes of the job: the shell of ``salloc`` may be on a login node, which is no part of it.
    """
    names = ("CPUS_ON_NODE", "CPUS_PER_TASK", "STEP_ID", "STEP_NUM_TASKS", "STEP_NUM_NODES")
    here, each, step, tasks, nodes = (_number(environ.get(f"SLURM_{name}")) for name in names)
    if not here:
        return each or None
    if step is None or step >= _STEPS_BUT_OF_SRUN:
        return here
    return min(here, each or max(1, here // math.ceil((tasks or 1) / (nodes or 1))))


def available_memory(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> int:
    """Bytes of memory that are left to this process, without swapping.

    The least of the kernel's own estimate (``MemAvailable``, proc(5); where there is none, the
    machine's memory), of what its control groups leave, and of what Slurm gave to the job on this
    node: the node's other jobs need the rest.

    Args:
        root: as in `group_cores`.
    """
    found = re.search(r"^MemAvailable:\s+(\d+)", _read(root / "proc/meminfo"), re.MULTILINE)
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = int(found[1]) * 1024 if found else machine
    bounds = (left, group_memory(root), _slurm_memory(environ))
    return min(bound for bound in bounds if bound is not None)


def group_memory(root: Path = Path("/")) -> int | None:
    """What the narrowest control group leaves, with what can be taken back of the page cache."""
    left = []
    for version, group in _groups("memory", root):
        limit, used = (_number(_read(group / name)) for name in _MEMORY[version][:2])
        if limit is not None and used is not None:
            cache = re.escape(_MEMORY[version][2])
            cached = re.search(rf"^{cache} (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
            left.append(max(limit - used + int(cached[1] if cached else 0), 0))
    return min(left, default=None)


def _slurm_memory(environ: Mapping[str, str]) -> int | None:
    """The memory that Slurm has given to the job on this node, in bytes; it counts in MiB."""
    names = ("MEM_PER_NODE", "MEM_PER_CPU", "CPUS_ON_NODE")
    node, each, cores = (_number(environ.get(f"SLURM_{name}")) for name in names)
    granted = (each or 0) * (cores or 0) if node is None else node
    return granted * (1 << 20) or None  # 0 stands for all of the node's


def _groups(controller: str, root: Path) -> Iterator[tuple[int, Path]]:
    """Version and directory of this process's groups, and of those above them.

    In a container the group may have the name that it has outside: the mount point is the nearest
    that can be seen.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, name = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        version, top = (1, root / _MOUNT / controller) if controllers else (2, root / _MOUNT)
        group = top / name.lstrip("/")
        if ".." in group.parts or not group.is_dir():
            group = top
        yield from ((version, each) for each in (group, *group.parents) if each.is_relative_to(top))


def _number(text: str | None) -> int | None:
    """A number of the kernel's or a scheduler's; None if it is anything else."""
    return int(text) if re.fullmatch(r"[0-9]+\n?", text or "") and text else None


def _read(path: Path) -> str:
    """A file of the kernel's; empty if it is not there or not for us."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def one_thread_each(environ: MutableMapping[str, str]) -> None:
    """Let numeric libraries of this process's children, and its own later imports, use one thread.

    Processes and threads of our own use the cores. OpenBLAS, for one, starts a thread for every
    core of the machine as soon as numpy is imported: 128 in every one of 32 processes, for nothing.

    All of these libraries take OMP_NUM_THREADS where their own variable is not set. What the user
    set stays; but PBS sets it in every job, to the same as NCPUS, and nobody asked for that.

    Args:
        environ: the environment, which is changed.
    """
    of_pbs = environ.get("PBS_JOBID") and environ.get("NCPUS") == environ.get(_THREADS)
    if of_pbs or not environ.get(_THREADS):
        environ[_THREADS] = "1"
