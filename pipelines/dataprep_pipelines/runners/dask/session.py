"""A connection to a Dask cluster for the length of a run."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from distributed import Client

from dataprep.errors import PipelineError
from dataprep_pipelines.runners.dask.addresses import address_in
from dataprep_pipelines.runners.dask.attempt import refusal
from dataprep_pipelines.runners.dask.connecting import connected
from dataprep_pipelines.runners.dask.runner import workers_of
from dataprep_pipelines.runners.dask.running import DaskRunning, of_no_use
from dataprep_pipelines.runners.dask.slurm import slurm_cluster
from dataprep_pipelines.runners.engine import DaskChoice
from dataprep_pipelines.runners.explaining import first_line
from dataprep_pipelines.runners.running import Running
from dataprep_pipelines.runners.shared_places import SharedPlaces
from dataprep_pipelines.worker import DEBUG

_NAMED = 5  # workers that cannot be used which get a line of their own


@contextmanager
def dask_session(
    choice: DaskChoice, places: SharedPlaces, report: Callable[[str], None]
) -> Iterator[Running]:
    """Connect, wait for a worker, and find out which can work for this run.

    Args:
        choice: which cluster.
        places: what workers must share with this process.
        report: told what takes time.

    Raises:
        PipelineError: no scheduler, or no worker that sees the same files and runs the same
            programs.
    """
    if DEBUG not in os.environ:
        _silence()
    with _client(choice, places, report) as (client, expecting):
        _wait_for_a_worker(client, choice, expecting, report)
        refusals = _check_workers(client, places, report)
        yield DaskRunning(client, choice.patience, expecting, report, refusals)


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
            connected(cluster) as client,
        ):
            yield client, jobs.attend
    elif choice.scheduler_file is not None:
        address = address_in(choice.scheduler_file, choice.patience)
        with connected(address, f"--dask_scheduler_file {choice.scheduler_file}") as client:
            yield client, _nobody
    else:
        with connected(choice.address) as client:
            yield client, _nobody


def _nobody() -> bool:
    return False


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


def _check_workers(
    client: Client, places: SharedPlaces, report: Callable[[str], None]
) -> dict[str, str]:
    """Ask every worker; one that comes later looks for itself, when it reads its orders.

    Returns:
        Why some cannot work for this run, by their addresses; others can.

    Raises:
        PipelineError: no worker can.
    """
    answers = client.run(refusal, places.described(), on_error="return")
    refusals = {}
    silent = {}
    for worker, answer in answers.items():
        if isinstance(answer, OSError):  # should it come back, it looks for itself
            silent[worker] = f"does not answer ({first_line(answer)}); going on without it"
        elif isinstance(answer, ModuleNotFoundError):
            refusals[worker] = (
                f"it has no Python package {answer.name}; start workers from the environment of "
                "this command"
            )
        elif answer is not None:
            refusals[worker] = first_line(answer)
    if refusals and len(refusals) + len(silent) == len(answers):
        worker, why = next(iter(refusals.items()))
        raise PipelineError(f"no Dask worker can work for this run; {worker}: {why}")
    lines = [f"{worker} {how}" for worker, how in silent.items()]
    lines += [of_no_use(worker, why) for worker, why in refusals.items()]
    for line in lines[:_NAMED]:
        report(line)
    if len(lines) > _NAMED:
        report(f"{len(lines) - _NAMED} more workers cannot be used; they are not named here")
    return refusals
