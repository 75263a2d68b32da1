"""Where a call of ``dataprep stage`` has put its copy: the same rules, asked later."""

from __future__ import annotations

import os
from pathlib import Path

from dataprep.staging.nodes.placement import find_placement
from dataprep.staging.target.scratch import find_target


def staged_place(source: Path | None, to: Path | None, *, shared: bool) -> Path:
    """The directory that ``--to``, or else the job and the source's name, lead to.

    Raises:
        StagingError: no scratch was found.
    """
    if to is not None:
        return Path(os.path.abspath(to))  # noqa: PTH100  # as given: links stay links
    assert source is not None  # noqa: S101  # the command line asks for one of the two
    name = Path(os.path.abspath(source)).name  # noqa: PTH100
    return find_target(None, name, 0, find_placement(), shared=shared).path
