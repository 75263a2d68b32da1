"""What the cost model says of staging ImageNet on machines of 4 to 1536 nodes.

``python -m benchmarks.staging_simulated`` prints it as the table of docs/performance.md; nothing is
measured here. `staging_nodes` measures whether the model holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.results import Row
from benchmarks.staging_model import Estimates, Machine, Mode, estimate

NODES = (4, 16, 64, 256, 1024, 1536)


@dataclass(frozen=True)
class DataSet:
    """What is staged.

    Attributes:
        name: what the table calls it.
        bytes: of all its files.
        files: how many, all of one size.
        stripes: over how many storage targets a file is spread.
    """

    name: str
    bytes: int
    files: int
    stripes: int = 1


DATA_SETS = (
    DataSet("TFRecord, 148 GB in 1024 shards of 1 stripe", 148_000_000_000, 1024),
    DataSet("LMDB, one file of 42 GB in 1 stripe", 42_000_000_000, 1),
    DataSet("LMDB, one file of 42 GB in 64 stripes", 42_000_000_000, 1, 64),
)


def rows() -> list[Row]:
    """A row for every data set and number of nodes."""
    return [
        Row(f"simulated: {data.name}, {nodes} nodes", _in_one_line(found))
        for data in DATA_SETS
        for nodes, found in simulated(data)
    ]


def simulated(data: DataSet) -> Iterator[tuple[int, Estimates]]:
    """Estimates for every number of nodes; too few files are not shared."""
    machine = Machine(stripes=data.stripes)
    for nodes in NODES:
        few = "" if data.files >= nodes else "impossible: there are fewer files than nodes"
        part = data.bytes / nodes
        yield nodes, estimate(data.bytes, data.bytes // data.files, nodes, machine, part, few)


def markdown() -> str:
    """A table for every data set."""
    lines = []
    for data in DATA_SETS:
        lines += [f"| {data.name} | everything | share | broadcast |", "| --- | --- | --- | --- |"]
        for nodes, found in simulated(data):
            chosen = found.choose()
            cells = [
                f"**{text}**" if chosen is not None and mode == chosen.mode else text
                for mode, text in _cells(found).items()
            ]
            lines.append(f"| {nodes} nodes | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _in_one_line(found: Estimates) -> str:
    chosen = found.choose()
    best = f" -> {chosen.mode}" if chosen is not None else ""
    return "; ".join(f"{mode} {text}" for mode, text in _cells(found).items()) + best


def _cells(found: Estimates) -> dict[Mode, str]:
    """Seconds and their reason of every mode; a dash for one that cannot be."""
    return {
        each.mode: "-" if each.obstacle else f"{_duration(each.seconds)}, {each.limit}"
        for each in (found.everything, found.share, found.broadcast)
    }


def _duration(seconds: float) -> str:
    """At most three digits, or seconds to the unit."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds:,.0f} s"


if __name__ == "__main__":
    print(markdown(), end="")
