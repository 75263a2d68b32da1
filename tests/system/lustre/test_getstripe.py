"""What `lfs` prints, read: samples of real sites and versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.system.lustre.lfs import count_targets, parse_layout
from dataprep.system.lustre.rules import GIB, MIB, Component, Layout

# LUMI's and CSC's documentation.
_FILE = """my_file
lmm_stripe_count:  2
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 11
    obdidx         objid        objid         group
        11      29921659    0x1c8917b             0
        13      29921660    0x1c8917c             0
"""
_POOL = """lmm_stripe_count:  4
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 0
lmm_pool:          flash
"""
_DIRECTORY = "stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1\n"
_OLDER = "stripe_count:  -1 stripe_size:   1048576 stripe_offset:  -1 pool: flash\n"

_PARTS = (
    Component(1, MIB, 256 * MIB),
    Component(4, MIB, 4 * GIB),
    Component(-1, 4 * MIB),
)
# Lustre's manual, before 2.16: `lfs getstripe -y`.
_OLD_YAML = """  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   3
  component0:
    lcme_id:             1
    lcme_mirror_id:      0
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   268435456
    sub_layout:
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: 0
      lmm_objects:
      - l_ost_idx: 0
        l_fid:     0x100000000:0x2:0x0

  component1:
    lcme_id:             2
    lcme_mirror_id:      0
    lcme_flags:          0
    lcme_extent.e_start: 268435456
    lcme_extent.e_end:   4294967296
    sub_layout:
      lmm_stripe_count:  4
      lmm_stripe_size:   1048576
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1

  component2:
    lcme_id:             3
    lcme_mirror_id:      0
    lcme_flags:          0
    lcme_extent.e_start: 4294967296
    lcme_extent.e_end:   EOF
    sub_layout:
      lmm_stripe_count:  -1
      lmm_stripe_size:   4194304
      lmm_pattern:       raid0
      lmm_layout_gen:    0
      lmm_stripe_offset: -1
"""
_NEW_YAML = _OLD_YAML.replace("  component0:\n    lcme_id", "  components:\n  - lcme_id")
for _number in (1, 2):
    _NEW_YAML = _NEW_YAML.replace(f"  component{_number}:\n    lcme_id", "  - lcme_id")
# A directory's, without --yaml.
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
        (_FILE, Layout((Component(2, MIB),))),
        (_POOL, Layout((Component(4, 4 * MIB, None, "flash"),))),
        (_DIRECTORY, Layout((Component(1, MIB),))),
        (_DIRECTORY.replace(" raid0", " 0"), Layout((Component(1, MIB),))),
        (_OLDER, Layout((Component(-1, MIB, None, "flash"),))),
        (_OLD_YAML, Layout(_PARTS, composite=True)),
        (_NEW_YAML, Layout(_PARTS, composite=True)),
        (_LINES, Layout(_PARTS, composite=True)),
        ("lcm_entry_count: 1\n" + _DIRECTORY, Layout((Component(1, MIB),), composite=True)),
        (
            _SELF_EXTENDING,
            Layout(
                (Component(0, MIB, MIB), Component(1, MIB, GIB), Component(0, 64 * MIB)),
                composite=True,
            ),
        ),
        ("", None),
        ("stripe_count: 1\n", None),
        ("stripe_count: one stripe_size: 1048576\n", None),
        ("my_stripe_count: 1 my_stripe_size: 1048576\n", None),
    ],
    ids=[
        *("file", "pool", "directory", "2.10", "2.5", "old-yaml", "new-yaml", "lines", "single"),
        *("self-extending", "nothing", "half", "words", "others"),
    ],
)
def test_layouts_of_every_form(text: str, layout: Layout | None) -> None:
    assert parse_layout(text) == layout


def test_both_yaml_forms_are_yaml() -> None:
    """Our samples, so that they are not samples of our mistakes."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    old, new = yaml.safe_load(_OLD_YAML), yaml.safe_load(_NEW_YAML)
    assert [old[f"component{number}"] for number in range(3)] == new["components"]


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
