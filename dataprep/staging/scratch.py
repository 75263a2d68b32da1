"""Where a copy goes on the node, and what kind of storage that is."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import StagingError
from dataprep.staging.nodes.placement import Placement
from dataprep.system.filesystems import (
    Scratch,
    filesystem_of,
    is_memory,
    is_network,
    scratch_conventions,
    user_name,
)
from dataprep.system.memory import available
from dataprep.system.messages import printable, sized

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Target:
    """Where the copy goes.

    Attributes:
        path: absolute; the files go directly into it. It need not exist.
        why: what chose it, for messages: ``--to``, ``$SLURM_TMPDIR``.
        kind: the file system's type, e.g. ``ext4``, ``tmpfs``; empty if it cannot be told.
        warning: a line the user should read, e.g. that it is memory; None if all is well.
    """

    path: Path
    why: str
    kind: str
    warning: str | None


def find_target(
    to: Path | None,
    name: str,
    needed: int,
    placement: Placement,
    *,
    shared: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Target:
    """Choose where the copy goes: ``--to``, or this job's own directory in the node's scratch.

    A variable that sites set for nothing but node-local scratch is a promise: if its directory
    cannot be used that is an error, not a reason to fill ``/tmp``. Other places are passed over.

    Args:
        to: ``--to``; used as it is.
        name: of the data set, for the last component of a chosen path.
        needed: bytes, for the warning about memory.
        placement: whose job it is.
        shared: a directory that jobs of the same user share, instead of the job's own.
        environment: where sites name their scratch.

    Raises:
        StagingError: it would be on a network file system; no scratch was found.
    """
    if to is not None:
        path, why = to.absolute(), "--to"
        kind = filesystem_of(path)
        if is_network(kind):
            raise StagingError(
                f"{printable(str(path))} (--to) is on {kind}, which other nodes share; name "
                "node-local storage with --to"
            )
    else:
        scratch, kind = _choose(environment)
        job = "shared" if shared else _component(placement.job or "nojob")
        path = scratch.path / f"dataprep-{_component(user_name())}" / job / _component(name)
        why = scratch.why
    return Target(path, why, kind, _warning(path, kind, needed))


def _choose(environment: Mapping[str, str]) -> tuple[Scratch, str]:
    """The first place that can be used, and its file system's type."""
    passed: list[str] = []
    for scratch in scratch_conventions(environment):
        kind, trouble = _inspect(scratch.path)
        if trouble is None:
            return scratch, kind
        shown = printable(str(scratch.path))
        where = shown if scratch.why == str(scratch.path) else f"{scratch.why} ({shown})"
        if scratch.promised:
            raise StagingError(
                f"{where} {trouble}, but it names this node's scratch; mend or unset it, or name "
                "node-local storage with --to"
            )
        passed.append(f"{where} {trouble}")
    raise StagingError(
        f"no node-local scratch was found: {', '.join(passed)}; name node-local storage with --to"
    )


def _inspect(place: Path) -> tuple[str, str | None]:
    """A place's file system type, and why it cannot be used."""
    if not place.is_absolute():
        return "", "is not an absolute path"
    # Not Path.is_dir, which raises where one may not look.
    if not os.path.isdir(place):  # noqa: PTH112  # see above
        return "", "is not a directory"
    kind = filesystem_of(place)
    if is_network(kind):
        return kind, f"is on {kind}, which other nodes share"
    if not os.access(place, os.W_OK | os.X_OK):
        return kind, "cannot be written"
    return kind, None


def _warning(path: Path, kind: str, needed: int) -> str | None:
    shown = printable(str(path))
    if kind == "overlay":
        return (
            f"{shown} is in a container's own layer (overlay), which is slow and often small; "
            "bind node-local storage into the container and name it with --to"
        )
    if not is_memory(kind):
        return None
    left = available()
    line = f"{shown} is memory ({kind}): the copy takes {sized(needed)} of what this job may use"
    if needed > left:
        return f"{line}, and only {sized(left)} are left; name a disk with --to"
    return f"{line}, of which {sized(left)} are left"


def _component(name: str) -> str:
    """A name as a directory's: plain characters, and another one for every other name."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip(".-")[:_LONGEST_NAME]
    if plain and plain == name:
        return plain
    mark = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return f"{plain}-{mark}" if plain else mark
