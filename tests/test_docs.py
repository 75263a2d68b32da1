"""What the documentation says is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dataprep.cli import main
from dataprep.plugins import DATASETS, SINKS, installed, load_sink
from tests.regenerate_docs import PAGE, page

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_page_is_the_help() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.regenerate_docs"


def session() -> list[tuple[list[str], list[str]]]:
    """The README's first terminal session: each command's words, and what it prints."""
    block = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert block is not None
    steps: list[tuple[list[str], list[str]]] = []
    for line in block.group(1).splitlines():
        if line.startswith("$ "):
            steps.append((shlex.split(line[2:]), []))
        else:
            steps[-1][1].append(line)
    return steps


def without_sizes(text: str) -> str:
    """Sizes depend on the versions of numpy and of the JPEG encoder; nothing else may."""
    return re.sub(r"[\d,.]+ (MB|KB|bytes)", r"# \1", text)


def test_the_readme_session_is_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, expected in session():
        assert words[0] == "dataprep"
        assert main(words[1:]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert [without_sizes(line) for line in printed] == [
            without_sizes(line) for line in expected
        ]


def test_every_sink_is_in_the_readme_and_loads() -> None:
    assert installed(DATASETS)
    for name in installed(SINKS):
        assert f"| `{name}` |" in README
        assert load_sink(name).name == name


def test_links_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for source in pages:
        for target in re.findall(r"\]\((?!http)([^)#]+)", source.read_text(encoding="utf-8")):
            assert (source.parent / target).exists(), f"{source.name} links to {target}"


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
