"""``python -m benchmarks.plot``: draws docs/performance.svg from the first table of performance.md.

Each row that has a ratio of speeds, the bold ``1.82 x``, is a bar; so the plot says what the table
says, and the same table gives the same bytes. Needs matplotlib (the extra ``report``). The picture
has a ground of its own, since a page may be light or dark.
"""

from __future__ import annotations

import re
from textwrap import fill

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.measure import ROOT

_PAGE, _PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.svg"
_ROW = re.compile(r"^\| ([^|]+) \| \*\*([\d.]+) x\*\*", re.MULTILINE)
_GROUND, _INK, _FASTER, _SLOWER = "#f7f7f5", "#1f2328", "#2a6f97", "#c2571a"


def main() -> None:
    """Draw it."""
    first_table = _PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    rows = [(text.replace("`", ""), float(ratio)) for text, ratio in _ROW.findall(first_table)]
    labels = [fill(text, 44) for text, _ in rows]
    ratios = [ratio for _, ratio in rows]
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dataprep", "text.color": _INK})
    figure = Figure(figsize=(9, 0.62 * len(rows) + 0.9), layout="constrained", facecolor=_GROUND)
    axes = figure.add_subplot(facecolor=_GROUND)
    colors = [_FASTER if ratio >= 1 else _SLOWER for ratio in ratios]
    bars = axes.barh(labels, [ratio - 1 for ratio in ratios], left=1, color=colors, height=0.6)
    for bar, ratio in zip(bars, ratios, strict=True):
        beyond, side = (4, "left") if ratio >= 1 else (-4, "right")
        axes.annotate(
            f"{ratio:.2f} x",
            (ratio, bar.get_y() + bar.get_height() / 2),
            (beyond, 0),
            textcoords="offset points",
            va="center",
            ha=side,
        )
    axes.axvline(1, color=_INK, linewidth=1)
    axes.invert_yaxis()
    axes.set_xlim(min(0.5, *ratios) - 0.3, max(ratios) + 0.4)
    axes.set_title("How fast dataprep is: 1 x is as fast as the other side", fontsize=11, pad=10)
    axes.tick_params(colors=_INK, left=False)
    axes.spines[:].set_visible(False)
    figure.savefig(_PICTURE, facecolor=_GROUND, metadata={"Date": None})


if __name__ == "__main__":
    main()
