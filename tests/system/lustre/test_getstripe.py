"""What `lfs` prints, read: samples of real sites and versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.system.lustre.rules import GIB, MIB, Component, Layout
from dataprep.system.lustre.striping import count_targets, parse_layout

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


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    parse_layout(text)
    count_targets(text)


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
