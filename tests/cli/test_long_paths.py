"""A path that is too long for the file system, wherever a command takes one, is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Made

LONG = "x" * 300
OUTS = ("status", "inspect", "verify", "lint", "card", "report", "preview", "compact")
PLACES = (
    *((name, LONG) for name in OUTS),
    ("diff", "OUT", LONG),
    ("report", "OUT", "--to", LONG),
    ("card", "OUT", "--rai", LONG),
    ("lint", "OUT", "--write_exclude", LONG),
    ("stage", LONG, "--to", "to"),
    ("stage", "OUT", "--to", LONG),
    ("convert", LONG, "--to", "to", "--sink", "lmdb"),
    ("convert", "OUT", "--to", LONG, "--sink", "lmdb"),
    ("imagenet", "--raw", LONG, "--out", "to"),
    ("imagenet", "--raw", "RAW", "--out", LONG),
    ("imagenet", "--raw", "RAW", "--out", "to", "--index_dir", LONG),
    ("imagenet", "--raw", "RAW", "--out", "to", "--exclude", LONG),
    ("synthesize", "imagenet", LONG),
)


@pytest.mark.parametrize("words", PLACES, ids=lambda words: " ".join(words).replace(LONG, "LONG"))
def test_it_is_named(
    words: tuple[str, ...],
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"OUT": tiny.out, "RAW": tiny.raw.path}
    result = cli(*(places.get(word, word) for word in words))
    assert result.code
    assert "File name too long" in result.error
    assert "unexpected" not in result.error
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_report_that_cannot_be_written_is_said_first(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    result = cli("report", tiny.out, "--to", tmp_path / "nowhere" / "page.html")
    assert result.code == 2
    assert "page.html cannot be written; choose a file in a directory of yours" in result.error


def test_a_manifest_of_something_else_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    for name in ("report", "status", "verify"):
        error = cli(name, tmp_path).error
        assert "manifest.json is not dataprep's; give a directory that dataprep made" in error
