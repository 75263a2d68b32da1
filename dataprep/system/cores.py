"""How many cores this process may use, which is seldom how many the machine has."""

from __future__ import annotations

import os

from dataprep.system.allotment import allotted_cores
from dataprep.system.cgroup_quota import quota


def usable_cores() -> int:
    """The least of the affinity mask, the quota of control groups and what the scheduler gave."""
    bounds = (len(os.sched_getaffinity(0)), quota(), allotted_cores(os.environ))
    return min(bound for bound in bounds if bound is not None)
