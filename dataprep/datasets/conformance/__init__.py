"""What every data set must do, as tests that the author of a data set runs too.

::

    from dataprep.datasets.conformance import DatasetTests

    class TestPets(DatasetTests):
        @pytest.fixture
        def dataset(self):
            return Pets()

        @pytest.fixture
        def raw(self, tmp_path):
            ...  # make a small raw directory: every split, a few images each
            return tmp_path / "raw"

Give the fixtures parameters to run every test for several options or forms of the raw data.
pytest is needed here, and nowhere else in dataprep but in `dataprep.sinks.conformance`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

_PARTS = ("declaring", "fingerprints", "finding", "rows")
# Before they are imported: so that a failing assertion shows both sides.
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from dataprep.datasets.base import Dataset  # noqa: E402
from dataprep.datasets.conformance.declaring import DeclaringTests  # noqa: E402
from dataprep.datasets.conformance.finding import FindingTests  # noqa: E402
from dataprep.datasets.conformance.fingerprints import FingerprintTests  # noqa: E402
from dataprep.datasets.conformance.rows import RowTests  # noqa: E402

__all__ = ["DatasetTests"]


class DatasetTests(DeclaringTests, FindingTests, RowTests, FingerprintTests):
    """The suite; subclass it in a test module under a name that begins with ``Test``."""

    @pytest.fixture
    def dataset(self) -> Dataset:
        """The data set to test, with the options to test it with."""
        raise TypeError(f"{type(self).__name__} needs a fixture `dataset` that returns yours")

    @pytest.fixture
    def raw(self) -> Path:
        """A small raw directory of which nothing is damaged or missing.

        Its files are touched, and moved away and back.
        """
        raise TypeError(f"{type(self).__name__} needs a fixture `raw`: a small raw directory")
