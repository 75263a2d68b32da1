"""The tables: what was compared, both sides, the ratio, the target, whether it was met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.measure import Speed, Usage

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
            ratio = spread(self.values)
        if any(map(math.isnan, self.values)):
            ratio = "too short to tell"
        elif judged and self.target and self.values:
            met = "yes" if self.target.met_by(median(self.values)) else "NO"
        return self.what, self.ours, self.theirs, ratio, str(self.target or ""), met


@dataclass(frozen=True)
class Sheet:
    """A table of its own, before that of the rows; its first line are the headings."""

    lines: Sequence[tuple[str, ...]]


def table(title: str, answer: Sequence[Row | Sheet], *, judged: bool) -> str:
    """Markdown: sheets, rows, and then what could not run."""
    rows = [one for one in answer if isinstance(one, Row)]
    shown = [_markdown(one.lines) for one in answer if isinstance(one, Sheet)]
    cells = [row.cells(judged=judged) for row in rows if not row.problem]
    shown.append(_markdown([_HEADINGS, *cells]))
    missing = [f"- not run: {row.what}: {row.problem}" for row in rows if row.problem]
    return "\n".join([f"## {title}", "", *shown, *missing, _LEGEND, ""])


def _markdown(lines: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as they must be."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    ruled = [lines[0], tuple("-" * width for width in widths), *lines[1:]]
    padded = [map(str.ljust, line, widths) for line in ruled]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in padded)


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
    text = f"{'' if factor == 1 else f'{factor} x '}{number(theirs)} {unit}"
    ratios = tuple(our / (factor * their) for our, their in zip(ours, theirs, strict=True))
    return Row(what, f"{number(ours)} {unit}", text, ratios, target)


def beside(
    what: str,
    ours: Sequence[Speed],
    theirs: Sequence[Speed],
    *,
    whole: str,
    target: Target | None = None,
    whole_target: Target | None = None,
) -> list[Row]:
    """Two rows, of steady speeds and of whole commands, which are ``whole``: ``4,000 images``."""
    kinds = (("steady", "steady", target), ("whole", f"whole command, {whole}", whole_target))
    return [
        compared(
            f"{what}; {text}",
            [getattr(speed, kind) for speed in ours],
            [getattr(speed, kind) for speed in theirs],
            target=aim,
        )
        for kind, text, aim in kinds
    ]


def faster(what: str, ours: Sequence[Usage], theirs: Sequence[Usage], target: Target) -> Row:
    """A row of seconds, whose ratio is of speeds."""

    def text(side: Sequence[Usage]) -> str:
        wall = median(usage.seconds for usage in side)
        return f"{wall:.2f} s, {median(usage.cpu_seconds for usage in side):.2f} CPU-s"

    ratios = tuple(their.seconds / our.seconds for our, their in zip(ours, theirs, strict=True))
    return Row(what, text(ours), text(theirs), ratios, target)


def figure(what: str, values: Sequence[float], unit: str, target: Target | None = None) -> Row:
    """A row of one side alone: the median of its figures."""
    return Row(what, f"{number(values)} {unit}", values=tuple(values), target=target)


def number(values: Sequence[float]) -> str:
    """The median with three digits that say something."""
    middle = median(values)
    if math.isnan(middle):
        return "?"
    digits = 0 if middle >= 100 else 1 if middle >= 10 else 2
    return f"{middle:,.{digits}f}"


def spread(values: Sequence[float]) -> str:
    """The median, and in brackets the smallest and largest."""
    text = f"{median(values):.2f}"
    return text if len(values) == 1 else f"{text} ({min(values):.2f}-{max(values):.2f})"
