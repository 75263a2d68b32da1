"""Indexing what is not indexed yet, or has changed since."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dataprep.build.index_parts import Part, forget_part, has_part, is_current, read_part
from dataprep.build.request import Request
from dataprep.datasets import Dataset, Found, ScanUnit
from dataprep.errors import PipelineError
from dataprep.system.messages import counted
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.orders import given
from dataprep_pipelines.pace import Pace
from dataprep_pipelines.reporter import Reporter
from dataprep_pipelines.runners import Running, TasksFailedError
from dataprep_pipelines.runners.shared_places import SharedPlaces


def index_of(
    request: Request,
    running: Running,
    places: SharedPlaces,
    dataset: Dataset,
    found: Found,
    directory: Path,
    failures: FailureLog,
    reporter: Reporter,
) -> list[tuple[ScanUnit, Part]]:
    """The index of everything that was found.

    Args:
        request: what the user asked for.
        running: the engine.
        places: what its workers share with this process.
        dataset: how to scan.
        found: the directories and archives.
        directory: where the index is kept.
        failures: where workers tell what went wrong.
        reporter: who is told.

    Raises:
        DataprepError: something cannot be scanned.
    """
    kept = {unit: read_part(directory, unit) for unit in found.units}
    # Files rewritten in place leave their folder's time as it was; --overwrite trusts nothing.
    stale = [
        unit
        for unit, part in kept.items()
        if request.overwrite or not is_current(part, dataset, request.raw, unit)
    ]
    if not stale:
        reporter.line(f"index: {counted(len(kept), 'part')} reused")
        return _whole(kept)
    for unit in stale:
        forget_part(directory, unit)

    from dataprep_pipelines.scan import Scan, ScanUnits

    pace = Pace()

    def show() -> None:
        done = sum(has_part(directory, unit) for unit in stale)
        reporter.scanning(done, len(stale))

    def watch() -> None:
        if pace.is_due():
            with pace.looking():
                show()

    what = Scan(dataset, places.raw, directory)
    try:
        with given(
            what, failures.lease, None if running.is_local else places.described(), "scan"
        ) as orders:
            graph = ScanUnits(orders, stale, running.scan_helpers(), failures)
            share = running.scan_share()
            running.run(lambda pipeline: pipeline | graph, share, watch=watch, stop=failures.stop)
        show()
    except TasksFailedError:
        failures.reraise()  # says more
        raise
    finally:
        reporter.finished()
    failures.reraise()
    return _whole(kept | {unit: read_part(directory, unit) for unit in stale})


def _whole(kept: Mapping[ScanUnit, Part | None]) -> list[tuple[ScanUnit, Part]]:
    parts = []
    for unit, part in kept.items():
        if part is None:
            raise PipelineError(
                f"the engine ended but {unit.name} was not scanned; run the same command again"
            )
        parts.append((unit, part))
    return parts
