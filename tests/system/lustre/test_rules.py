"""Which layout suits which files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.system.lustre.rules import (
    ALL_OSTS,
    GIB,
    MIB,
    Component,
    Layout,
    Striping,
    binary_size,
    described,
    is_in_force,
    stripes_for,
    wanted_layout,
)

limits = st.none() | st.integers(1, 2000)


@pytest.mark.parametrize(
    ("size", "stripes"),
    [
        (0, 1),
        (150_000_000, 1),
        (GIB - 1, 1),
        (GIB, 2),
        (4 * GIB - 1, 2),
        (4 * GIB, 3),
        (42_000_000_000, 7),
        (150_000_000_000, 12),
    ],
)
def test_stripes_grow_as_the_square_root(size: int, stripes: int) -> None:
    assert stripes_for(size) == stripes


@given(st.integers(0, 1 << 50), limits, limits, st.sampled_from(["auto", "pfl", 5, 2000, -1]))
def test_no_limit_is_ever_exceeded(
    size: int, most: int | None, osts: int | None, count: object
) -> None:
    layout = wanted_layout(Striping(count=count, most=most), size, osts)  # type: ignore[arg-type]
    for part in layout:
        assert part.count != 0
        assert most is None or 0 < part.count <= most
        if isinstance(count, str) and osts is not None:
            assert part.count <= osts
    *before, last = layout
    assert last.end is None
    assert all(part.end and part.end % part.size == 0 for part in before)


def plain(count: int, size: int = MIB, pool: str = "") -> Layout:
    return (Component(count, size, None, pool),)


@pytest.mark.parametrize(
    ("asked", "found", "osts", "same"),
    [
        (plain(4), plain(4), 16, True),
        (plain(4), plain(4), None, True),
        (plain(4), plain(3), 16, False),
        (plain(4), plain(4, 4 * MIB), 16, False),
        (plain(4), plain(4, MIB, "flash"), 16, True),
        (plain(4, MIB, "flash"), plain(4), 16, False),
        (plain(4, MIB, "flash"), plain(4, MIB, "disk"), 16, False),
        (plain(ALL_OSTS), plain(ALL_OSTS), 16, True),
        (plain(ALL_OSTS), plain(16), 16, True),
        (plain(ALL_OSTS), plain(8), 16, False),
        (plain(ALL_OSTS), plain(16), None, False),
        (plain(64), plain(16), 16, True),
        (plain(1), (Component(1, MIB, GIB), Component(1, MIB)), 16, False),
        (plain(1), None, 16, False),
    ],
)
def test_what_counts_as_the_layout_that_was_asked_for(
    asked: Layout, found: Layout | None, osts: int | None, same: bool
) -> None:
    assert is_in_force(asked, found, osts) is same


def test_layouts_are_told_in_words() -> None:
    assert described(plain(1)) == "1 stripe of 1 MiB"
    assert described(plain(-1, 64 << 10, "flash")) == (
        "stripes of 64 KiB on all targets in pool flash"
    )
    on_server = (Component(0, MIB, MIB), Component(2, MIB))
    assert described(on_server) == (
        "progressive: on the metadata server to 1 MiB, 2 stripes of 1 MiB to the end"
    )
    assert binary_size(1000) == "1,000 bytes"
    assert binary_size(0) == "0 bytes"
