"""What one call means for one node: which files are to be where, on which storage."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DataprepError, StagingError, UsageError
from dataprep.staging.inventory import Inventory, read_inventory
from dataprep.staging.placement import Placement, require_node
from dataprep.staging.request import StageRequest
from dataprep.staging.selection import Selection, Share, select
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.sentinel import Sentinel, read_sentinel
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


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What is to be where: one node's part of one call.

    Attributes:
        request: the call.
        placement: which node this is, of which job.
        inventory: what there is in the source.
        selection: what of it this node gets.
        target: where it goes.
    """

    request: StageRequest
    placement: Placement
    inventory: Inventory
    selection: Selection
    target: Target


def find_place(request: StageRequest, placement: Placement, needed: int = 0) -> Target:
    """Where the copy goes; nothing is made.

    Args:
        request: the call.
        placement: whose job it is.
        needed: bytes, for the warning about memory.

    Raises:
        StagingError: there is no place for it.
    """
    name = request.source.name
    target = find_target(request.to, name, needed, placement, shared=request.shared)
    _check_apart(request.source, target.path)
    return target


def make_plan(request: StageRequest, placement: Placement) -> StagePlan:
    """Look at the source, and choose what goes where; nothing is written.

    Raises:
        UsageError: options that cannot be together.
        DatasetError: there is nothing that can be staged.
        StagingError: there is no place for it.
    """
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits, share=share_of(request, placement))
    target = find_place(request, placement, selection.bytes)
    return StagePlan(request, placement, inventory, selection, target)


def share_of(request: StageRequest, placement: Placement) -> Share | None:
    """This node's part of the shards, if parts are asked for.

    Raises:
        UsageError: options that cannot be together.
    """
    if not request.share:
        if request.replicas != 1 or request.whole:
            raise UsageError("--replicas and --whole belong to --share node")
        return None
    if request.broadcast:
        raise UsageError("--broadcast sends everything to every node; leave out --share")
    require_node(placement, "--share")
    return Share(placement.node, placement.nodes, request.replicas, request.whole)


def _check_apart(source: Path, target: Path) -> None:
    """A copy inside of what is copied would be copied; the other way round, cleaning is unsafe."""
    # Not Path.resolve, which raises for links that lead in a circle.
    ours, theirs = Path(os.path.realpath(target)), Path(os.path.realpath(source))
    if ours == theirs or theirs in ours.parents or ours in theirs.parents:
        raise StagingError(
            f"the target {printable(str(target))} and the source {printable(str(source))} must not "
            "contain each other; choose another directory (--to)"
        )


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
                f"{where} {trouble}, but it names this node's scratch; fix or unset it, or name "
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


def absolute_source(source: Path) -> Path:
    """SRC from the root on, as it was given: links stay links, unless it goes back with ``..``."""
    if ".." in source.parts:  # behind a link that is not where the name before it is
        return Path(os.path.realpath(source))
    return source.absolute()


def find_copy(source: Path | None, to: Path | None, placement: Placement, *, shared: bool) -> Path:
    """Where a call with the same options has staged; what is there must be a copy of ``source``.

    Two sources of one name have the same place in a job's scratch.

    Args:
        source: SRC; may be None if ``to`` is given: then any copy will do.
        to: ``--to``.
        placement: whose job it is.
        shared: ``--shared``.

    Raises:
        StagingError: no scratch was found; it is not node-local, or not safe to look at; what is
            there is a copy of something else.
    """
    given = None if source is None else absolute_source(source)
    place = find_target(to, given.name if given else "", 0, placement, shared=shared).path
    directory = StageDirectory.existing(place) if given else None
    if given is None or directory is None:
        return place
    with directory:
        sentinel = read_sentinel(directory)
    if sentinel is not None and not _is_of(sentinel, given):
        raise StagingError(
            f"{printable(str(place))} holds a copy of {printable(sentinel.source)}, not of "
            f"{printable(str(source))}; give that SRC, or only the place (--to)"
        )
    return place


def _is_of(sentinel: Sentinel, source: Path) -> bool:
    if os.path.realpath(sentinel.source) == os.path.realpath(source):
        return True
    try:  # the same data set may be there twice
        return read_inventory(source).digest == sentinel.digest
    except DataprepError:
        return False
