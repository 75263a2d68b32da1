"""A Lustre for the tests of this directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.lustre.lustre import Lustre, make_lustre


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lustre:
    return make_lustre(tmp_path, monkeypatch, processes=True)
