"""What a report says in numbers, of tables that nobody has checked."""

from __future__ import annotations

from math import isfinite

import pyarrow as pa

from dataprep.review.facts import histograms
from dataprep.tables.database import open_database


def test_histograms_leave_out_what_is_no_measure() -> None:
    images = {
        "width": [0, 3, 9, -1],
        "height": [0, 4, 4, 5],
        "bytes": [-5, 9, 90, 0],
        "brightness": [float("nan"), 1.0, 2.0, float("inf")],
        "contrast": [float("nan")] * 4,
    }
    with open_database(None) as database:
        database.register("images", pa.table(images))
        found = {histogram.title: histogram for histogram in histograms(database)}
    assert "height in pixels" in found
    assert found["width in pixels"].counts == (1, *[0] * 38, 1)
    assert found["mean grey level"].counts == (1, *[0] * 38, 1)
    assert not any(title.startswith("contrast") for title in found)
    assert all(isfinite(edge) for histogram in found.values() for edge in histogram.edges)
