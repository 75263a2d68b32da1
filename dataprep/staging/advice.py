"""``dataprep stage --advise``: what each way of staging would take, for this data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.staging.cost_model import Mode, estimate, read_speeds
from dataprep.staging.inventory import read_inventory
from dataprep.staging.nodes.placement import find_placement
from dataprep.staging.request import StageRequest
from dataprep.staging.selection import select


def advise(request: StageRequest, *, nodes: int | None, speeds: Sequence[str]) -> list[str]:
    """The table, and the choice.

    Args:
        request: what is to be staged.
        nodes: how many nodes; this job's if None.
        speeds: ``NAME=VALUE``, see `dataprep.staging.cost_model.Machine`.

    Raises:
        UsageError: a speed that is not known or no number.
    """
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits)
    if nodes is None:
        nodes = find_placement(rank=request.rank, world_size=request.world_size).nodes
    machine = read_speeds(speeds)
    if request.verify == "none":
        machine = replace(machine, hash=0.0)
    largest = max(file.bytes for file in selection.files)
    found = estimate(selection.bytes, largest, nodes, machine, replicas=request.replicas)
    asked: Mode | None = "broadcast" if request.broadcast else "share" if request.share else None
    return found.table(asked)
