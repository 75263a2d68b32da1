"""One row of the table: what was compared, both sides, the ratio, the target, whether met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

TOO_SHORT = "too short to tell"


@dataclass(frozen=True)
class Target:
    """What section 9 of the issue asks for.

    Attributes:
        kind: whether more or less is better.
        limit: the number itself.
        unit: printed behind it: `` x``, `` s``, `` GiB``.
        text: how to print it instead.
    """

    kind: Literal[">=", "<="]
    limit: float
    unit: str = " x"
    text: str = ""

    def met_by(self, value: float) -> bool:
        """Whether a value is on the right side of the limit."""
        return value >= self.limit if self.kind == ">=" else value <= self.limit

    def __str__(self) -> str:
        return self.text or f"{self.kind} {self.limit:g}{self.unit}"


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what is measured.
        ours: dataprep's figure.
        theirs: the other side's figure, if there is another side.
        values: what the target is about, one a pair: ratios, seconds, bytes in GiB.
        is_ratio: whether `values` are ratios and go into the ratio column.
        target: what they should be; None for a row that only informs.
        problem: why there are no figures.
    """

    what: str
    ours: str = ""
    theirs: str = ""
    values: tuple[float, ...] = ()
    is_ratio: bool = True
    target: Target | None = None
    problem: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the median meets the target; None without a target or a usable figure."""
        if self.target is None or not self.values or math.isnan(median(self.values)):
            return None
        return self.target.met_by(median(self.values))

    @property
    def ratio(self) -> str:
        """Median of the pairs, and their range if there is more than one."""
        if not self.is_ratio or not self.values:
            return ""
        if any(map(math.isnan, self.values)):
            return TOO_SHORT
        text = f"{median(self.values):.2f}"
        if len(self.values) > 1:
            text += f" ({min(self.values):.2f}-{max(self.values):.2f})"
        return text


def compared(
    what: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    target: Target | None = None,
    factor: int = 1,
) -> Row:
    """A row of two speeds in images a second, measured in pairs.

    Args:
        what: what is measured.
        ours: dataprep's speeds.
        theirs: the other side's, in the same order.
        target: what the ratio should be.
        factor: what to multiply their speed with, such as the number of cores.
    """
    pairs = list(zip(ours, theirs, strict=True))
    text = _speed(theirs) if factor == 1 else f"{factor} x {_speed(theirs)}"
    ratios = tuple(our / (factor * their) for our, their in pairs)
    return Row(what, _speed(ours), text, ratios, target=target)


def _speed(values: Sequence[float]) -> str:
    middle = median(values)
    return "?" if math.isnan(middle) else f"{middle:,.0f} images/s"
