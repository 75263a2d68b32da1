"""Commands that copy a data set: ``stage``, its batch script (``hook``), and ``push``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from dataprep.api.calls import push, stage_request
from dataprep.api.options import stage_options
from dataprep.api.progress import Display, Reporter
from dataprep.cli.options import flag, given, number, own, shown
from dataprep.cli.output import PATH, PLACE, hand_on, json_option, say, show
from dataprep.cli.signals import watched
from dataprep.errors import NoRoomError, StagingError, UsageError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from dataprep.staging.request import StageRequest

_PRINTED = (
    "Print only the directory of the copy on stdout: DATA_DIR=$(dataprep stage --print_dir …) "
    "|| exit; export DATA_DIR. Every process prints it; under srun, use sort -u."
)
_KEEP = "With COMMAND: keep the copies if the job is stopped, for its requeue to use."
_INSTEAD = (
    "Instead of copying: show what is there. Exit code 1 if it is not a whole copy, by sizes "
    "and times."
)
_CLEANED = (
    "Instead of copying: delete what this job staged, and nothing else; without SRC and "
    "--to, all of it in this node's scratch."
)


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


@click.command(
    "stage",
    cls=_WithCommand,
    params=[
        click.Argument(["source"], metavar="[SRC]", required=False, type=PLACE),
        *shown(stage_options().table),
        flag("print_dir", _PRINTED),
        flag("keep", _KEEP),
        flag("status", _INSTEAD),
        flag("json", "With --status: print JSON."),
        flag("clean", _CLEANED),
        # How `dataprep stage SRC -- COMMAND` starts itself on every node.
        own("launched", "", None, Literal["copy", "clean", "clean_later"], hidden=True),
    ],
)
@click.pass_context
def stage_command(context: click.Context, /, *, source: Path | str | None, **values: Any) -> None:
    """Copy a data set to every node's own storage before training starts, and check the copy.

    SRC is a directory that dataprep made, or any directory of files; or a data set in a bucket:
    s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX.

    In a batch script: dataprep stage SRC -- srun python train.py. This makes the copies on every
    node of the job, runs COMMAND with DATA_DIR set, passes signals on to it, and removes the copies
    at the end.

    Without COMMAND, start it on every node: srun --ntasks-per-node=1 -K dataprep stage SRC --to
    "$TMPDIR/imagenet". If a node has several processes, one copies and the others wait. An existing
    copy is used again if all files have the size and time that they were copied with; with --verify
    reread, also the hash. Exit code 4: a node has too little space, and nothing was copied
    anywhere.
    """
    words, training, divided = context.obj
    if values["launched"]:
        from dataprep.staging.launcher import take_environment

        take_environment()
    instead = values["status"] or values["clean"]
    if (values["status"] and values["clean"]) or (instead and values["print_dir"]):
        raise UsageError("--status, --clean and --print_dir are different things; give one")
    if values["status"] and values["verify"] == "reread":
        raise UsageError(
            "--status goes by sizes and times; to read the copy again, use dataprep verify, or "
            "the same dataprep stage with --verify reread, which also mends it"
        )
    if divided and (instead or values["print_dir"] or not training):
        raise UsageError(
            "COMMAND behind -- is run on a copy: give one, without --print_dir, --status and "
            "--clean"
        )
    if source is None and not values["clean"] and not (values["to"] and instead):
        raise UsageError("SRC is missing: the directory to stage")
    if values["status"]:
        _status(source, values)
    elif values["clean"]:
        _clean(source, values)
    else:
        assert source is not None  # noqa: S101  # seen above
        ours = {option.name for option in stage_options().table}
        options = {name: value for name, value in given(context, values).items() if name in ours}
        request = stage_request(source, options)
        if training:
            _run(request, words, training, keep=values["keep"])
        else:
            _copy(request, values)


def _run(
    request: StageRequest, words: Sequence[str], training: Sequence[str], *, keep: bool
) -> None:
    from dataprep.staging.run import run_on_copy

    own = ["stage", *(word for word in words if word != "--keep")]
    # Signals are the command's.
    with closing(Display(quiet_stdout=True)) as display:
        code = run_on_copy(request, training, own, Reporter(display), keep=keep)
    if code:
        sys.exit(code)


def _copy(request: StageRequest, values: Mapping[str, Any]) -> None:
    from dataprep.staging.launcher import answer
    from dataprep.staging.placement import find_placement
    from dataprep.staging.stage import stage

    placement = find_placement()
    if request.rendezvous not in (None, "none") and placement.origin == "nothing":
        raise UsageError(
            f"--rendezvous {request.rendezvous}: no scheduler or MPI tells of other nodes here; "
            "set RANK, from 0, and WORLD_SIZE, the number of nodes, in the environment of each"
        )
    launched = values["launched"] == "copy"
    printed = values["print_dir"] or launched
    how = "run the same command again: what is whole is used again"
    if launched:
        say(answer("begun"))
    try:
        with watched(how, quiet_stdout=printed) as display:
            place = stage(request, Reporter(display))
    except StagingError as error:
        if placement.nodes > 1:  # a launcher ends the others when a node fails
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if not (launched and isinstance(error, NoRoomError)):
            raise
        # All nodes know: none of them is to be ended by the launcher before it has said so.
        say(f"dataprep: error: {error}", err=True)
        said = answer("no-room")
    else:
        said = answer("copy", str(place)) if launched else str(place)
    if printed:
        hand_on(f"{said}\n")


def _status(source: Path | str | None, values: Mapping[str, Any]) -> None:
    from dataprep.staging.existing import read_staged

    place, _ = _find_place(source, values)
    status = read_staged(place)
    show(status, json=values["json"])
    if not status.is_whole:
        raise StagingError(f"{printable(str(place))} is not a whole, unchanged copy; see stdout")


def _clean(source: Path | str | None, values: Mapping[str, Any]) -> None:
    from dataprep.staging.cleaning import clean
    from dataprep.staging.placement import find_job
    from dataprep.staging.plan import find_copies

    launched = values["launched"] is not None
    if values["launched"] == "clean_later":
        _wait_to_be_told()
    if source is not None or values["to"]:
        place, job = _find_place(source, values)
        places = [place]
    elif found := find_job(os.environ):
        job, places = found.name, find_copies(found.name)
        if not places:
            say(f"{job} has nothing in this node's scratch; for another place say --to")
    else:
        raise UsageError("SRC is missing: outside of any job, say what to clean (SRC or --to)")
    failures = []
    for place in places:  # one that cannot go does not keep the others
        try:
            cleaned = clean(place, job)
            say(cleaned.describe(place), err=launched)
        except StagingError as error:
            failures.append(str(error))
    if failures:
        raise StagingError("; ".join(failures))


def _wait_to_be_told() -> None:
    """Until the job is over, which `run_on_copy` or the scheduler says."""
    from dataprep.staging.launcher import answer

    for ignored in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    # Blocked for good: the one may be followed by the other.
    told = (signal.SIGTERM, signal.SIGUSR2)
    signal.pthread_sigmask(signal.SIG_BLOCK, told)
    say(answer("ready"))
    signal.sigwait(told)


def _find_place(source: Path | str | None, values: Mapping[str, Any]) -> tuple[Path, str | None]:
    """Where the same call has staged, and the job; what is there must be a copy of SRC."""
    from dataprep.staging.placement import find_placement
    from dataprep.staging.plan import find_copy

    placement = find_placement()
    place = find_copy(source, values["to"], placement, shared=values["shared"])
    return place, placement.job


_SHARED = ("split", "share", "broadcast")
_COPY_TO = (
    "Where the copies go on every node. Quote variables of the job: '$TMPDIR/data'. [default: "
    "as `dataprep stage` chooses]"
)
_EPILOG = (
    "Instead, without SRC: print what a site runs on every node at the end of a job, to clean "
    "up after jobs that were killed."
)


@click.command(
    "hook",
    params=[
        click.Argument(["scheduler"], type=click.Choice(["slurm", "pbs", "lsf"])),
        click.Argument(["source"], metavar="[SRC]", required=False, type=PLACE),
        *shown(option for option in stage_options().table if option.name in _SHARED),
        own("to", _COPY_TO, metavar="DIR"),
        number("nodes", "N", "Number of nodes of the job.", 4),
        flag("keep", "Keep the copies if the job is stopped, for its requeue to use."),
        flag("epilog", _EPILOG),
    ],
)
def hook_command(
    scheduler: str,
    source: Path | str | None,
    to: str | None,
    nodes: int,
    keep: bool,
    epilog: bool,
    **values: Any,
) -> None:
    """Print a batch script that stages SRC, trains and cleans up.

    For example: dataprep hook slurm SRC --to '$TMPDIR/data' > train.sh

    Edit the header for your site, and put your training command in the place of the one that lists
    the staged files.
    """
    from dataprep.staging.hooks import render
    from dataprep.staging.plan import absolute_source
    from dataprep.staging.request import StageRequest

    if epilog == (source is not None) or (epilog and to is not None):
        raise UsageError(
            "give SRC, the directory that the script stages; or --epilog, alone, for all that a "
            "job staged in scratch"
        )
    request = StageRequest(
        source=absolute_source(source or ""),
        splits=values["split"],
        share=values["share"],
        broadcast=values["broadcast"],
    )
    hand_on(render(scheduler, None if epilog else request, to=to, nodes=nodes, keep=keep))


@click.command(
    "push",
    params=[
        click.Argument(["out"], type=PATH),
        click.Argument(["to"]),
        flag(
            "overwrite",
            "Replace a data set there that this one does not descend from, or an archive.",
        ),
        flag(
            "delete_others",
            "At the end, delete all that is there and that this data set does not name. Who reads "
            "an older generation of it loses shards.",
        ),
        flag("dry_run", "Only say what would be done."),
        json_option("Pushed"),
    ],
)
def push_command(out: Path, to: str, json: bool, **options: bool) -> None:
    """Copy a finished data set elsewhere: its files, each checked, and its manifest last.

    TO is s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX; credentials are taken
    from where the tools of each have them. Or a directory, such as a disk to carry away; or a name
    that ends in .tar, for one file with its SHA256SUMS in front, which `dataprep verify` checks as
    it is. Without its manifest there is no data set, so what is there is whole or is none. Killed
    and started again it copies what is missing; an archive is begun anew.
    """
    with watched("run the same command again to go on") as display:
        found = push(out, to, progress=display, **options)
    show(found, json=json)
