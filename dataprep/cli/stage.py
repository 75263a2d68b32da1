"""``dataprep stage``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.api.parameters import GivenPath
from dataprep.cli.stage_conflicts import check_options, check_rendezvous
from dataprep.cli.stage_options import stage_options
from dataprep.errors import StagingError, UsageError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from dataprep.staging.request import StageRequest


@click.command()
@click.argument("source", metavar="[SRC]", required=False, type=GivenPath())
@stage_options
def command(source: Path | None, **options: Any) -> None:
    """Copy a data set to every node's own storage, checked, before training starts.

    SRC is a directory that dataprep made, or any directory of files. Start it on every node of a
    job: srun --ntasks-per-node=1 -K dataprep stage SRC --to "$TMPDIR/imagenet". Of several
    processes on a node one copies, and the others wait for it.

    A copy that is there already is checked and used again. Exit code 4: a node has too little
    space, and nothing was copied anywhere.
    """
    mode = check_options(options)
    if source is None and not (options["to"] and mode in ("status", "clean")):
        raise UsageError("SRC is missing: the directory to stage")
    if mode == "status":
        _status(source, options)
    elif mode == "clean":
        _clean(source, options)
    else:
        assert source is not None  # noqa: S101  # seen above
        run = {"warm": _warm, "advise": _advise, None: _stage}[mode]
        run(_request(source, options), options)


def _stage(request: StageRequest, options: dict[str, Any]) -> None:
    from dataprep.cli.stage_reporter import TerminalStageReporter
    from dataprep.cli.stopping import resumable
    from dataprep.staging.nodes.placement import find_placement
    from dataprep.staging.stage import stage

    placement = find_placement(rank=request.rank, world_size=request.world_size)
    check_rendezvous(request.rendezvous, placement)
    reporter = TerminalStageReporter(quiet_stdout=options["print_dir"])
    with resumable("run the same command again: what is whole is used again"):
        place = stage(request, reporter)
    if options["print_dir"]:
        click.echo(place)


def _warm(request: StageRequest, options: dict[str, Any]) -> None:
    from dataprep.cli.stage_reporter import TerminalStageReporter
    from dataprep.cli.stopping import resumable
    from dataprep.staging.warming import warm

    with resumable("what was read so far stays in memory as long as there is room"):
        warm(request, TerminalStageReporter())


def _advise(request: StageRequest, options: dict[str, Any]) -> None:
    from dataprep.staging.advice import advise

    for line in advise(request, nodes=options["nodes"], speeds=options["speed"]):
        click.echo(line)


def _status(source: Path | None, options: dict[str, Any]) -> None:
    from dataprep.staging.status import read_staged

    place, _ = _find_place(source, options)
    status = read_staged(place)
    for line in status.lines:
        click.echo(line)
    if not status.is_whole:
        raise StagingError(f"{printable(str(place))} is not a whole, unchanged copy; see stdout")


def _clean(source: Path | None, options: dict[str, Any]) -> None:
    from dataprep.staging.target.cleaning import clean

    place, job = _find_place(source, options)
    cleaned = clean(place, job, all_jobs=options["all_jobs"])
    click.echo(cleaned.describe(place))


def _find_place(source: Path | None, options: dict[str, Any]) -> tuple[Path, str | None]:
    """Where the same call has staged, and the job; what is there must be a copy of SRC."""
    from dataprep.staging.nodes.placement import find_placement
    from dataprep.staging.where import check_copy_of, staged_place

    placement = find_placement(rank=options["rank"], world_size=options["world_size"])
    place = staged_place(source, options["to"], placement, shared=options["shared"])
    if source is not None:
        check_copy_of(source, place)
    return place, placement.job


def _request(source: Path, options: dict[str, Any]) -> StageRequest:
    from dataprep.staging.request import StageRequest
    from dataprep.staging.where import absolute_source

    return StageRequest(
        source=absolute_source(source),
        to=options["to"],
        splits=options["split"],
        share=options["share"] is not None,
        replicas=options["replicas"],
        whole=frozenset(options["whole"]),
        shared=options["shared"],
        verify=options["verify"],
        hashed=options["hash"],
        streams=options["streams"],
        bandwidth=options["bandwidth"],
        broadcast=options["broadcast"] is not None,
        rank=options["rank"],
        world_size=options["world_size"],
        rendezvous=options["rendezvous"],
        rendezvous_seconds=options["rendezvous_seconds"],
        patience=options["patience"],
        env_file=options["env_file"],
    )
