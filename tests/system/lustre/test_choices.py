"""Layouts that somebody chose before: which are taken for such, and that they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.system.lustre.rules import MIB, Component, Striping
from dataprep.system.lustre.striping import Plan, plan_directories
from tests.system.lustre.lustre import Lustre, layout, make_lustre

CHOSEN = (Component(8, 4 * MIB),)


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    return make_lustre(tmp_path, monkeypatch)


def plan(lustre: Lustre, chosen: str, planned: str, **asked: bool) -> Plan:
    """What is planned for one directory after another got its layout."""
    lustre.set(layouts={str(lustre.mount / chosen): layout((8, 4 * MIB, None, ""))})
    (lustre.mount / planned).mkdir(parents=True, exist_ok=True)
    (found,) = plan_directories({lustre.mount / planned: 0}, Striping(**asked))
    return found


@pytest.mark.parametrize("planned", ["a/out", "a/out/train"])
def test_a_directory_s_own_layout_and_one_from_above_are_kept(lustre: Lustre, planned: str) -> None:
    found = plan(lustre, "a/out", planned)
    assert (found.kept, found.current) == (True, CHOSEN)
    assert not found.changes


@pytest.mark.parametrize("chosen", ["", "b"])
def test_the_file_system_s_default_and_others_layouts_are_not(lustre: Lustre, chosen: str) -> None:
    assert plan(lustre, chosen, "a/out").changes


def test_whoever_asks_gets_the_rule(lustre: Lustre) -> None:
    assert plan(lustre, "a", "a", asked=True).changes
