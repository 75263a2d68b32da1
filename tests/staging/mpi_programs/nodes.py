"""Started by mpirun in every rank: broadcasts between emulated nodes, and what came of them.

The scenarios say what each rank is to do; each rank leaves a JSON file behind for each.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dataprep.cli.signals import resumable
from dataprep.errors import NoRoomError
from dataprep.staging import agreement, mpi
from dataprep.staging.agreement import Agreed, NodeStart
from dataprep.staging.broadcast import broadcast_files
from dataprep.staging.source import SourceFile
from dataprep.staging.writing import Transfer
from tests.staging.staged_sets import Counting


def main(scenarios: list[dict[str, Any]]) -> None:
    mpi._end_mpi = lambda: None  # the processes play several scenarios
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    for scenario in scenarios:
        play(scenario, rank)


def play(config: dict[str, Any], rank: int) -> None:
    mine = {**config, **config["ranks"].get(str(rank), {})}
    target = Path(mine["target"].format(rank=rank)) if mine["target"] else None
    result: dict[str, Any] = {"rank": rank, "unavailable": mpi.unavailable(), "copied": []}
    try:
        with resumable("go on"), mpi.join() as peers:
            result["index"], result["count"] = peers.index, peers.count
            copy(mine, target, peers, result)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        result["error"] = str(error)
        result["kind"] = type(error).__name__
    (Path(config["results"]) / f"{rank}.json").write_text(json.dumps(result))


def copy(
    mine: dict[str, Any], target: Path | None, peers: mpi.MpiPeers, result: dict[str, Any]
) -> None:
    if target is None:
        raise NoRoomError("too little here")
    agreement.FIRST_SECONDS = mine.get("first seconds", 10.0)
    time.sleep(mine.get("late", 0.0))
    agreed = peers.exchange(NodeStart("ä\udcff", peers.index, "d", "t", 0, 0), told)
    assert agreed.total == str([*range(peers.count)])
    target.mkdir(parents=True, exist_ok=True)
    if mine.get("fails between"):
        raise NoRoomError("too little here")

    def on_advance(count: int) -> None:
        if progress.done >= mine.get("signal at", 1 << 60):
            os.kill(os.getpid(), mine["signal"])
            time.sleep(0.2)  # nothing is stored meanwhile, so the others cannot get far ahead

    progress = Counting(on_advance)
    files = [SourceFile(*file) for file in mine["files"]]
    lacking = mine.get("lacking", [file.path for file in files])
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (mine.get("limit", limits[0]), limits[1]))
    before = bytes_read()
    try:
        result["read"] = broadcast_files(
            peers,
            Transfer(
                Path(mine["source"]),
                descriptor,
                mine.get("verify", "copy"),
                progress,
                lambda copied: result["copied"].append(copied.path),
            ),
            files,
            lacking=lacking,
            chunk_bytes=mine["chunk"],
        )
    finally:
        os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        result["rchar"] = bytes_read() - before


def told(starts: Sequence[NodeStart]) -> Agreed:
    return Agreed(str([start.node for start in starts]))


def bytes_read() -> int:
    """What the kernel says that this process has read, from whatever file."""
    line = Path("/proc/self/io").read_text().splitlines()[0]
    return int(line.removeprefix("rchar: "))


main(json.loads(Path(sys.argv[1]).read_text()))
