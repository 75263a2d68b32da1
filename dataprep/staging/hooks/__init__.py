"""The text of a batch script, or of an epilog."""

from __future__ import annotations

import re
import shlex
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from dataprep.errors import UsageError
from dataprep.system.messages import printable

SCHEDULERS = ("slurm", "pbs", "lsf")

_VARIABLE = re.compile(r"(\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}))", re.ASCII)


@dataclass(frozen=True, slots=True)
class Hook:
    """What a batch script stages.

    Attributes:
        source: absolute; the data set.
        to: ``--to`` of ``dataprep stage``; ``$NAME`` in it is for the job's shell.
        splits: only these; all if empty.
        share: whether a node gets only its part of the shards.
        replicas: how many nodes get each shard then.
        whole: splits that every node gets whole all the same.
        broadcast: whether every byte is read once and travels on through MPI.
        nodes: how many nodes the job asks for.
        keep: whether a job that is stopped leaves its copies.
    """

    source: Path
    to: str | None = None
    splits: Sequence[str] = ()
    share: bool = False
    replicas: int = 1
    whole: Sequence[str] = ()
    broadcast: bool = False
    nodes: int = 4
    keep: bool = False


class _Script(string.Template):
    """``@@name`` is filled in: shells have their own use for ``$``, and for a single ``@``."""

    delimiter = "@@"


def render(scheduler: str, hook: Hook, *, epilog: bool = False) -> str:
    """A script that can be run as it is but for what a site wants in its header.

    Args:
        scheduler: one of `SCHEDULERS`.
        hook: what it stages.
        epilog: the script for the end of a job instead, for nodes where the job could not clean.

    Raises:
        UsageError: values that no script can be made of.
    """
    _check(hook)
    if epilog and hook.to is not None and _VARIABLE.search(hook.to):
        raise UsageError(
            f"--to {hook.to} has a variable of the job's, which an epilog does not know; leave "
            "--to out and set DATAPREP_SCRATCH in both, or give an absolute path"
        )
    name = f"{scheduler}-epilog.sh" if epilog else f"{scheduler}.sh"
    template = resources.files("dataprep.staging.hooks").joinpath(name).read_text(encoding="utf-8")
    options = [*_place(hook)] if epilog else [*_place(hook), *_choice(hook)]
    training = """bash -c 'ls "$DATA_DIR"'"""
    return _Script(template).substitute(
        nodes=hook.nodes,
        stage=" \\\n  ".join([shlex.quote(str(hook.source)), *options]),
        train=f"srun {training}" if scheduler == "slurm" else training,
    )


def _check(hook: Hook) -> None:
    for path in (str(hook.source), hook.to or ""):
        if not path.isprintable():
            raise UsageError(
                f"{printable(path)} has characters that are no text, which a batch script would "
                "hide; give the directory another name, or a link with one"
            )
    if hook.to == "":
        raise UsageError("--to is empty; is a variable not set?")
    if hook.to is not None and not hook.to.startswith(("/", "$")):
        raise UsageError(
            f"--to {hook.to} is relative, but a job starts elsewhere; give an absolute path, or "
            "one that begins with a variable of the job's, such as --to '$TMPDIR/data'"
        )
    if not hook.share and (hook.replicas != 1 or hook.whole):
        raise UsageError("--replicas and --whole belong to --share node")
    if hook.share and hook.broadcast:
        raise UsageError("--broadcast sends everything to every node; leave out --share")


def _place(hook: Hook) -> Iterator[str]:
    """The words that say where the copy is, a line each."""
    if hook.to is not None:
        yield f"--to {for_the_job(hook.to)}"


def _choice(hook: Hook) -> Iterator[str]:
    """The words that say what is copied, how, and whether it stays, a line each."""
    for split in hook.splits:
        yield f"--split {shlex.quote(split)}"
    if hook.share:
        yield "--share node"
        if hook.replicas != 1:
            yield f"--replicas {hook.replicas}"
        for split in hook.whole:
            yield f"--whole {shlex.quote(split)}"
    if hook.broadcast:
        yield "--broadcast mpi"
    if hook.keep:
        yield "--keep"


def for_the_job(path: str) -> str:
    """A path as one word of a script: ``$NAME`` is left for the job's shell, all else is quoted.

    What names a node's own storage is known in the job only, never where the script is made.
    """
    parts = _VARIABLE.split(path)  # every other one is a variable
    return "".join(
        f'"{part}"' if index % 2 else shlex.quote(part) for index, part in enumerate(parts) if part
    )
