"""The raw data of the tests of data sets, here as well."""

from tests.datasets.conftest import make_raw, raw

__all__ = ["make_raw", "raw"]
