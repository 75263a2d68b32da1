"""Another format of a finished data set, without the raw data: what `dataprep convert` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dataprep.build import manifest as manifests
from dataprep.build.build_directory import remove_build_directories
from dataprep.build.claim import remove_partial_files
from dataprep.build.convert_job import changed_meanwhile
from dataprep.build.convert_plan import (
    ConvertRequest,
    check_conversion,
    others_of,
    plan_conversion,
    statistics_of,
)
from dataprep.build.lock import locked
from dataprep.build.seal import MaxBad, Outcome, seal
from dataprep.build.verify import Level, verify
from dataprep.build.workspace import Workspace
from dataprep.errors import DatasetError
from dataprep.index import records as records_table
from dataprep.system.durable_files import storage_error
from dataprep_pipelines.at_work import at_work
from dataprep_pipelines.build import build
from dataprep_pipelines.failures import FailureLog
from dataprep_pipelines.reporter import Reporter
from dataprep_pipelines.runners import Engine, check
from dataprep_pipelines.runners.shared_places import SharedPlaces


def convert(
    request: ConvertRequest,
    engine: Engine,
    reporter: Reporter,
    *,
    level: Level,
    checking: Callable[[int], object],
) -> Outcome:
    """Convert the data set, or finish converting it.

    Args:
        request: what into what.
        engine: where.
        reporter: who is told.
        level: how the data set is verified first. Formats without checksums would otherwise
            pass damage on, under a new hash.
        checking: told the bytes that were verified.

    Raises:
        DataprepError: any of its kinds; everything committed so far is kept.
    """
    manifest = check_conversion(request)
    check(engine)
    before = _witnesses(request.source, manifest)
    _verify(request, level, engine, checking)
    # Absolute, because workers need not have this process's working directory.
    workspace = Workspace(request.out.absolute())
    try:
        workspace.make()
    except OSError as error:
        raise DatasetError(
            f"--to {request.out} cannot be used: {error.strerror}; choose another"
        ) from error
    try:
        with locked(workspace, report=reporter.line) as lease:
            remove_partial_files(workspace, list(manifest["splits"]))
            remove_build_directories(workspace, request.build_dir)
            places = SharedPlaces(workspace.out, request.source.absolute(), workspace.lock)
            splits = list(manifest["splits"])
            with at_work(engine, places, lease, splits, reporter.line) as (running, for_workers):
                job, identity = plan_conversion(
                    request, manifest, for_workers, report=reporter.line
                )
                build(job, running, places, FailureLog(for_workers), reporter, request.striping)
            if _witnesses(request.source, manifest) != before:
                raise changed_meanwhile(request.source)
            return seal(
                job,
                identity,
                max_bad=MaxBad(),
                keep_rejected=False,
                report=reporter.line,
                others=others_of(request.source, manifest),
                statistics=statistics_of(job, manifest),
            )
    except BrokenPipeError:
        raise  # nobody reads the terminal's lines any more; not the output directory's fault
    except OSError as error:
        raise storage_error(error, request.out, "converting") from error


def _witnesses(source: Path, manifest: Mapping[str, Any]) -> list[tuple[int, int, int] | None]:
    """What changes when a file of the data set does: it is verified only once, and read later."""
    names = [manifests.NAME, records_table.NAME]
    for split in manifest["splits"].values():
        names += [file["path"] for shard in split["shards"] for file in shard["files"]]
    return [_witness(source / name) for name in names]


def _witness(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _verify(
    request: ConvertRequest, level: Level, engine: Engine, checking: Callable[[int], object]
) -> None:
    found = verify(request.source, level, threads=engine.workers, progress=checking)
    if found.problems:
        first = found.problems[0]
        raise DatasetError(
            f"{request.source} is damaged: {first.path}: {first.what}; `dataprep verify` names all "
            "bad files; nothing was converted"
        )
