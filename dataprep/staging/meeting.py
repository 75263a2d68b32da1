"""Which way the copiers of a job's nodes find each other, if they can."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from dataprep.staging.copying.streams import Watch
from dataprep.staging.nodes.peers import Alone, Peers
from dataprep.staging.nodes.placement import Placement, require_node
from dataprep.staging.nodes.rendezvous import meet, parse_address
from dataprep.staging.request import StageReporter, StageRequest

_UNMET = (
    "the nodes do not meet: each looks at its own space only, and does not hear of the others' "
    "failures; let one failure end the job (srun -K), or say where they meet (--rendezvous)"
)


def check_meeting(request: StageRequest, placement: Placement) -> None:
    """Whether ``--rendezvous`` makes sense, before anything is made.

    Raises:
        UsageError: it is no address; or it is not known which node this is.
    """
    if request.rendezvous not in (None, "none"):
        parse_address(str(request.rendezvous))
        require_node(placement, "--rendezvous")


def connected(
    request: StageRequest, placement: Placement, watch: Watch, reporter: StageReporter
) -> AbstractContextManager[Peers]:
    """The other nodes, if they can be met; else nobody.

    Args:
        request: the call, whose ``--rendezvous`` overrules the scheduler.
        placement: which node this is.
        watch: stopped when another node fails.
        reporter: told if the nodes of a launch cannot meet.

    Raises:
        StagingError: not all nodes came.
    """
    if not _can_meet(request, placement):
        if placement.nodes > 1 and placement.node == 0 and placement.step:
            reporter.line(_UNMET)
        elif placement.nodes > 1 and placement.origin != "--rank":
            reporter.line(
                f"this job has {placement.nodes} nodes, and only {placement.host} is staged here; "
                "start it on all of them, e.g. srun --ntasks-per-node=1 -K dataprep stage …"
            )
        return Alone(placement.node, placement.nodes)
    # With the source: one step may stage several things side by side.
    launch = f"{placement.step or request.rendezvous} {request.source}"
    return meet(
        placement,
        f"{launch!r} {os.getuid()}",
        address=request.rendezvous,
        seconds=request.rendezvous_seconds,
        on_failure=watch.stop,
    )


def _can_meet(request: StageRequest, placement: Placement) -> bool:
    if placement.nodes == 1 or request.rendezvous == "none":
        return False
    return bool(request.rendezvous or (placement.step and placement.leader))
