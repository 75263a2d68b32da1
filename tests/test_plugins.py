"""Plugins are found, made with options, and a broken one is one clear line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dataprep import plugins
from dataprep.errors import DataprepError, UsageError
from dataprep.plugins import OUR_PACKAGE, SINKS, installed, load_sink, package_of

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution ``made-up`` of one module and one entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    plugins._sink.cache_clear()

    def install(name: str, code: str, *, point: str = "") -> None:
        module = f"made_up_{name.replace('-', '_')}"
        (tmp_path / f"{module}.py").write_text(code)
        distribution = tmp_path / "made_up-1.dist-info"
        distribution.mkdir()
        (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
        line = point or f"{name} = {module}:MadeUp"
        (distribution / "entry_points.txt").write_text(f"[dataprep.sinks]\n{line}\n")

    yield install
    plugins._sink.cache_clear()


SINK = """
from dataprep.formats.tfrecord import TFRecordSink

class MadeUp(TFRecordSink):
    name = "{name}"
    OPTIONS = {{"colour": ("red", "green"), "size": ("small", "large")}}
"""


def refusal(name: str) -> str:
    with pytest.raises(DataprepError) as caught:
        load_sink(name)
    message = str(caught.value)
    assert "\n" not in message
    assert f"sink {name} (" in message
    return message


def test_a_sink_is_made_with_options(install: Install) -> None:
    install("good", SINK.format(name="good"))
    assert "good" in installed(SINKS)
    assert load_sink("good").options == {"colour": "red", "size": "small"}
    chosen = load_sink("good", {"size": "large"})
    assert chosen.options == {"colour": "red", "size": "large"}


def test_an_unknown_sink_or_option_is_a_usage_error() -> None:
    with pytest.raises(
        UsageError, match=r"no sink called 'nonsense' is installed; there are: .*tf"
    ):
        load_sink("nonsense")
    with pytest.raises(UsageError, match="sink tfrecord has no option 'colour'"):
        load_sink("tfrecord", {"colour": "red"})


def test_a_missing_library_is_named(install: Install) -> None:
    install("needy", "import no_such_library")
    expected = (
        r"sink needy \(made_up_needy:MadeUp\) cannot be loaded: No module named "
        r"'no_such_library'; pip install no_such_library"
    )
    assert re.fullmatch(expected, refusal("needy"))


def test_of_two_with_one_name_ours_is_taken(install: Install) -> None:
    install("tfrecord", SINK.format(name="tfrecord"))
    assert load_sink("tfrecord").options == {}
    assert package_of(installed(SINKS)["tfrecord"]) == OUR_PACKAGE


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero$"),
        ("raise RuntimeError('two\\nlines')", "RuntimeError: two lines$"),
        ("class MadeUp: name = 'bad'", "is not a subclass of dataprep.formats.Sink$"),
        (SINK.format(name="other"), "calls itself 'other'; the two must be equal$"),
        (
            "from dataprep.formats import Sink\nclass MadeUp(Sink): name = 'bad'",
            "TypeError: .*abstract",
        ),
        (
            SINK.format(name="bad") + "    def __init__(self): raise OSError('no such disk')",
            "OSError: no such disk$",
        ),
    ],
    ids=lambda value: None if "\n" in value else value[:20],
)
def test_a_broken_plugin_is_one_line(
    install: Install, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    monkeypatch.delitem(sys.modules, "made_up_bad", raising=False)
    install("bad", code)
    assert re.search(message, refusal("bad"))
