"""``dataprep stage``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.api.parameters import GivenPath
from dataprep.api.results import as_json
from dataprep.cli.stage_options import stage_options
from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from dataprep.staging.request import StageRequest

_BELONGING = {"json": "status", "all_jobs": "clean"}


class _WithCommand(click.Command):
    """Takes what is behind ``--`` as it is: the command to run on the copy."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the words at ``--``."""
        own = args[: args.index("--")] if "--" in args else list(args)
        ctx.obj = (own, args[len(own) + 1 :], len(own) < len(args))
        return super().parse_args(ctx, list(own))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """For the help."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND …]"]


@click.command(cls=_WithCommand)
@click.argument("source", metavar="[SRC]", required=False, type=GivenPath())
@stage_options
@click.pass_obj
def command(
    given: tuple[list[str], list[str], bool], /, source: Path | None, **options: Any
) -> None:
    """Copy a data set to every node's own storage, checked, before training starts.

    SRC is a directory that dataprep made, or any directory of files.

    In a batch script: dataprep stage SRC -- srun python train.py. The copies are made on every node
    of the job, COMMAND runs with DATA_DIR set, signals are passed on to it, and the copies are
    removed at the end.

    Without COMMAND, start it on every node: srun --ntasks-per-node=1 -K dataprep stage SRC --to
    "$TMPDIR/imagenet". Of several processes on a node one copies, and the others wait for it. A
    copy that is there already is checked and used again. Exit code 4: a node has too little space,
    and nothing was copied anywhere.
    """
    words, training, divided = given
    mode = _check_options(options)
    if divided and (mode or options["print_dir"] or not training):
        raise UsageError(
            "COMMAND behind -- is run on a copy: give one, without --print_dir, --status and "
            "--clean"
        )
    if options["keep"] and not training:
        raise UsageError("--keep belongs to `dataprep stage SRC -- COMMAND`; leave it out")
    if source is None and not (options["to"] and mode):
        raise UsageError("SRC is missing: the directory to stage")
    if mode == "status":
        _status(source, options)
    elif mode == "clean":
        _clean(source, options)
    else:
        assert source is not None  # noqa: S101  # seen above
        request = _request(source, options)
        if training:
            _run(request, options, words, training)
        else:
            _stage(request, options)


def _run(
    request: StageRequest, options: dict[str, Any], words: Sequence[str], training: Sequence[str]
) -> None:
    from dataprep.cli.stage_reporter import TerminalStageReporter
    from dataprep.staging.run import run_on_copy

    own = ["stage", *(word for word in words if word != "--keep")]
    reporter = TerminalStageReporter(quiet_stdout=True)
    code = run_on_copy(request, training, own, reporter, keep=options["keep"])
    if code:
        sys.exit(code)


def _stage(request: StageRequest, options: dict[str, Any]) -> None:
    from dataprep.cli.stage_reporter import TerminalStageReporter
    from dataprep.cli.stopping import resumable
    from dataprep.staging.placement import find_placement
    from dataprep.staging.run import NO_ROOM
    from dataprep.staging.stage import stage

    placement = find_placement(rank=request.rank, world_size=request.world_size)
    if request.rendezvous not in (None, "none") and placement.origin == "nothing":
        raise UsageError(
            f"--rendezvous {request.rendezvous}: no scheduler or MPI tells of other nodes here; "
            "say which node this is, and of how many, with --rank and --world_size"
        )
    printed = options["print_dir"] or options["launched"] == "copy"
    reporter = TerminalStageReporter(quiet_stdout=printed)
    place: Path | str
    try:
        with resumable("run the same command again: what is whole is used again"):
            place = stage(request, reporter)
    except NoRoomError as error:
        if options["launched"] != "copy":
            raise
        # All nodes know: none of them is to be ended by the launcher before it has said so.
        click.echo(f"dataprep: error: {error}", err=True)
        place = NO_ROOM
    if printed:
        click.echo(place)


def _status(source: Path | None, options: dict[str, Any]) -> None:
    from dataprep.staging.status import read_staged

    place, _ = _find_place(source, options)
    status = read_staged(place)
    click.echo(as_json(status) if options["json"] else str(status))
    if not status.is_whole:
        raise StagingError(f"{printable(str(place))} is not a whole, unchanged copy; see stdout")


def _clean(source: Path | None, options: dict[str, Any]) -> None:
    from dataprep.staging.target.cleaning import clean

    launched = options["launched"] == "clean"
    if launched:
        _wait_to_be_told()
    place, job = _find_place(source, options)
    cleaned = clean(place, job, all_jobs=options["all_jobs"])
    click.echo(cleaned.describe(place), err=launched)


def _wait_to_be_told() -> None:
    """Until the job is over, which `run_on_copy` or the scheduler says."""
    from dataprep.staging.run import READY

    for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Blocked for good: the one may be followed by the other.
    told = (signal.SIGTERM, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, told)
    click.echo(READY)
    signal.sigwait(told)


def _find_place(source: Path | None, options: dict[str, Any]) -> tuple[Path, str | None]:
    """Where the same call has staged, and the job; what is there must be a copy of SRC."""
    from dataprep.staging.placement import find_placement
    from dataprep.staging.plan import find_copy

    placement = find_placement(rank=options["rank"], world_size=options["world_size"])
    place = find_copy(source, options["to"], placement, shared=options["shared"])
    return place, placement.job


def _request(source: Path, options: dict[str, Any]) -> StageRequest:
    from dataprep.api.calls import STAGE_OPTIONS, stage_request

    return stage_request(source, options["to"], {name: options[name] for name in STAGE_OPTIONS})


def _check_options(options: Mapping[str, Any]) -> str | None:
    """Refuse options that contradict each other, or of which one would be ignored.

    Args:
        options: by name, as the command line has them.

    Returns:
        The mode: ``status``, ``clean``; None to copy.

    Raises:
        UsageError: two do not go together.
    """
    if options["status"] and options["clean"]:
        raise UsageError("--status and --clean are two different things; give one")
    mode = "status" if options["status"] else "clean" if options["clean"] else None
    for name, owner in _BELONGING.items():
        if options[name] and mode != owner:
            raise UsageError(f"--{name} belongs to --{owner}; leave it out")
    if mode and options["print_dir"]:
        raise UsageError(f"--{mode} copies nothing: --print_dir does not go with it; leave it out")
    return mode
