"""Every sink of this distribution passes the tests of sinks; sinks that are broken do not."""

from __future__ import annotations

from importlib.metadata import distribution

from dataprep.plugins import SINKS
from dataprep.sinks.testing import SinkTests

# A class for every sink that this distribution, not any other, brings.
for _point in distribution("dataprep").entry_points.select(group=SINKS):
    _class_name = "Test" + _point.name.title().replace("_", "").replace("-", "")
    globals()[_class_name] = type(
        _class_name, (SinkTests,), {"sink_name": _point.name, "__module__": __name__}
    )
