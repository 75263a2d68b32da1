"""``dataprep stage``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.cli.stage_options import stage_options
from dataprep.errors import UsageError

if TYPE_CHECKING:
    from dataprep.staging.request import StageRequest


@click.command()
@click.argument("source", metavar="[SRC]", required=False, type=click.Path(path_type=Path))
@stage_options
def command(source: Path | None, **options: Any) -> None:
    """Copy a data set to every node's own storage, checked, before training starts.

    SRC is a directory that dataprep made, or any directory of files. Start it on every node of a
    job: srun --ntasks-per-node=1 -K dataprep stage SRC --to "$TMPDIR/imagenet". Of several
    processes on a node one copies, and the others wait for it.

    A copy that is there already is checked and used again. Exit code 4: a node has too little
    space, and nothing was copied anywhere.
    """
    chosen = [name for name in ("warm", "advise", "status", "clean") if options[name]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} are two different things; give one")
    if options["all_jobs"] and not options["clean"]:
        raise UsageError("--all_jobs belongs to --clean")
    if source is None and not (options["to"] and (options["status"] or options["clean"])):
        raise UsageError("SRC is missing: the directory to stage")
    if options["status"]:
        _status(source, options)
    elif options["clean"]:
        _clean(source, options)
    else:
        assert source is not None  # noqa: S101  # seen above
        instead = {"warm": _warm, "advise": _advise}
        instead.get(chosen[0] if chosen else "", _stage)(_request(source, options), options)


def _stage(request: StageRequest, options: dict[str, Any]) -> None:
    from dataprep.cli.stage_reporter import TerminalStageReporter
    from dataprep.cli.stopping import resumable
    from dataprep.staging.stage import stage

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
    from dataprep.staging.status import describe
    from dataprep.staging.where import staged_place

    for line in describe(staged_place(source, options["to"], shared=options["shared"])):
        click.echo(line)


def _clean(source: Path | None, options: dict[str, Any]) -> None:
    from dataprep.staging.nodes.placement import find_placement
    from dataprep.staging.target.cleaning import clean
    from dataprep.staging.where import staged_place

    place = staged_place(source, options["to"], shared=options["shared"])
    cleaned = clean(place, find_placement().job, all_jobs=options["all_jobs"])
    click.echo(cleaned.describe(place))


def _request(source: Path, options: dict[str, Any]) -> StageRequest:
    from dataprep.staging.request import StageRequest

    return StageRequest(
        source=Path(os.path.abspath(source)),  # noqa: PTH100  # as given: links stay links
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
