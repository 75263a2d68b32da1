"""What ``--dask_slurm`` asks for, and the Dask scheduler for it: dask-jobqueue's SLURMCluster."""

from __future__ import annotations

import secrets
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dataprep.errors import PipelineError, UsageError
from dataprep_pipelines.runners.dask.slurm_jobs import WORKER, SlurmJobs
from dataprep_pipelines.runners.share import processes_for

_KEYS = {
    "nodes": "nodes",
    "cores": "cores",
    "memory": "memory",
    "walltime": "walltime",
    "partition": "queue",
    "account": "account",
    "interface": "interface",
    "local_directory": "local_directory",
    "log_directory": "log_directory",
    "directive": "job_extra_directives",
    "prologue": "job_script_prologue",
}
_NUMBERS = ("nodes", "cores")
_REPEATED = ("directive", "prologue")
_SITE = "jobqueue.slurm"  # what a site has set for dask-jobqueue
# A worker holds a few images, so Dask has nothing to spill and should not count: the pages of a
# mapped LMDB it takes for memory, and would kill the worker. Slurm has a bound of its own. All jobs
# run the same script, so it is their number that tells the names of workers apart.
_WORKER = ("--memory-limit", "0", "--no-dashboard", "--name", f"{WORKER}-$SLURM_JOB_ID")
_LEAST_MEMORY = 1_000_000  # below, the unit was forgotten
_CLOSE_SECONDS = 10
_REPORT_SECONDS = 1.5
_CLEAN_UP_SECONDS = 15.0  # at most: workers look every few seconds whether to stop


@dataclass(frozen=True, slots=True)
class SlurmWorkers:
    """What ``--dask_slurm`` asks for.

    Attributes:
        nodes: jobs, each of one node.
        cores: of each; None: as the site's configuration of dask-jobqueue says.
        options: the rest, in dask-jobqueue's words.
    """

    nodes: int
    cores: int | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> SlurmWorkers:
        """Read e.g. ``nodes=4,cores=16,memory=32GB,partition=batch,directive=--exclusive``.

        Raises:
            UsageError: it says something else.
        """
        values: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = (word.strip() for word in part.partition("="))
            if key not in _KEYS or not equals or not value:
                raise UsageError(
                    f"--dask_slurm {text}: {part!r} is not one of {'=, '.join(_KEYS)}="
                )
            if key in _REPEATED:
                values.setdefault(_KEYS[key], []).append(value)
                continue
            if _KEYS[key] in values:
                raise UsageError(f"--dask_slurm {text}: {key} is given twice")
            values[_KEYS[key]] = _checked(text, key, value)
        if "nodes" not in values:
            raise UsageError(f"--dask_slurm {text}: say how many: nodes=4")
        return cls(values.pop("nodes"), values.pop("cores", None), values)

    def cluster_options(self) -> dict[str, Any]:
        """Arguments for `SLURMCluster`, completed by the site's configuration.

        Raises:
            UsageError: nobody says how many cores a job is to have.
        """
        import dask

        site = dask.config.get(_SITE, {})
        found = dict(self.options)
        if self.cores is not None:
            found |= {"cores": self.cores, "processes": processes_for(self.cores)}
        elif site.get("cores") is None:
            raise UsageError("--dask_slurm: say how many cores a node gives: cores=16")
        if "memory" not in found and site.get("memory") is None:
            # Slurm's own default then; dask-jobqueue wants a number all the same.
            skipped = [*(site.get("job-directives-skip") or ()), "#SBATCH --mem="]
            found |= {"memory": "1GB", "job_directives_skip": skipped}
        scheduler = {"dashboard_address": ":0"}  # another user's may be at the usual port
        return found | {
            "python": shlex.quote(sys.executable),
            "worker_extra_args": [*(site.get("worker-extra-args") or ()), *_WORKER],
            "scheduler_options": scheduler | dict(site.get("scheduler-options") or {}),
        }


def _checked(text: str, key: str, value: str) -> int | str:
    if key in _NUMBERS:
        # Not isdecimal alone, which takes the digits of every script.
        if not (value.isascii() and value.isdecimal()) or int(value) < 1:
            raise UsageError(f"--dask_slurm {text}: {key} must be a number from 1")
        return int(value)
    if key == "memory":
        from dask.utils import parse_bytes

        try:
            plausible = parse_bytes(value) >= _LEAST_MEMORY
        except ValueError:
            plausible = False
        if not plausible:
            raise UsageError(
                f"--dask_slurm {text}: memory must be a size with its unit, such as 32GB"
            )
    return value


@contextmanager
def slurm_cluster(
    text: str, logs: Path, report: Callable[[str], None]
) -> Iterator[tuple[Any, SlurmJobs]]:
    """A Dask scheduler in this process, and Slurm jobs that are its workers.

    What is left of the jobs is cancelled at the end. A launcher that is killed cannot do that; its
    workers end by themselves when the connection does, and jobs that have yet to begin, a minute
    after they have.

    Args:
        text: what ``--dask_slurm`` says.
        logs: a directory for what the jobs say, unless the user or the site names one.
        report: told that jobs were submitted.

    Yields:
        The `SLURMCluster`, and its jobs.

    Raises:
        PipelineError: Slurm refuses.
    """
    import dask

    workers = SlurmWorkers.parse(text)
    name = f"dataprep-{secrets.token_hex(4)}"
    options = workers.cluster_options() | {"job_name": name}
    named = options.get("log_directory") or dask.config.get(f"{_SITE}.log-directory", None)
    # Every task is minutes of work: a worker that is busy should not sit on the next one.
    settings = {"distributed.scheduler.worker-saturation": 1.0}
    try:
        with dask.config.set(settings), warnings.catch_warnings():
            # Without a way to the internet it says so, and asks for the host's name instead.
            warnings.simplefilter("ignore", RuntimeWarning)
            cluster = cluster_class()(**options)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        first = str(error).strip().splitlines()[0]
        raise PipelineError(f"--dask_slurm {text}: {first}") from error
    jobs = SlurmJobs(
        name,
        cluster.job_script(),
        lambda: [worker.name for worker in list(cluster.scheduler.workers.values())],
        None if named else logs,
        report,
    )
    try:
        # Not SLURMCluster.scale: it tells nobody that Slurm refuses, and cancels a job whose worker
        # is restarted by its nanny, if that takes long.
        jobs.submit(workers.nodes)
        yield cluster, jobs
    except BaseException:
        _wait_while_busy(cluster)
        raise
    finally:
        jobs.cancel()
        with suppress(Exception):  # the run is over
            cluster.close(timeout=_CLOSE_SECONDS)


def cluster_class() -> Any:
    """Import `SLURMCluster`, whose module makes Ctrl-C end any program with success."""
    before = signal.getsignal(signal.SIGINT)
    from dask_jobqueue import SLURMCluster

    signal.signal(signal.SIGINT, before)
    return SLURMCluster


def _wait_while_busy(cluster: Any) -> None:
    """Let workers learn that the run has stopped, and remove what they had begun."""
    end = time.monotonic() + _CLEAN_UP_SECONDS
    time.sleep(_REPORT_SECONDS)  # of what has just begun they have not told yet
    while time.monotonic() < end and any(map(_is_busy, list(cluster.scheduler.workers.values()))):
        time.sleep(0.1)


def _is_busy(worker: Any) -> bool:
    """As it said last, some half a second ago."""
    counts = worker.metrics.get("task_counts", {})
    return any(counts.get(state) for state in ("executing", "long-running", "cancelled"))
