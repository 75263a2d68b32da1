"""The README's session is what the program prints, and its table has every format."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dataprep.cli import main
from dataprep.plugins import DATASETS, SINKS, installed, load_sink
from dataprep_schemas import imagenet_classes
from tests.docs.pages import README, said


def known(key: str) -> int:
    """The class of a training image, which its name begins with."""
    return [synset for synset, _ in imagenet_classes()].index(Path(key).name.split("_")[0])


def without_sizes(text: str) -> str:
    """Sizes depend on the versions of numpy and of the JPEG encoder; nothing else may."""
    return re.sub(r"[\d,.]+ (MB|KB|bytes)", r"# \1", text)


def test_the_session_is_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = list(said(r"^\$ (dataprep .*)\n((?:(?!\$ |```).*\n)*)", README))
    assert len(steps) > 4
    for place, step in steps:
        assert main(shlex.split(step[1])[1:]) == 0, place
        printed = capsys.readouterr().out
        assert without_sizes(printed) == without_sizes(step[2]), place
    ((_, code),) = said(r"```python\n([\s\S]*?)```", README)
    place: dict[str, Any] = {}
    exec(code[1], place)
    assert place["records"].labels.tolist() == [known(one.key) for one in place["records"]]
    assert place["picture"].size == (place["records"][0].width, place["records"][0].height)
    assert place["images"].shape == (64, 224, 224, 3)


@pytest.mark.parametrize("name", installed(SINKS))
def test_a_sink_is_in_the_table_and_loads(name: str) -> None:
    assert list(said(rf"^\| `{name}` \|", README)), f"README.md: no row for the sink {name}"
    assert load_sink(name).name == name


def test_data_sets_are_installed() -> None:
    assert installed(DATASETS)
