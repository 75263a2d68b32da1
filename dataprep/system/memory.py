"""How much memory this job may still take: the machine's, and every control group's limit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from dataprep.system.filesystems import unescaped

_PROC = Path("/proc")
_MACHINE = Path("/")

# Of each version: limits, what is in use, and what of that the kernel gives back when asked.
_VERSIONS = {
    "cgroup": (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    "cgroup2": (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}


def available(
    proc: Path = _PROC, machine: Path = _MACHINE, environ: Mapping[str, str] = os.environ
) -> int:
    """Bytes of memory that are left to this process, without swapping.

    The least of the kernel's own estimate (``MemAvailable``, proc(5)) and what every control
    group from this process's own up to the topmost visible one leaves, of either version. What
    the kernel can take back of the page cache counts as left. Where the kernel says nothing, as
    on other systems, it is the machine's memory. Slurm need not use control groups, and says in
    variables what it gave to the job on this node (sbatch(1)); its nodes' other jobs need the rest.

    Args:
        proc: where the kernel says what it knows.
        machine: the root that the control groups' mounts are below.
        environ: Slurm's variables.
    """
    rooms = [
        room
        for version, group in _control_groups(proc, machine)
        if (room := _left_in(group, version)) is not None
    ]
    if (granted := _granted(environ)) is not None:
        rooms.append(granted)
    left = _meminfo(proc / "meminfo")
    machine_s = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([*rooms, machine_s if left is None else left])


def _granted(environ: Mapping[str, str]) -> int | None:
    """The memory that Slurm gave to the job on this node, in bytes; it counts in MiB."""
    node = _number(environ.get("SLURM_MEM_PER_NODE", ""))
    if node is None:
        each = _number(environ.get("SLURM_MEM_PER_CPU", ""))
        cores = _number(environ.get("SLURM_CPUS_ON_NODE", ""))
        node = each * cores if each and cores else None
    return node * (1 << 20) if node else None  # 0 stands for all of the node's


def _control_groups(proc: Path, machine: Path) -> Iterator[tuple[str, Path]]:
    """Every control group that limits this process's memory, with its version's name."""
    own = dict(_memberships(_read(proc / "self/cgroup")))
    for version, root, mount in _mounts(_read(proc / "self/mountinfo")):
        if version not in own:
            continue
        top = machine / mount.lstrip("/")
        group = top / _below(own[version], root)
        # In a container the group's name may be the one it has outside.
        group = group if group.is_dir() else top
        while True:
            yield version, group
            if group == top:
                break
            group = group.parent


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    """The version and the name of this process's groups, from ``/proc/self/cgroup``."""
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", name
        elif "memory" in controllers.split(","):
            yield "cgroup", name


def _mounts(text: str) -> Iterator[tuple[str, str, str]]:
    """Version, root and place of the mounted hierarchies, from ``/proc/self/mountinfo``."""
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, _, rest) = before.split(" "), after.partition(" ")
        options = rest.rpartition(" ")[2].split(",")
        memory = kind == "cgroup2" or (kind == "cgroup" and "memory" in options)
        if memory and len(fields) >= 5:
            yield kind, unescaped(fields[3]), unescaped(fields[4])


def _below(name: str, root: str) -> PurePosixPath:
    """A group's name relative to the root that is mounted; the root if it is not below."""
    try:
        relative = PurePosixPath(name).relative_to(root)
    except ValueError:
        return PurePosixPath()
    return PurePosixPath() if ".." in relative.parts else relative


def _left_in(group: Path, version: str) -> int | None:
    """Bytes that a group leaves; None if it has no limit."""
    names, usage, reclaimable = _VERSIONS[version]
    limits = [limit for name in names if (limit := _number(_read(group / name))) is not None]
    used = _number(_read(group / usage))
    if not limits or used is None:
        return None
    for line in _read(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == reclaimable:
            used -= _number(value) or 0
    return max(min(limits) - used, 0)


def _meminfo(path: Path) -> int | None:
    for line in _read(path).splitlines():
        if line.startswith("MemAvailable:"):
            kibibytes = _number(line.split()[1])
            return None if kibibytes is None else kibibytes * 1024
    return None


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _read(path: Path) -> str:
    """A file of the kernel's; empty if it is not there or not for us."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""
