"""``dataprep stage --status``: what is in a target, told without changing anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dataprep.build.manifest import PART, read_manifest, read_part
from dataprep.errors import DatasetError
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.node_lock import describe_holder
from dataprep.staging.target.sentinel import (
    Sentinel,
    changed_files,
    other_jobs,
    planned_paths,
    read_sentinel,
)
from dataprep.system.messages import counted, printable, sized, some_of


@dataclass(frozen=True, slots=True)
class StagedStatus:
    """What is in a target.

    Attributes:
        lines: a few, for a person.
        is_whole: whether it is a whole copy that nobody has changed.
    """

    lines: list[str]
    is_whole: bool


def read_staged(path: Path) -> StagedStatus:
    """Look at a target.

    Raises:
        StagingError: what is there is not safe to look at.
    """
    directory = StageDirectory.existing(path)
    if directory is None:
        return StagedStatus([f"{printable(str(path))}: nothing was staged here"], is_whole=False)
    with directory:
        sentinel = read_sentinel(directory)
        changed = changed_files(directory, sentinel.files) if sentinel else []
        lines = _whole(directory, sentinel, changed) if sentinel else []
        holder = describe_holder(directory)
        if holder is not None:
            lines.append(f"{printable(str(path))}: {holder}")
        elif sentinel is None:
            lines.append(f"{printable(str(path))}: {_left(len(planned_paths(directory) - {PART}))}")
        return StagedStatus(lines, is_whole=sentinel is not None and not changed)


def _left(planned: int) -> str:
    """Of a call that has ended before its copy was whole."""
    if not planned:
        return "nothing was copied, and nobody is copying; run dataprep stage"
    return (
        f"not whole, of {counted(planned, 'file')}, and nobody is copying; run the same dataprep "
        "stage again: what is there is checked and used"
    )


def _whole(directory: StageDirectory, sentinel: Sentinel, changed: list[str]) -> list[str]:
    total = sum(file.bytes for file in sentinel.files)
    by = f", staged by {sentinel.job}" if sentinel.job else ""
    lines = [
        f"{printable(str(directory.path))}: whole copy of {printable(sentinel.source)}"
        f"{_which_part(directory)}, "
        f"{counted(len(sentinel.files), 'file')}, {sized(total)}{by}"
        f"{', shared' if sentinel.shared else ''}"
    ]
    if changed:
        lines.append(f"changed since: {some_of(changed)}; the same dataprep stage mends them")
    if jobs := other_jobs(directory, None):
        lines.append(f"used by: {some_of(jobs)}")
    return lines


def _which_part(directory: StageDirectory) -> str:
    try:
        part = read_part(directory.path, read_manifest(directory.path))
    except DatasetError:  # a plain directory
        return ""
    return f" ({part})" if part else ""
