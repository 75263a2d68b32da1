"""Tests, which the defaults of this machine's site must not change."""

import os

os.environ["DATAPREP_CONFIG"] = ""
