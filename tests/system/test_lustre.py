"""Layouts on Lustre: the rules, what `lfs` prints of them, and those that somebody chose before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.system.lustre import (
    ALL_OSTS,
    GIB,
    MIB,
    Component,
    Layout,
    Striping,
    count_targets,
    described,
    is_in_force,
    parse_layout,
    plan_directories,
)
from tests.system.lustre.lustre import layout, make_lustre

# --- the rules ---


@pytest.mark.parametrize(
    ("size", "stripes"),
    [(0, 1), (GIB - 1, 1), (GIB, 2), (4 * GIB - 1, 2), (4 * GIB, 3), (150_000_000_000, 12)],
)
def test_stripes_grow_as_the_square_root(size: int, stripes: int) -> None:
    assert Striping().layout(size, None) == Component(stripes, 4 * MIB)


@given(st.integers(0, 1 << 50), st.none() | st.integers(1, 2000))
def test_the_rule_never_gives_more_stripes_than_there_are_targets(
    size: int, osts: int | None
) -> None:
    assert 0 < Striping().layout(size, osts).count <= (osts or 1 << 30)


def plain(count: int, size: int = MIB, pool: str = "") -> Component:
    return Component(count, size, None, pool)


@pytest.mark.parametrize(
    ("asked", "found", "osts", "same"),
    [
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
    ],
)
def test_what_counts_as_the_layout_that_was_asked_for(
    asked: Component, found: Component, osts: int | None, *, same: bool
) -> None:
    assert is_in_force(asked, (found,), osts) is same
    assert not is_in_force(asked, (Component(4, MIB, GIB), found), osts)
    assert not is_in_force(asked, None, osts)


def test_layouts_are_told_in_words() -> None:
    assert str(plain(1)) == described((plain(1),)) == "1 stripe of 1 MiB"
    assert str(plain(-1, 64 << 10, "flash")) == "stripes of 64 KiB on all targets in pool flash"
    on_server = (Component(0, MIB, MIB), Component(2, MIB))
    assert described(on_server) == (
        "progressive: on the metadata server to 1 MiB, 2 stripes of 1 MiB to the end"
    )
    assert str(plain(1, 1000)) == "1 stripe of 1,000 bytes"


# --- what `lfs` prints: samples of real sites and versions ---

_DIRECTORY = "stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n"
_OLDER = "stripe_count:  -1 stripe_size:   1048576 stripe_offset:  -1 pool: flash\n"

_PARTS = (
    Component(1, MIB, 256 * MIB),
    Component(4, MIB, 4 * GIB),
    Component(-1, 4 * MIB),
)
_LINES = """  lcm_layout_gen:    0
  lcm_mirror_count:  1
  lcm_entry_count:   3
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 0
    lcme_extent.e_end:   268435456
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0    stripe_offset: -1
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 268435456
    lcme_extent.e_end:   4294967296
      stripe_count:  4       stripe_size:   1048576       pattern:       raid0    stripe_offset: -1
    lcme_id:             N/A
    lcme_mirror_id:      N/A
    lcme_flags:          0
    lcme_extent.e_start: 4294967296
    lcme_extent.e_end:   EOF
      stripe_count:  -1       stripe_size:   4194304       pattern:       raid0    stripe_offset: -1
"""
# The first part on the metadata server; a part that grows by itself has an extension size.
_SELF_EXTENDING = """  lcm_entry_count:   3
    lcme_extent.e_end:   1048576
      stripe_count:  0       stripe_size:   1048576       pattern:       mdt       stripe_offset: -1
    lcme_extent.e_end:   1073741824
      stripe_count:  1       stripe_size:   1048576       pattern:       raid0    stripe_offset: -1
    lcme_extent.e_end:   EOF
      stripe_count:  0       extension_size: 67108864       pattern:       raid0
"""


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        (_DIRECTORY, (Component(1, MIB),)),
        (_DIRECTORY.replace(" stripe", "\nstripe"), (Component(1, MIB),)),
        (_OLDER, (Component(-1, MIB, None, "flash"),)),
        (_LINES, _PARTS),
        (_SELF_EXTENDING, (Component(0, MIB, MIB), Component(1, MIB, GIB), Component(0, 64 * MIB))),
        ("", None),
        ("stripe_count: 1\n", None),
        ("stripe_count: one stripe_size: 1048576\n", None),
        ("my_stripe_count: 1 my_stripe_size: 1048576\n", None),
    ],
)
def test_layouts_of_every_form(text: str, layout: Layout | None) -> None:
    assert parse_layout(text) == layout


@given(
    st.lists(st.sampled_from([*_SELF_EXTENDING.split(), "stripe_size:", "-1", "\n", "9" * 5000]))
)
def test_whatever_is_printed_is_a_layout_or_none(words: list[str]) -> None:
    parse_layout(" ".join(words))
    count_targets(" ".join(words))


def test_the_table_of_targets() -> None:
    text = """UUID                   1K-blocks        Used   Available Use% Mounted on
testfs-MDT0000_UUID      4194304      391168     3803136   9% /mnt/testfs[MDT:0]
testfs-OST0000_UUID     10485760       32768    10452992   1% /mnt/testfs[OST:0]
testfs-OST0001_UUID     10485760       32768    10452992   1% /mnt/testfs[OST:1] f
testfs-OST0002_UUID     10485760       32768    10452992   1% /mnt/testfs[OST:2] D
testfs-OST0003_UUID     10485760    10485760           0 100% /mnt/testfs[OST:3] S
testfs-OST0004_UUID     10485760       32768    10452992   1% /mnt/testfs[OST:4] N
OST0005             : inactive device
testfs-OST000a_UUID     10485760       32768    10452992   1% /mnt/testfs[OST:10]

filesystem_summary:     62914560    10649600    52264960  17% /mnt/testfs
"""
    assert count_targets(text) == 4
    assert count_targets("df:/tmp Not a Lustre filesystem\n") is None


# --- layouts that somebody chose before ---


@pytest.mark.parametrize(
    ("chosen", "planned", "asked", "kept"),
    [
        ("a/out", "a/out", False, True),
        ("a/out", "a/out/train", False, True),  # one from above
        ("", "a/out", False, False),  # the file system's default
        ("b", "a/out", False, False),
        ("a", "a", True, False),  # whoever asks gets the rule
    ],
)
def test_what_was_chosen_is_kept_unless_another_is_asked_for(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
    planned: str,
    *,
    asked: bool,
    kept: bool,
) -> None:
    lustre = make_lustre(tmp_path, monkeypatch)
    lustre.set(layouts={str(lustre.mount / chosen): layout((8, 4 * MIB, None, ""))})
    (lustre.mount / planned).mkdir(parents=True, exist_ok=True)
    (found,) = plan_directories({lustre.mount / planned: 0}, Striping(asked=asked))
    assert (found.kept, found.changes) == (kept, not kept)
