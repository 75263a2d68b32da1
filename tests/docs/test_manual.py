"""``man dataprep`` is a page that man can show, whole."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from dataprep.cli import _COMMANDS, _DATASETS
from tests.docs.pages import DOCS


@pytest.mark.parametrize(
    "program",
    [("man", "--warnings", "-l"), ("groff", "-man", "-Tutf8", "-ww", "-rLL=80n")],
    ids=lambda it: it[0],
)
def test_the_manual_renders_without_a_warning(program: tuple[str, ...]) -> None:
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    done = subprocess.run(
        [*program, DOCS / "dataprep.1"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
    )
    assert done.stderr == ""
    shown = re.sub(".\b", "", done.stdout)  # bold letters are written twice
    for name in (*_DATASETS, *_COMMANDS):
        assert f"dataprep {name}" in shown
    assert "/etc/dataprep.toml" in shown
