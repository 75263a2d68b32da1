"""`dataprep.remote.server`, which tries again at once what failed."""

from __future__ import annotations

import runpy

from tests.remote.test_faults import hasten

hasten()
runpy.run_module("dataprep.remote.server", run_name="__main__")
