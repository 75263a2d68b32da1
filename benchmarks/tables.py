"""The tables: what was compared, both sides, the ratio, the target, whether it was met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.measure import Speed

_HEADINGS = ("what", "ours", "theirs", "ratio", "target", "met?")
_LEGEND = (
    "*steady*: each further image, from two sizes; *whole command*: start-up included. *ratio*: "
    "ours over theirs, median of the rounds (smallest-largest)."
)


@dataclass(frozen=True)
class Target:
    """What a figure should be.

    Attributes:
        kind: whether more or less is better.
        limit: the number itself.
        unit: printed behind it: `` x``, `` s``, `` GiB``.
    """

    kind: Literal[">=", "<="]
    limit: float
    unit: str = " x"

    def met_by(self, value: float) -> bool:
        """Whether a value is on the right side of the limit."""
        return value >= self.limit if self.kind == ">=" else value <= self.limit

    def __str__(self) -> str:
        return f"{self.kind} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        what: what is measured.
        ours: dataprep's figure.
        theirs: the other side's figure, if there is another side.
        values: what the target is about, one a round: ratios, or figures of one side alone.
        target: what they should be; None for a row that only informs.
        problem: why there are no figures.
    """

    what: str
    ours: str = ""
    theirs: str = ""
    values: tuple[float, ...] = ()
    target: Target | None = None
    problem: str = ""

    def cells(self, *, judged: bool) -> tuple[str, ...]:
        """The row's text; without a verdict unless it is to be judged."""
        ratio = met = ""
        if self.theirs and self.values:
            ratio = f"{median(self.values):.2f}"
            if len(self.values) > 1:
                ratio += f" ({min(self.values):.2f}-{max(self.values):.2f})"
        if any(map(math.isnan, self.values)):
            ratio = "too short to tell"
        elif judged and self.target and self.values:
            met = "yes" if self.target.met_by(median(self.values)) else "NO"
        return self.what, self.ours, self.theirs, ratio, str(self.target or ""), met


def table(title: str, rows: Sequence[Row], *, judged: bool) -> str:
    """Markdown, with columns as wide as they must be, and then what could not run."""
    lines = [_HEADINGS, *(row.cells(judged=judged) for row in rows if not row.problem)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    shown = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    ]
    missing = [f"- not run: {row.what}: {row.problem}" for row in rows if row.problem]
    return "\n".join([f"## {title}", "", *shown, "", *missing, _LEGEND, ""])


def compared(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    target: Target | None = None,
    factor: int = 1,
    unit: str = "images/s",
) -> Row:
    """A row of two figures, such as speeds in images a second, measured in rounds.

    Args:
        what: what is measured.
        ours: dataprep's figures.
        theirs: the other side's, in the same order.
        target: what the ratio should be.
        factor: what to multiply their figure with, such as the number of cores.
        unit: of both.
    """
    text = f"{'' if factor == 1 else f'{factor} x '}{_number(theirs)} {unit}"
    ratios = tuple(our / (factor * their) for our, their in zip(ours, theirs, strict=True))
    return Row(what, f"{_number(ours)} {unit}", text, ratios, target)


def beside(
    what: str,
    ours: Sequence[Speed],
    theirs: Sequence[Speed],
    *,
    whole: str,
    target: Target | None = None,
    whole_target: Target | None = None,
) -> list[Row]:
    """Two rows, steady and whole command, with images a CPU-second.

    Args:
        what: what is compared.
        ours: dataprep's speeds, one a round.
        theirs: the other side's, in the same order.
        whole: what the whole command is, such as ``4,000 images``.
        target: what the ratio of the steady speeds should be.
        whole_target: what that of the whole commands should be.
    """
    pairs = list(zip(ours, theirs, strict=True))
    steady = tuple(our.steady / their.steady for our, their in pairs)
    wholes = tuple(our.whole / their.whole for our, their in pairs)
    what_whole = f"{what}; whole command, {whole}"
    return [
        Row(f"{what}; steady", _steady(ours), _steady(theirs), steady, target),
        Row(what_whole, _whole(ours), _whole(theirs), wholes, whole_target),
    ]


def figure(what: str, values: Sequence[float], unit: str, target: Target | None = None) -> Row:
    """A row of one side alone: the median of its figures."""
    return Row(what, f"{_number(values)} {unit}", values=tuple(values), target=target)


def _steady(speeds: Sequence[Speed]) -> str:
    wall, processor = zip(*((one.steady, one.steady_per_cpu) for one in speeds), strict=True)
    return f"{_number(wall)} images/s, {_number(processor)} a CPU-second"


def _whole(speeds: Sequence[Speed]) -> str:
    wall, processor = zip(*((one.whole, one.whole_per_cpu) for one in speeds), strict=True)
    return f"{_number(wall)} images/s, {_number(processor)} a CPU-second"


def _number(values: Sequence[float]) -> str:
    """The median with three digits that say something."""
    middle = median(values)
    if math.isnan(middle):
        return "?"
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    return f"{middle:,.{digits}f}"
