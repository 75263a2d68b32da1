"""``dataprep stage --warm``: a data set that stays where it is, into the node's page cache."""

from __future__ import annotations

import time

from dataprep.errors import StagingError
from dataprep.staging.copying.files import read_files
from dataprep.staging.copying.streams import Watch, default_streams
from dataprep.staging.inventory import read_inventory
from dataprep.staging.nodes.placement import find_placement
from dataprep.staging.plan import share_of
from dataprep.staging.request import StageReporter, StageRequest
from dataprep.staging.selection import select
from dataprep.system.memory import available
from dataprep.system.messages import counted, printable, sized


def warm(request: StageRequest, reporter: StageReporter) -> None:
    """Read what this node would be given, once; the first process of a node does it.

    Raises:
        UsageError: options that cannot be together.
        StagingError: it does not fit into memory, so that the first would be forgotten before the
            last is read; a file is not what it should be.
    """
    placement = find_placement(rank=request.rank, world_size=request.world_size)
    inventory = read_inventory(request.source)
    selection = select(inventory, splits=request.splits, share=share_of(request, placement))
    if placement.local_rank != 0:
        return
    room = available()
    if selection.bytes > room:
        raise StagingError(
            f"{printable(str(request.source))}: {sized(selection.bytes)} do not fit into the "
            f"{sized(room)} of memory that this node has available; warm fewer splits, ask for "
            "more memory, or stage to a disk (--to)"
        )
    started = time.monotonic()
    reporter.copying(len(selection.files), selection.bytes)
    try:
        read_files(
            request.source,
            selection.files,
            streams=request.streams or default_streams(),
            watch=Watch(reporter.advance),
            verify=request.verify,
            bandwidth=request.bandwidth,
            node=placement.node,
        )
    finally:
        reporter.finished()
    seconds = max(time.monotonic() - started, 1e-3)
    reporter.line(
        f"{placement.host}: {counted(len(selection.files), 'file')}, {sized(selection.bytes)} read "
        f"in {seconds:.1f} s, {selection.bytes / seconds / 1e9:.2f} GB/s; in the page cache"
    )
