"""How many cores the kernel's control groups let this process use: a container's, or a job's.

A process sees all cores of its affinity mask, but is made to wait once its group has used so much
processor time in a period. Source: the kernel's documentation, admin-guide/cgroup-v2.rst (cpu.max)
and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_OCTAL = re.compile(r"\\([0-7]{3})")  # how mountinfo writes blanks
_UNLIMITED = ("max", "-1")


@dataclass(frozen=True, slots=True)
class _Hierarchy:
    """A mounted tree of groups that can bound processor time.

    Attributes:
        root: the group that is seen at the mount point.
        mounted: the mount point.
        unified: whether it is of version 2.
    """

    root: PurePosixPath
    mounted: PurePosixPath
    unified: bool


def quota(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> int | None:
    """The least bound of this process's groups and of those above them, in whole cores, rounded up.

    Args:
        proc: the process's directory.
        root: what mount points are under.

    Returns:
        1 or more; None if there is no bound, or none that can be found out.
    """
    try:
        groups = (proc / "cgroup").read_text(errors="surrogateescape")
        mounts = (proc / "mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return None
    bounds = [
        bound
        for hierarchy in _hierarchies(mounts)
        for group in _groups_of(groups, hierarchy)
        for directory in _upwards(group, hierarchy)
        if (bound := _bound(root / directory.relative_to("/"), hierarchy)) is not None
    ]
    return min(bounds, default=None)


def _hierarchies(mountinfo: str) -> Iterator[_Hierarchy]:
    """Fields as in proc_pid_mountinfo(5): before and behind a lone dash."""
    for line in mountinfo.splitlines():
        before, _, behind = line.partition(" - ")
        left, right = before.split(), behind.split()
        if len(left) < 5 or len(right) < 3:
            continue
        unified = right[0] == "cgroup2"
        if unified or (right[0] == "cgroup" and "cpu" in right[2].split(",")):
            yield _Hierarchy(_path(left[3]), _path(left[4]), unified)


def _path(field: str) -> PurePosixPath:
    return PurePosixPath(_OCTAL.sub(lambda found: chr(int(found[1], 8)), field))


def _groups_of(cgroup: str, hierarchy: _Hierarchy) -> Iterator[PurePosixPath]:
    """The process's group in a hierarchy; lines as in cgroups(7): number, controllers, path."""
    for line in cgroup.splitlines():
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if hierarchy.unified != (not controllers) or not colon:
            continue
        if hierarchy.unified or "cpu" in controllers.split(","):
            yield PurePosixPath(path)


def _upwards(group: PurePosixPath, hierarchy: _Hierarchy) -> Iterator[PurePosixPath]:
    """The directories of a group and of those above it, as far as they are mounted."""
    # In a container a group may be outside of what is mounted, and is then told as `/../..`, or
    # as the host knows it: the mount point is the nearest that can be seen.
    inside = PurePosixPath()
    if ".." not in group.parts and group.is_relative_to(hierarchy.root):
        inside = group.relative_to(hierarchy.root)
    for above in (inside, *inside.parents):
        yield hierarchy.mounted / above


def _bound(directory: Path, hierarchy: _Hierarchy) -> int | None:
    names = ["cpu.max"] if hierarchy.unified else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    try:
        words = [word for name in names for word in (directory / name).read_text().split()]
        if words[0] in _UNLIMITED:
            return None
        return max(1, math.ceil(int(words[0]) / int(words[1])))
    except (OSError, ValueError, ArithmeticError, LookupError):
        return None  # the root group has no such files
