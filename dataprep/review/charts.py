"""Charts as SVG that takes its colours from the page it is in.

Drawn by matplotlib: it is kept well, lays out axes and dates of any range without a browser, and
writes the same SVG for the same numbers when it is told to leave out the time. Its colours are
replaced by the page's variables, so that a chart is readable on dark paper, too.
"""

from __future__ import annotations

import hashlib
import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import MaxNLocator

    from dataprep.review.facts import Histogram

# Colours that nothing else has, and what the page calls them.
_INK, _FAINT, _FILL = "#010203", "#040506", "#070809"
_VARIABLES: Final = {_INK: "var(--ink)", _FAINT: "var(--line)", _FILL: "var(--accent)"}
_COLUMNS: Final = 1000  # a screen has no more
_STYLE: Final[Any] = {  # of names that only matplotlib knows
    "svg.fonttype": "none",  # text stays text: it can be found, and read aloud
    "svg.hashsalt": "dataprep",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.color": _INK,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def bars(measure: Histogram) -> str:
    """A histogram."""
    from matplotlib import ticker

    def draw(axes: Axes) -> None:
        axes.stairs(measure.counts, measure.edges, fill=True, color=_FILL)
        if measure.growing:
            axes.set_xscale("log")
            spread, units = measure.edges[-1] / measure.edges[0], ticker.EngFormatter(sep="")
            locator = ticker.LogLocator(subs=(1.0, 2.0, 5.0) if spread < 100 else (1.0,))
            few = ticker.MaxNLocator(5, steps=(1, 2, 5, 10))
            axes.xaxis.set_major_locator(few if spread < 10 else locator)
            axes.xaxis.set_major_formatter(lambda it, _: f"{it:,g}" if it < 10_000 else units(it))
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
        axes.set_xlabel(measure.title)
        axes.set_ylabel("images")

    return _drawn(draw, f"histogram: {measure.title}", width=4.2, height=2.1)


def descending(counts: Sequence[tuple[int, str]]) -> str:
    """Classes from the largest to the smallest, however many there are; few with their names."""
    largest = sorted(counts, key=lambda each: -each[0])
    ordered = [count for count, _ in largest]
    step = max(len(ordered) // _COLUMNS, 1)

    def draw(axes: Axes) -> None:
        shown = ordered[::step]
        edges = [number * step for number in range(len(shown) + 1)]
        axes.stairs(shown, edges, fill=True, color=_FILL)
        axes.set_ylim(0)
        axes.xaxis.set_major_locator(_whole_numbers())
        if len(ordered) <= 24:  # names have room
            places, names = [edge - 0.5 for edge in edges[1:]], [name for _, name in largest]
            axes.set_xticks(places, names, rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlabel("classes, largest first")
        axes.set_ylabel("images")

    return _drawn(draw, "images of each class, largest first", width=8.6, height=2.5)


def _whole_numbers() -> MaxNLocator:
    from matplotlib import ticker

    return ticker.MaxNLocator(nbins=5, integer=True)


def _drawn(draw: Callable[[Axes], None], name: str, *, width: float, height: float) -> str:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE), warnings.catch_warnings(action="ignore"):  # of rare letters
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.tick_params(length=3)
        axes.yaxis.set_major_locator(_whole_numbers())
        buffer = io.BytesIO()
        FigureCanvasSVG(figure).print_figure(
            buffer, format="svg", metadata={"Date": None, "Creator": None, "Title": name}
        )
    text = buffer.getvalue().decode()
    svg = text[text.index("<svg") :]
    for color, variable in _VARIABLES.items():
        svg = svg.replace(color, variable)
    # A page has several charts, and every name in it once.
    prefix = hashlib.sha256(name.encode()).hexdigest()[:8]
    svg = re.sub(r'(id="|url\(#|href="#)', rf"\g<1>c{prefix}-", svg)
    return svg.replace("<svg ", '<svg role="img" ', 1)
