"""What every sink must do, as tests that the author of a sink runs too.

::

    from dataprep.sinks.conformance import SinkTests

    class TestMds(SinkTests):
        sink_name = "mds"  # its entry point; or: sink = MdsSink()

Every test runs with every combination of the sink's options. pytest is needed here, and nowhere
else in dataprep.
"""

from __future__ import annotations

import itertools
from typing import ClassVar

import pytest

_PARTS = ("damage", "naming", "reading", "shards", "split_files", "writing")
# Before they are imported: so that a failing assertion shows both sides.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from dataprep.plugins import load_sink  # noqa: E402
from dataprep.sinks.base import Sink  # noqa: E402
from dataprep.sinks.conformance.damage import DamageTests  # noqa: E402
from dataprep.sinks.conformance.material import CASES  # noqa: E402
from dataprep.sinks.conformance.naming import NamingTests  # noqa: E402
from dataprep.sinks.conformance.reading import ReadingTests  # noqa: E402
from dataprep.sinks.conformance.shards import all_held  # noqa: E402
from dataprep.sinks.conformance.split_files import SplitFileTests  # noqa: E402
from dataprep.sinks.conformance.writing import WritingTests  # noqa: E402

__all__ = ["SinkTests"]


class SinkTests(NamingTests, WritingTests, ReadingTests, DamageTests, SplitFileTests):
    """The suite; subclass it in a test module under a name that begins with ``Test``.

    A sink that cannot hold a kind of data set with some of its options, say several labels an
    image, refuses it in `Sink.check`; then there are no tests of the two together. Each kind must
    be held with one combination of options at least.

    Attributes:
        sink: the sink to test; importable, since another process gets it pickled.
        sink_name: or the name of its entry point.
    """

    sink: ClassVar[Sink | None] = None
    sink_name: ClassVar[str] = ""

    @classmethod
    def variants(cls) -> list[Sink]:
        """The sink with every combination of its options."""
        sink = load_sink(cls.sink_name) if cls.sink_name else cls.sink
        if sink is None:
            raise TypeError(f"{cls.__name__} needs sink = YourSink() or sink_name = 'yours'")
        combinations = itertools.product(*sink.OPTIONS.values())
        return [
            type(sink)(**dict(zip(sink.OPTIONS, values, strict=True))) for values in combinations
        ]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give every test its arguments."""
        variants = self.variants()
        if "variants" in metafunc.fixturenames:
            metafunc.parametrize("variants", [variants], ids=["all"])
        names = [name for name in ("variant", "case") if name in metafunc.fixturenames]
        if names == ["variant", "case"]:
            pairs = [
                pytest.param(sink, case, id=f"{_variant_id(sink)}-{case.name}")
                for sink in variants
                for case in all_held(sink)
            ]
            metafunc.parametrize(names, pairs)
        elif names == ["variant"]:
            metafunc.parametrize("variant", variants, ids=map(_variant_id, variants))
        elif names == ["case"]:
            metafunc.parametrize("case", CASES, ids=[case.name for case in CASES])


def _variant_id(sink: Sink) -> str:
    return ",".join(sink.options.values()) or sink.name
