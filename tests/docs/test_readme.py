"""The README is short, and its session is what the program prints; every format is explained."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from dataprep.cli import main
from dataprep.plugins import DATASETS, SINKS, installed, load_sink
from dataprep_schemas import imagenet_classes
from tests.docs.pages import DOCS, README, said


def known(key: str) -> int:
    """The class of a training image, which its name begins with."""
    return [synset for synset, _ in imagenet_classes()].index(Path(key).name.split("_")[0])


def without_sizes(text: str) -> str:
    """Sizes depend on the versions of numpy and of the JPEG encoder; nothing else may."""
    return re.sub(r"[\d,.]+ (MB|KB|bytes)", r"# \1", text)


@pytest.mark.thorough
def test_the_session_is_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = list(said(r"^\$ (dataprep .*)\n((?:(?!\$ |```).*\n)*)", README))
    assert len(steps) == 3
    for place, step in steps:
        assert main(shlex.split(step[1])[1:]) == 0, place
        printed = capsys.readouterr().out
        assert without_sizes(printed) == without_sizes(step[2]), place


def test_it_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


@pytest.mark.parametrize("name", installed(SINKS))
def test_a_sink_is_in_the_table_and_loads(name: str) -> None:
    row = said(rf"^\| (`[\w-]+`, )*`{name}`(, `[\w-]+`)* \|", DOCS / "formats.md")
    assert list(row), f"docs/formats.md: no row for the sink {name}"
    assert load_sink(name).name == name


def test_data_sets_are_installed() -> None:
    assert installed(DATASETS)
