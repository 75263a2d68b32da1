"""``dataprep stage --advise``: what each way of staging would take, for this data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dataprep.errors import UsageError
from dataprep.staging.cost_model import Machine, Mode, Part, estimate, read_speeds
from dataprep.staging.inventory import Inventory, read_inventory
from dataprep.staging.nodes.placement import find_placement
from dataprep.staging.request import StageRequest
from dataprep.staging.selection import Share, select
from dataprep.staging.share import check_replicas


def advise(request: StageRequest, *, nodes: int | None, speeds: Sequence[str]) -> list[str]:
    """The table, and the choice.

    Args:
        request: what is to be staged.
        nodes: how many nodes; this job's if None.
        speeds: ``NAME=VALUE``, see `dataprep.staging.cost_model.Machine`.

    Raises:
        UsageError: a speed that is not known or no number; options that staging would refuse for
            any number of nodes; it is not known how many nodes there are.
    """
    inventory = read_inventory(request.source)
    # The same of one node, with which every option is looked at.
    everything = select(inventory, splits=request.splits, share=Share(0, 1, 1, request.whole))
    nodes = _count_nodes(request) if nodes is None else nodes
    check_replicas(nodes, request.replicas)
    found = estimate(
        everything.bytes,
        max((file.bytes for file in everything.files), default=0),
        nodes,
        read_speeds(speeds, _machine(request)),
        replicas=request.replicas,
        part=_part_of(inventory, request, nodes),
    )
    asked: Mode | None = "broadcast" if request.broadcast else "share" if request.share else None
    return found.table(asked)


def _count_nodes(request: StageRequest) -> int:
    placement = find_placement(rank=request.rank, world_size=request.world_size)
    if placement.doubt is not None:
        raise UsageError(f"--advise: {placement.doubt}; say for how many nodes, with --nodes")
    return placement.nodes


def _machine(request: StageRequest) -> Machine:
    """The usual one, as far as the request says nothing else."""
    machine = Machine()
    if request.verify == "none":
        machine = replace(machine, hash=0.0)
    if request.streams is not None:
        machine = replace(machine, streams=float(request.streams))
    return machine


def _part_of(inventory: Inventory, request: StageRequest, nodes: int) -> Part:
    """What staging would give to the first node, which gets as many shards as any other."""
    share = Share(0, nodes, request.replicas, request.whole)
    try:
        return Part(select(inventory, splits=request.splits, share=share).bytes)
    except UsageError as error:
        return Part(0, str(error))
