"""An engine at work for a run that holds its directory, and nothing of its workers left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from dataprep.build.claim import remove_partial_files
from dataprep.build.lock import Lease
from dataprep.build.workspace import Workspace
from dataprep_pipelines.runners import Engine, Running, started
from dataprep_pipelines.runners.shared_places import SharedPlaces


@contextmanager
def at_work(
    engine: Engine,
    places: SharedPlaces,
    lease: Lease,
    splits: Sequence[str],
    report: Callable[[str], None],
) -> Iterator[tuple[Running, Lease]]:
    """The engine, started, and the lease for its workers, who may be many.

    At the end, temporary files are removed of workers elsewhere that died or were cancelled: they
    could not, and nobody else knows of them.

    Args:
        engine: which.
        places: what its workers must share with this process.
        lease: of this run.
        splits: those that it makes, as far as they are known.
        report: told what takes time.

    Raises:
        PipelineError: it does not start, or none of its workers can work for this run.
    """
    try:
        with started(engine, places, report) as running:
            yield running, replace(lease, look_seconds=running.look_seconds)
    finally:
        if not engine.is_local and not lease.taken_over_now():
            remove_partial_files(Workspace(places.out), splits)
