"""How much memory this process may still take."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dataprep.system.job_limits import group_memory, scheduler_memory


def available(root: Path = Path("/"), environ: Mapping[str, str] = os.environ) -> int:
    """Bytes of memory that are left to this process, without swapping.

    The least of the kernel's own estimate (``MemAvailable``, proc(5); where there is none, the
    machine's memory), of what its control groups leave, and of what Slurm gave to the job on this
    node: the node's other jobs need the rest.

    Args:
        root: what ``proc`` and the control groups' mount points are under.
        environ: Slurm's variables.
    """
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = _estimate(root / "proc/meminfo")
    bounds = (machine if left is None else left, group_memory(root), scheduler_memory(environ))
    return min(bound for bound in bounds if bound is not None)


def _estimate(path: Path) -> int | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    kibibytes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kibibytes[0]) * 1024 if kibibytes else None
