"""Where a call of ``dataprep stage`` has put its copy: the same rules, asked later."""

from __future__ import annotations

import os
from pathlib import Path

from dataprep.errors import DataprepError, StagingError
from dataprep.staging.nodes.placement import Placement
from dataprep.staging.scratch import find_target
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.sentinel import RETIRED, Sentinel, read_sentinel
from dataprep.system.messages import printable


def absolute_source(source: Path) -> Path:
    """SRC from the root on, as it was given: links stay links, unless it goes back with ``..``."""
    if ".." in source.parts:  # behind a link that is not where the name before it is
        return Path(os.path.realpath(source))
    return source.absolute()


def staged_place(
    source: Path | None, to: Path | None, placement: Placement, *, shared: bool
) -> Path:
    """The directory that ``--to``, or else the job and the source's name, lead to.

    Args:
        source: SRC; may be None if ``to`` is given.
        to: ``--to``.
        placement: whose job it is.
        shared: ``--shared``.

    Raises:
        StagingError: no scratch was found; it is not node-local.
    """
    name = "" if source is None else absolute_source(source).name
    return find_target(to, name, 0, placement, shared=shared).path


def check_copy_of(source: Path, place: Path) -> None:
    """Make sure that what was staged into a directory, if anything, is a copy of ``source``.

    Two sources of one name have the same place in a job's scratch.

    Raises:
        StagingError: it is a copy of another one; the directory is not safe to look at.
    """
    directory = StageDirectory.existing(place)
    if directory is None:
        return
    with directory:
        sentinel = read_sentinel(directory) or read_sentinel(directory, RETIRED)
    if sentinel is not None and not _is_of(sentinel, source):
        raise StagingError(
            f"{printable(str(place))} holds a copy of {printable(sentinel.source)}, not of "
            f"{printable(str(source))}; name that one, or only the place, with --to"
        )


def _is_of(sentinel: Sentinel, source: Path) -> bool:
    from dataprep.staging.inventory import read_inventory

    given = absolute_source(source)
    if os.path.realpath(sentinel.source) == os.path.realpath(given):
        return True
    try:  # the same data set may be there twice
        return read_inventory(given).digest == sentinel.digest
    except DataprepError:
        return False
