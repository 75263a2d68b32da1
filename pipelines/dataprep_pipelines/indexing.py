"""Indexing what is not indexed yet, or has changed since."""

from __future__ import annotations

from pathlib import Path

from dataprep.assembly.index_parts import IndexPart, is_current, part_path
from dataprep.assembly.request import Request
from dataprep.errors import PipelineError
from dataprep.sources import Dataset, Found
from dataprep.wording import counted
from dataprep_pipelines.engines import Running, TasksFailedError
from dataprep_pipelines.engines.shared_places import SharedPlaces
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.orders import given
from dataprep_pipelines.pace import Pace
from dataprep_pipelines.reporter import Reporter


def index_of(
    request: Request,
    running: Running,
    places: SharedPlaces,
    dataset: Dataset,
    found: Found,
    directory: Path,
    failures: FailureLog,
    reporter: Reporter,
) -> list[IndexPart]:
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
    parts = [IndexPart(unit, part_path(directory, unit)) for unit in found.units]
    # Files rewritten in place leave their folder's time as it was; --overwrite trusts nothing.
    stale = [
        part for part in parts if request.overwrite or not is_current(part, dataset, request.raw)
    ]
    if not stale:
        reporter.line(f"index: {counted(len(parts), 'part')} reused")
        return parts
    before = {part.path: _version(part.path) for part in stale}

    from dataprep_pipelines.scan import Scan, ScanUnits

    pace = Pace()

    def show() -> None:
        done = sum(_version(path) != version for path, version in before.items())
        reporter.scanning(done, len(stale))

    def watch() -> None:
        if pace.is_due():
            with pace.looking():
                show()

    units = [part.unit for part in stale]
    what = Scan(dataset, places.raw, directory)
    try:
        with given(
            what, failures.lease, None if running.is_local else places.described(), "scan"
        ) as orders:
            graph = ScanUnits(orders, units, running.scan_helpers(), failures)
            share = running.scan_share()
            running.run(lambda pipeline: pipeline | graph, share, watch=watch, stop=failures.stop)
        show()
    except TasksFailedError:
        failures.reraise()  # says more
        raise
    finally:
        reporter.finished()
    failures.reraise()
    missing = [part for part in stale if _version(part.path) == before[part.path]]
    if missing:
        raise PipelineError(f"the engine ended but {missing[0].unit.name} was not scanned")
    return parts


def _version(path: Path) -> tuple[int, int] | None:
    """What changes when a file is replaced; a shared index is never without its parts."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
