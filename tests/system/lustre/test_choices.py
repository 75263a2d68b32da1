"""Layouts that somebody chose before: which are taken for such, and that they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.system.lustre.lfs import Lfs, find_lfs
from dataprep.system.lustre.rules import MIB, Component, Layout, Striping
from dataprep.system.lustre.striping import Expected, Plan, plan_directories
from tests.system.lustre.lustre import Lustre, make_lustre

CHOSEN = Layout((Component(8, 4 * MIB),))
RULE = Layout((Component(1, 4 * MIB),))


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    return make_lustre(tmp_path, monkeypatch)


def plan(lustre: Lustre, chosen: str, planned: str, **asked: bool) -> Plan:
    """What is planned for one directory after another got its layout."""
    lfs = find_lfs(lustre.mount)
    (lustre.mount / chosen).mkdir(parents=True, exist_ok=True)
    lfs.set_layout(lustre.mount / chosen, CHOSEN)
    (lustre.mount / planned).mkdir(parents=True, exist_ok=True)
    directory = Expected(lustre.mount / planned, 0)
    (found,) = plan_directories(lfs, [directory], Striping(**asked))
    return found


@pytest.mark.parametrize("planned", ["a/out", "a/out/train"])
def test_a_directory_s_own_layout_and_one_from_above_are_kept(lustre: Lustre, planned: str) -> None:
    found = plan(lustre, "a/out", planned)
    assert (found.asked, found.current, found.rule) == (None, CHOSEN, RULE)
    assert not found.changes


@pytest.mark.parametrize("chosen", ["", "b"])
def test_the_file_system_s_default_and_others_layouts_are_not(lustre: Lustre, chosen: str) -> None:
    found = plan(lustre, chosen, "a/out")
    assert (found.asked, found.rule) == (RULE, None)


def test_whoever_asks_gets_the_rule(lustre: Lustre) -> None:
    assert plan(lustre, "a", "a", asked=True).asked == RULE


def test_a_mount_point_that_may_not_be_read_is_no_answer(
    lustre: Lustre, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Lfs.layout_of
    monkeypatch.setattr(
        Lfs, "layout_of", lambda lfs, path: None if path == lustre.mount else real(lfs, path)
    )
    assert plan(lustre, "a/out", "a/out").asked is None
