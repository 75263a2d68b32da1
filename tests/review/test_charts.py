"""What is written on the axes of a report's charts."""

from __future__ import annotations

import re
from html import unescape
from math import exp, log

import pytest

from dataprep.review.facts import Histogram
from dataprep.review.report import bars, descending

pytest.importorskip("matplotlib", reason="needs the extra report")


def texts(svg: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<text [^>]*>([^<]*)</text>", svg)]


def measured(low: float, high: float) -> list[str]:
    """What stands below a scale that grows from one to the other."""
    edges = tuple(exp(log(low) + (log(high) - log(low)) * number / 40) for number in range(41))
    found = texts(bars(Histogram("sizes", edges, (1,) * 40, growing=True)))
    return found[: found.index("sizes")]


@pytest.mark.parametrize(
    ("low", "high", "there"),
    [
        (0.15, 7, {"0.2", "0.5", "1", "2", "5"}),
        (0.01, 40, {"0.01", "0.1", "1", "10"}),
        (40, 3500, {"50", "100", "200", "500", "1,000", "2,000"}),
        (9_000, 6e6, {"10k", "100k", "1M"}),
        (480, 530, {"480", "500", "520"}),
        (0.98, 1.03, {"0.98", "1", "1.02"}),
    ],
)
def test_scales_have_numbers_as_people_write_them(low: float, high: float, there: set[str]) -> None:
    found = measured(low, high)
    assert there <= {*found}
    assert len(found) <= 8  # each has room
    assert not any(text.endswith("m") for text in found)


def test_few_classes_have_their_names_and_many_a_scale() -> None:
    odd = ["$a^2$", "<b>", "\u4e2d\u6587", "cat & dog"]
    found = texts(descending([(number, name) for number, name in enumerate(odd)]))
    assert found[: len(odd)] == odd[::-1]  # the largest first
    many = texts(descending([(3, f"name {number}") for number in range(100)]))
    assert not any(text.startswith("name") for text in many)
