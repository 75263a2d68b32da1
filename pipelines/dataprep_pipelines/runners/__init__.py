"""Where Beam graphs run: this machine, a Dask cluster, or any runner that Beam knows by name."""

from dataprep_pipelines.runners.engine import DaskChoice, Engine
from dataprep_pipelines.runners.explaining import RunEndsError, worker_died
from dataprep_pipelines.runners.running import (
    STOP,
    KillsWorkersError,
    QuietLauncherError,
    Running,
    TasksFailedError,
)
from dataprep_pipelines.runners.share import THREADS_PER_PROCESS, Share
from dataprep_pipelines.runners.starting import check, started

__all__ = [
    "STOP",
    "THREADS_PER_PROCESS",
    "DaskChoice",
    "Engine",
    "KillsWorkersError",
    "QuietLauncherError",
    "RunEndsError",
    "Running",
    "Share",
    "TasksFailedError",
    "check",
    "started",
    "worker_died",
]
