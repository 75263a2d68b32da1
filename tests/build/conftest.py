"""An output directory that a run may begin in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.build.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace(tmp_path)
    found.make()
    return found
