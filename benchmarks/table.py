"""The table in its three forms: text for terminals, Markdown for documents, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.results import Row

_HEADINGS = ("what", "ours", "theirs", "ratio", "target", "met?")


def text(rows: Sequence[Row], machine: Mapping[str, str], *, judged: bool) -> str:
    """Columns as wide as they must be, then what could not run, then the machine.

    Args:
        rows: what was measured.
        machine: what it was measured on.
        judged: whether to compare with the targets.
    """
    lines = [_HEADINGS, *(_cells(row, judged) for row in rows if not row.problem)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    shown = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    shown.insert(1, "  ".join("-" * width for width in widths))
    missing = [f"not run: {row.what}: {row.problem}" for row in rows if row.problem]
    described = [f"{name}: {value}" for name, value in machine.items()]
    return "\n".join([*shown, "", _LEGEND, "", *missing, *([""] if missing else []), *described])


def markdown(rows: Sequence[Row], machine: Mapping[str, str], *, judged: bool) -> str:
    """The same for a document."""
    lines = [
        f"| {' | '.join(_HEADINGS)} |",
        f"|{' --- |' * len(_HEADINGS)}",
        *(f"| {' | '.join(_cells(row, judged))} |" for row in rows if not row.problem),
        "",
        _LEGEND,
        "",
        *(f"- not run: {row.what}: {row.problem}" for row in rows if row.problem),
        *(f"- {name}: {value}" for name, value in machine.items()),
    ]
    return "\n".join(lines) + "\n"


def to_json(rows: Sequence[Row], machine: Mapping[str, str], *, judged: bool) -> str:
    """The same with every single value."""
    measured = [
        {
            **asdict(row),
            "values": [None if math.isnan(value) else value for value in row.values],
            "target": str(row.target) if row.target else None,
            "met": row.met if judged else None,
        }
        for row in rows
    ]
    return json.dumps({"machine": dict(machine), "rows": measured}, indent=1) + "\n"


def _cells(row: Row, judged: bool) -> tuple[str, ...]:
    met = {True: "yes", False: "NO", None: ""}[row.met if judged else None]
    return row.what, row.ours, row.theirs, row.ratio, str(row.target or ""), met


_LEGEND = (
    "steady: each further image, from two sizes. whole command: start-up included. "
    "ratio: ours / theirs, median of the pairs (smallest-largest)."
)
