"""The text of a batch script, or of an epilog."""

from __future__ import annotations

import re
import shlex
import string
from importlib import resources

from dataprep.errors import UsageError
from dataprep.staging.request import StageRequest

SCHEDULERS = ("slurm", "pbs", "lsf")

_VARIABLE = re.compile(r"(\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}))", re.ASCII)


class _Script(string.Template):
    """``@@name`` is filled in: shells have their own use for ``$``, and for a single ``@``."""

    delimiter = "@@"


def render(
    scheduler: str,
    request: StageRequest | None,
    *,
    to: str | None = None,
    nodes: int = 4,
    keep: bool = False,
) -> str:
    """A script that can be run as it is but for what a site wants in its header.

    Args:
        scheduler: one of `SCHEDULERS`.
        request: what it stages, from an absolute source; None for the script for the end of a job,
            for nodes where the job could not clean.
        to: ``--to`` of ``dataprep stage``; ``$NAME`` in it is for the job's shell. None for an
            epilog, which cleans scratch.
        keep: whether a job that is stopped leaves its copies.

    Raises:
        UsageError: values that no script can be made of.
    """
    if to is not None and not to.startswith(("/", "$")):
        raise UsageError(
            f"--to {to} is relative, but a job starts elsewhere; give an absolute path, or one "
            "that begins with a variable of the job's, such as --to '$TMPDIR/data'"
        )
    name = f"{scheduler}-epilog.sh" if request is None else f"{scheduler}.sh"
    template = resources.files("dataprep.staging.hooks").joinpath(name).read_text(encoding="utf-8")
    words = ["--clean" if request is None else shlex.quote(str(request.source))]
    words += [] if to is None else [f"--to {for_the_job(to)}"]
    if request is not None:
        words += (
            request.words
            + ["--broadcast mpi"] * (request.broadcast is not None)
            + ["--keep"] * keep
        )
    training = """bash -c 'ls "$DATA_DIR"'"""
    return _Script(template).substitute(
        nodes=nodes,
        stage=" \\\n  ".join(words),
        train=f"srun {training}" if scheduler == "slurm" else training,
    )


def for_the_job(path: str) -> str:
    """A path as one word of a script: ``$NAME`` is left for the job's shell, all else is quoted.

    What names a node's own storage is known in the job only, never where the script is made.
    """
    parts = _VARIABLE.split(path)  # every other one is a variable
    return "".join(
        f'"{part}"' if index % 2 else shlex.quote(part) for index, part in enumerate(parts) if part
    )
