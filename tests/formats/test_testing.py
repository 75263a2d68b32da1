"""Every sink of this distribution passes the tests of sinks; sinks that are broken do not."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path

import pytest

from dataprep.formats import Sink
from dataprep.formats.testing import CASES, SinkTests
from dataprep.plugins import OUR_PACKAGE, SINKS, load_sink
from tests.formats.broken_sinks import BROKEN
from tests.formats.documented_sink import SOURCE, TESTS

# A class for every sink that this distribution, not any other, brings.
for _point in distribution(OUR_PACKAGE).entry_points.select(group=SINKS):
    _class_name = "Test" + _point.name.title().replace("_", "").replace("-", "")
    _own = {"sink": load_sink(_point.name), "__module__": __name__}
    _tests = type(_class_name, (SinkTests,), _own)
    if _point.name == "arrayrecord" and find_spec("array_record") is None:
        _tests = pytest.mark.skip("needs array-record, which writes this format")(_tests)
    globals()[_class_name] = _tests

globals()["TestLmdb"].refuses = ("multi-label", "multi-label-one-size")  # a Datum has one label


@pytest.mark.thorough
def test_the_documented_sink_passes_in_an_author_s_package(tmp_path: Path) -> None:
    """Both blocks of docs/plugins.md, as files of a package that is not installed."""
    assert len(SOURCE.splitlines()) <= 80
    (tmp_path / "my_package.py").write_text(SOURCE, encoding="utf-8")
    tests = TESTS.replace('load_sink("jsonl")', "JsonSink()")
    (tmp_path / "test_it.py").write_text(f"from my_package import JsonSink\n{tests}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout
    assert "passed" in done.stdout


def complaint(broken: type[Sink], test: str, tmp_path: Path) -> BaseException | None:
    """The first failure of a test with any kind of data set."""
    method = getattr(SinkTests(), test)
    wanted = inspect.signature(method).parameters
    known: dict[str, object] = {"variant": broken(), "variants": [broken()]}
    known |= {"finished": False, "layout": "flat", "count": 3}
    for number, case in enumerate(CASES):
        (tmp_path / str(number)).mkdir()
        given = {**known, "case": case, "tmp_path": tmp_path / str(number)}
        try:
            method(**{name: given[name] for name in wanted})
        except (pytest.fail.Exception, Exception) as error:  # noqa: BLE001
            return error
    return None


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # some are broken by leaving files open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_what_is_broken_is_found(tmp_path: Path, broken: type[Sink], test: str) -> None:
    assert complaint(broken, test, tmp_path)


def test_every_test_has_found_something() -> None:
    tests = {name for name in dir(SinkTests) if name.startswith("test_")}
    assert {test for _, test in BROKEN} == tests


def test_tests_without_a_sink_say_so() -> None:
    with pytest.raises(TypeError, match="needs sink = YourSink"):
        SinkTests.variants()
