"""``--dask_slurm``: a Dask scheduler in this process, and Slurm jobs that are its workers.

dask-jobqueue's SLURMCluster is the scheduler, writes the job script and submits the jobs, so that a
site's configuration holds. It does not replace a job that ends: docs/engines.md.

A scheduler or worker runs what it is sent, and every user of the cluster reaches its port. So all
connections are TLS, by the user's own certificates or by one that is made for the run.
"""

from __future__ import annotations

import secrets
import shlex
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from dataprep.errors import PipelineError, UsageError
from dataprep.system.durable_files import partial_path, write_once
from dataprep.system.messages import counted
from dataprep_pipelines.failures import RESUME, line_of
from dataprep_pipelines.runners.local import processes_for

_REPEATED = {"directive": "job_extra_directives", "prologue": "job_script_prologue"}
_RENAMED = {"partition": "queue", **_REPEATED}  # as dask-jobqueue calls them
_KEYS = (
    *("nodes", "cores", "memory", "walltime", "partition", "account", "interface"),
    *("local_directory", "log_directory", *_REPEATED),
)
# A worker holds a few images, so Dask has nothing to spill and should not count: the pages of a
# mapped LMDB it takes for memory, and would kill the worker. Slurm has a bound of its own.
_WEB = "127.0.0.1:0"  # even without its dashboard Dask serves HTTP, to whoever asks
_WORKER = ("--memory-limit", "0", "--no-dashboard", "--dashboard-address", _WEB)
_SETTINGS = {
    # Every task is minutes of work: a worker that is busy should not sit on the next one.
    "distributed.scheduler.worker-saturation": 1.0,
    # A nanny starts a worker that died again; the job of such a worker is not to be cancelled.
    "distributed.deploy.lost-worker-timeout": "1 day",
}
_TLS = "distributed.comm.tls."
_CERTIFIED = ("client.cert", "client.key", "scheduler.cert", "scheduler.key")
_CLOSE_SECONDS = 10
_LOOK_SECONDS = 10.0  # between two questions to Slurm's controller, which serves a whole site
_COMMAND_SECONDS = 60


def parse_slurm(text: str) -> dict[str, Any]:
    """Read e.g. ``nodes=4,cores=16,memory=32GB,partition=batch,directive=--exclusive``.

    Returns:
        ``nodes``, and arguments for `SLURMCluster`.

    Raises:
        UsageError: it says something else.
    """
    values: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = (word.strip() for word in part.partition("="))
        if key not in _KEYS or not value:
            raise UsageError(f"--dask_slurm {text}: {part!r} is not one of {'=, '.join(_KEYS)}=")
        if key in _REPEATED:
            values.setdefault(_REPEATED[key], []).append(value)
        elif key not in ("nodes", "cores"):
            values[_RENAMED.get(key, key)] = value
        else:
            values[key] = int(value) if value.isascii() and value.isdecimal() else 0
    if not values.get("nodes") or not values.get("cores", 1):
        raise UsageError(f"--dask_slurm {text}: say how many: nodes=4,cores=16")
    return values


def cluster_options(text: str, logs: Path) -> dict[str, Any]:
    """Arguments for `SLURMCluster`, completed by the site's configuration.

    Raises:
        UsageError: nobody says how many cores a job is to have.
    """
    import dask

    site = dask.config.get("jobqueue.slurm", {})
    found: dict[str, Any] = {"log_directory": site.get("log-directory") or str(logs)} | parse_slurm(
        text
    )
    del found["nodes"]
    if "cores" in found:
        found["processes"] = processes_for(found["cores"])
    elif site.get("cores") is None:
        raise UsageError("--dask_slurm: say how many cores a node gives: cores=16")
    if "memory" not in found and site.get("memory") is None:
        # Slurm's own default then; dask-jobqueue wants a number all the same.
        skipped = [*(site.get("job-directives-skip") or ()), "#SBATCH --mem="]
        found |= {"memory": "1GB", "job_directives_skip": skipped}
    scheduler = {"dashboard_address": _WEB}
    return found | {
        "protocol": "tls://",
        "python": f"{shlex.quote(sys.executable)} -P",  # nothing of the working directory
        "worker_extra_args": [*(site.get("worker-extra-args") or ()), *_WORKER],
        "scheduler_options": scheduler | dict(site.get("scheduler-options") or {}),
    }


@contextmanager
def slurm_cluster(
    text: str, logs: Path, report: Callable[[str], None]
) -> Iterator[tuple[Any, Callable[[], bool]]]:
    """A Dask scheduler in this process, and Slurm jobs that are its workers.

    What is left of the jobs is cancelled at the end. A launcher that is killed cannot do that; its
    workers end by themselves when the connection does, and jobs that have yet to begin, a minute
    after they have.

    Args:
        logs: a directory for what the jobs say, unless the user or the site names one.

    Yields:
        The `SLURMCluster`, and what raises a `PipelineError` when Slurm has no job left.

    Raises:
        PipelineError: Slurm refuses.
    """
    from distributed import Status

    jobs, name = parse_slurm(text)["nodes"], f"dataprep-{secrets.token_hex(4)}"
    with slurm_scheduler(text, logs, name) as cluster:
        try:
            # Not `scale`, which tells of no refusal.
            for _ in range(jobs):
                cluster.worker_spec.update(cluster.new_worker_spec())
            cluster.sync(cluster._correct_state_internal)
        except (OSError, RuntimeError) as error:
            for job in cluster._created:  # the cluster would not end with one that has not begun
                job.status = Status.failed
            # What sbatch says, which dask-jobqueue puts into a message of several lines.
            said = [line for line in str(error).splitlines() if "error: " in line] or [str(error)]
            refused = line_of(said[0].rpartition("error: ")[2])
            raise PipelineError(
                f"Slurm refuses the worker jobs: {refused}; correct --dask_slurm"
            ) from error
        report(f"Slurm: {counted(jobs, 'worker job')} submitted")
        yield cluster, _jobs_are_left(name)


@contextmanager
def slurm_scheduler(text: str, logs: Path, name: str) -> Iterator[Any]:
    """A `SLURMCluster` that has no jobs yet, nor begins any; see `slurm_cluster`.

    Args:
        name: of its jobs.

    Raises:
        PipelineError: it does not start.
    """
    import dask

    with ExitStack() as stack:
        try:
            options, settings = cluster_options(text, logs), dict(_SETTINGS)
            # Those of the user's configuration are the workers', too, whose nodes share it.
            if not all(dask.config.get(_TLS + key, None) for key in ("ca-file", "scheduler.cert")):
                pem = str(stack.enter_context(_certificate(logs)))
                settings |= dict.fromkeys([_TLS + key for key in ("ca-file", *_CERTIFIED)], pem)
                for of in ("ca-file", "cert", "key"):
                    options["worker_extra_args"] += [f"--tls-{of}", shlex.quote(pem)]
            settings["distributed.comm.require-encryption"] = True
            with warnings.catch_warnings(), dask.config.set(settings):
                # Without a way to the internet Dask says so, and asks for the host's name instead.
                warnings.simplefilter("ignore", RuntimeWarning)
                cluster = cluster_class()(job_name=name, **options)
        except (ImportError, OSError, RuntimeError, ValueError, TypeError) as error:
            raise PipelineError(f"--dask_slurm {text}: {line_of(error)}") from error
        try:
            yield cluster
        finally:
            with suppress(Exception):  # the run is over
                cluster.close(timeout=_CLOSE_SECONDS)


@contextmanager
def _certificate(logs: Path) -> Iterator[Path]:
    """A file of a certificate and its key beside the logs, which only its owner can read.

    After a launcher was killed, `dataprep.jobs.running.clearing` sweeps it.
    """
    from distributed.security import Security

    made, path = Security.temporary(), partial_path(logs)
    try:
        write_once(path, f"{made.tls_ca_file}{made.tls_worker_key}".encode(), mode=0o600)
        yield path
    finally:
        path.unlink(missing_ok=True)


def cluster_class() -> Any:
    """Import `SLURMCluster`, whose module makes Ctrl-C end any program with success."""
    before = signal.getsignal(signal.SIGINT)
    from dask_jobqueue import SLURMCluster

    signal.signal(signal.SIGINT, before)
    return SLURMCluster


def _jobs_are_left(name: str) -> Callable[[], bool]:
    """Asks Slurm now and then whether jobs of a name are left, which wait or have workers."""
    asked, command = -_LOOK_SECONDS, ["squeue", "--noheader", "--me", f"--name={name}"]

    def jobs_are_left() -> bool:
        nonlocal asked
        if time.monotonic() - asked >= _LOOK_SECONDS:
            asked = time.monotonic()
            said = b"nobody knows"
            with suppress(OSError, subprocess.SubprocessError):
                # In a session of its own, since Ctrl-C is for the launcher alone.
                said = subprocess.check_output(  # noqa: S603  # Slurm's own program
                    command, timeout=_COMMAND_SECONDS, start_new_session=True
                )
            if not said.strip():
                raise PipelineError(f"no worker job is left in Slurm, nor one that waits; {RESUME}")
        return True

    return jobs_are_left
