"""The line that docs/commands.md gives makes a shell complete commands and options."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, said

# What a shell does when the tab key is pressed.
_TAB = """
COMP_WORDS=({words}) COMP_CWORD={number} COMPREPLY=()
_dataprep_completion dataprep
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
TYPED = {
    "dataprep ver": "verify",
    "dataprep imagenet --num": "--num_shards",
    "dataprep imagenet --shuffle g": "global",
}


def test_bash_completes_after_the_documented_line(tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "dataprep"
    program.write_text(
        f"#!{sys.executable}\nfrom dataprep_pipelines.console import entry_point\n"
        "raise SystemExit(entry_point())\n"
    )
    program.chmod(0o755)
    ((_, line),) = said(r"after `(eval .*)`;", DOCS / "commands.md")
    tabs = [_TAB.format(words=words, number=words.count(" ")) for words in TYPED]
    done = subprocess.run(
        ["bash", "--norc", "-c", "".join([line[1], *tabs])],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert (done.stdout.split(), done.stderr) == ([*TYPED.values()], "")
