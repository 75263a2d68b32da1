"""What one call means for one node: which files are to be where."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import StagingError, UsageError
from dataprep.staging.inventory import Inventory, read_inventory
from dataprep.staging.nodes.placement import Placement, require_node
from dataprep.staging.request import StageRequest
from dataprep.staging.scratch import Target, find_target
from dataprep.staging.selection import Selection, Share, select
from dataprep.system.messages import printable


@dataclass(frozen=True, slots=True)
class Errand:
    """What is to be where: one node's part of one call."""

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


def make_errand(request: StageRequest, placement: Placement) -> Errand:
    """Look at the source, and choose what goes where; nothing is written.

    Raises:
        UsageError: options that cannot be together.
        DatasetError: there is nothing that can be staged.
        StagingError: there is no place for it.
    """
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits, share=share_of(request, placement))
    target = find_place(request, placement, selection.bytes)
    return Errand(request, placement, inventory, selection, target)


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
            f"{printable(str(target))} and {printable(str(source))}, which is to be copied "
            "there, are one in the other; stage into a directory apart (--to)"
        )
