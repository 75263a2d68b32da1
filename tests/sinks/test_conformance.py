"""Every sink of this distribution passes the conformance suite; sinks that are broken do not."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution
from pathlib import Path

import pytest

from dataprep.plugins import SINKS
from dataprep.sinks import Sink
from dataprep.sinks.conformance import SinkTests
from dataprep.sinks.conformance.material import CASES
from tests.sinks.broken_sinks import BROKEN
from tests.sinks.toy_sink import Listing, ToySink

# A class for every sink that this distribution, not any other, brings.
for _point in distribution("dataprep").entry_points.select(group=SINKS):
    _class_name = "Test" + _point.name.title().replace("_", "").replace("-", "")
    globals()[_class_name] = type(
        _class_name, (SinkTests,), {"sink_name": _point.name, "__module__": __name__}
    )


class TestToy(SinkTests):
    sink = ToySink()


class TestListing(SinkTests):
    sink = Listing()


TESTS = {name for name in dir(SinkTests) if name.startswith("test_")}
CHOICES: dict[str, Sequence[object]] = {
    "layout": ("split",),
    "count": (1, 2),
    "train": (2,),
    "validation": (2,),
    "written": (3,),
    "key": ("two\nlines.JPEG",),
    "value": ("zero at the end\0",),
}


def calls(
    broken: type[Sink], test: str, fixtures: dict[str, object]
) -> Iterator[dict[str, object]]:
    """Arguments for a test of the suite, over all variants, cases and parameters."""

    class Suite(SinkTests):
        sink = broken()

    variants = Suite.variants()
    choices = {**CHOICES, "variants": [variants], "variant": variants, "case": CASES}
    names = [name for name in inspect.signature(getattr(Suite, test)).parameters if name != "self"]
    for values in itertools.product(*(choices.get(it, [fixtures.get(it)]) for it in names)):
        yield dict(zip(names, values, strict=True))


def complaint(
    broken: type[Sink], test: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BaseException | None:
    """The first failure of a test of the suite."""
    for number, arguments in enumerate(calls(broken, test, {"monkeypatch": monkeypatch})):
        if "tmp_path" in arguments:
            arguments["tmp_path"] = tmp_path / str(number)
            (tmp_path / str(number)).mkdir()
        try:
            getattr(SinkTests(), test)(**arguments)
        except pytest.skip.Exception:
            continue
        except (pytest.fail.Exception, Exception) as error:  # noqa: BLE001
            return error
    return None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # some are broken by leaving files open
@pytest.mark.parametrize(("broken", "test"), BROKEN)
def test_the_suite_finds_what_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: type[Sink], test: str
) -> None:
    assert complaint(broken, test, tmp_path, monkeypatch)


@pytest.mark.parametrize("test", sorted(TESTS))
def test_the_suite_finds_nothing_where_nothing_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: str
) -> None:
    assert complaint(Listing, test, tmp_path, monkeypatch) is None


def test_every_test_of_the_suite_has_found_something() -> None:
    broken = [case.values if isinstance(case, type(pytest.param())) else case for case in BROKEN]
    assert {test for _, test in broken} == TESTS


def test_a_suite_without_a_sink_says_so() -> None:
    with pytest.raises(TypeError, match="needs sink = YourSink"):
        SinkTests.variants()
