"""A connection to a Dask cluster for the length of a run."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from distributed import Client

from dataprep.errors import PipelineError
from dataprep.wording import counted
from dataprep_pipelines.engines.dask.runner import ShardRunner, workers_of
from dataprep_pipelines.engines.dask.slurm import slurm_cluster
from dataprep_pipelines.engines.engine import DaskChoice
from dataprep_pipelines.engines.running import Running
from dataprep_pipelines.engines.share import Share
from dataprep_pipelines.engines.shared_places import SharedPlaces
from dataprep_pipelines.worker import DEBUG

if TYPE_CHECKING:
    import apache_beam as beam

_CONNECT_SECONDS = 30.0
_CLOSE_SECONDS = 10.0
_LOOK_SECONDS = 5.0  # between two looks at how many workers there are
_PAUSE_SECONDS = 2.0
_LOOKS_A_SECOND = 50.0  # of all workers together, each of a few requests to the file system
_LONGEST_LOOK = 60.0


class DaskRunning(Running):
    """A Dask cluster with at least one worker.

    Args:
        client: connected to it.
        patience: seconds without any worker before the run gives up.
        expecting: whether somebody will bring workers, however long it takes; may raise.
        report: told when workers are gone, and back.
    """

    def __init__(
        self,
        client: Client,
        patience: float,
        expecting: Callable[[], bool],
        report: Callable[[str], None],
    ) -> None:
        self._client = client
        self._expecting = expecting
        self._patience = patience
        self._report = report
        self._runner = ShardRunner(client)
        self._next_look = 0.0
        self._alone_since: float | None = None
        self._told: set[str] = set()

    @property
    def look_seconds(self) -> float:
        """Rarer where workers are many: a metadata server should not pay for them."""
        return min(max(len(threads_of(self._client)) / _LOOKS_A_SECOND, 2.0), _LONGEST_LOOK)

    def share(self, shards: int, *, images: bool) -> Share:
        """One shard a thread of a worker; where threads are left over, they help."""
        threads = threads_of(self._client)
        few = images and shards < sum(threads)
        return Share(helpers=max(threads, default=1) if few else 0, pause=_PAUSE_SECONDS)

    def at_once(self, share: Share) -> int:
        """A shard a thread."""
        return max(sum(threads_of(self._client)) * share.lanes, 1)

    def scan_helpers(self) -> int:
        """None: Dask's workers may not have children."""
        return 0

    def pipeline(self, share: Share) -> beam.Pipeline:  # noqa: ARG002  # for our own processes
        """One whose elements become tasks of the cluster."""
        import apache_beam as beam
        from apache_beam.options.pipeline_options import PipelineOptions

        return beam.Pipeline(runner=self._runner, options=PipelineOptions([]))

    def cancel(self) -> None:
        """Take back the tasks that no worker has begun."""
        with suppress(Exception):  # whatever a lost cluster says to that
            self._runner.cancel()

    def attend(self) -> None:
        """Notice who came later and cannot work for this run, and that no other worker is left.

        Raises:
            PipelineError: for longer than the user wants to wait.
        """
        refusals = dict(self._runner.refusals)
        for worker in refusals.keys() - self._told:
            self._told.add(worker)
            self._report(f"{worker} is of no use, others go on: {refusals[worker]}")
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_SECONDS
        expecting = self._expecting()
        if workers_of(self._client).keys() - refusals.keys():
            if self._alone_since is not None:
                self._report("workers are back")
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
            patience = "" if expecting else f" {self._patience:.0f} s"
            self._report(f"no worker is left; waiting{patience} for another")
        elif expecting:
            self._alone_since = now
        elif now - self._alone_since > self._patience:
            raise PipelineError(
                f"no worker was left for {self._patience:.0f} s; finished shards are kept: start "
                "workers and run the same command again to resume"
            )


@contextmanager
def dask_session(
    choice: DaskChoice, places: SharedPlaces, report: Callable[[str], None]
) -> Iterator[Running]:
    """Connect, wait for a worker, and make sure that all can work for this run.

    Args:
        choice: which cluster.
        places: what workers must share with this process.
        report: told what takes time.

    Raises:
        PipelineError: no scheduler, no worker, or one that sees other files or runs other programs.
    """
    if DEBUG not in os.environ:
        _silence()
    with _client(choice, places, report) as (client, expecting):
        _wait_for_a_worker(client, choice, expecting, report)
        _check_workers(client, places, report)
        threads = threads_of(client)
        report(
            f"Dask: {counted(len(threads), 'worker')}, {counted(sum(threads), 'thread')}, at "
            f"{client.scheduler.address}"
        )
        yield DaskRunning(client, choice.patience, expecting, report)


def _silence() -> None:
    """What matters is raised; Dask's own words, some with a traceback, would bury it."""
    for name in ("asyncio", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in ("asyncio", "distributed", "tornado"):
            logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _client(
    choice: DaskChoice, places: SharedPlaces, report: Callable[[str], None]
) -> Iterator[tuple[Client, Callable[[], bool]]]:
    if choice.slurm is not None:
        logs = places.witness.with_name("slurm")
        with (
            slurm_cluster(choice.slurm, logs, report) as (cluster, jobs),
            _connected(cluster) as client,
        ):
            yield client, jobs.attend
    elif choice.scheduler_file is not None:
        _wait_for_file(choice)
        with _connected(scheduler_file=str(choice.scheduler_file)) as client:
            yield client, _nobody
    else:
        with _connected(choice.address) as client:
            yield client, _nobody


def _nobody() -> bool:
    return False


@contextmanager
def _connected(*address: Any, **scheduler_file: str) -> Iterator[Client]:
    where = [*address, *scheduler_file.values()][0]
    try:
        client = Client(
            *address,
            **scheduler_file,
            timeout=_CONNECT_SECONDS,
            name="dataprep",
            set_as_default=False,
        )
    except (OSError, ValueError, TypeError) as error:
        raise PipelineError(
            f"no Dask scheduler answers at {where} ({_first_line(error)}); start one, or mend the "
            "address"
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # the run is over, and so may be the scheduler
            client.close(timeout=_CLOSE_SECONDS)


def _wait_for_file(choice: DaskChoice) -> None:
    """A batch script starts the scheduler and this command at the same time."""
    assert choice.scheduler_file is not None  # noqa: S101  # for the type checker
    end = time.monotonic() + choice.patience
    while not (choice.scheduler_file.exists() and choice.scheduler_file.stat().st_size):
        if time.monotonic() > end:
            raise PipelineError(
                f"--dask_scheduler_file {choice.scheduler_file} did not appear within "
                f"{choice.patience:.0f} s; start a scheduler that writes it"
            )
        time.sleep(0.2)


def _wait_for_a_worker(
    client: Client,
    choice: DaskChoice,
    expecting: Callable[[], bool],
    report: Callable[[str], None],
) -> None:
    end = time.monotonic() + choice.patience
    said = False
    while not workers_of(client):
        if not said:
            report(f"waiting for the first worker at {client.scheduler.address}")
            said = True
        if expecting():
            end = time.monotonic() + choice.patience
        if time.monotonic() > end:
            raise PipelineError(
                f"the Dask scheduler at {client.scheduler.address} had no worker for "
                f"{choice.patience:.0f} s; start some: dask worker {client.scheduler.address}"
            )
        time.sleep(0.2)


def _check_workers(client: Client, places: SharedPlaces, report: Callable[[str], None]) -> None:
    """Ask every worker; one that comes later looks for itself, when it reads its orders."""
    answers = client.run(_refusal, places.described(), on_error="return")
    for worker, answer in answers.items():
        if isinstance(answer, OSError):  # should it come back, it looks for itself
            report(f"{worker} does not answer ({_first_line(answer)}); going on without it")
            continue
        if isinstance(answer, ModuleNotFoundError):
            raise PipelineError(
                f"the worker {worker} has no Python package {answer.name}; start workers from the "
                "environment of this command"
            )
        if answer is not None:
            raise PipelineError(f"{worker}: {_first_line(answer)}")


def _refusal(places: SharedPlaces) -> str | None:
    try:
        places.check()
    except PipelineError as error:
        return str(error)
    return None


def threads_of(client: Client) -> list[int]:
    """The threads of every worker."""
    return list(workers_of(client).values())


def _first_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
