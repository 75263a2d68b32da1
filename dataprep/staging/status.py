"""``dataprep stage --status``: what is in a target, told without changing anything."""

from __future__ import annotations

from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.manifest import read_manifest
from dataprep.part import NAME as PART
from dataprep.part import read_part
from dataprep.staging.target.cleaning import read_plan
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.leases import others
from dataprep.staging.target.node_lock import describe_holder
from dataprep.staging.target.sentinel import Sentinel, changed_files, read_sentinel
from dataprep.wording import counted, printable, sized, some_of


def describe(path: Path) -> list[str]:
    """A few lines for a person.

    Raises:
        StagingError: what is there is not safe to look at.
    """
    directory = StageDirectory.existing(path)
    if directory is None:
        return [f"{printable(str(path))}: nothing was staged here"]
    with directory:
        lines = []
        sentinel = read_sentinel(directory)
        if sentinel is not None:
            lines += _whole(directory, sentinel)
        holder = describe_holder(directory)
        if holder is not None:
            lines.append(f"{printable(str(path))}: {holder}")
        elif sentinel is None:
            planned = len(read_plan(directory) - {PART})
            lines.append(
                f"{printable(str(path))}: not whole, of {counted(planned, 'file')}, and nobody is "
                "copying; run the same dataprep stage again: what is there is checked and used"
            )
        return lines


def _whole(directory: StageDirectory, sentinel: Sentinel) -> list[str]:
    total = sum(file.bytes for file in sentinel.files)
    by = f", staged by {sentinel.job}" if sentinel.job else ""
    lines = [
        f"{printable(str(directory.path))}: whole copy of {printable(sentinel.source)}"
        f"{_which_part(directory)}, "
        f"{counted(len(sentinel.files), 'file')}, {sized(total)}{by}"
        f"{', shared' if sentinel.shared else ''}"
    ]
    if changed := changed_files(directory, sentinel.files):
        lines.append(f"changed since: {some_of(changed)}; the same dataprep stage mends them")
    if jobs := others(directory, None):
        lines.append(f"used by: {some_of(jobs)}")
    return lines


def _which_part(directory: StageDirectory) -> str:
    try:
        part = read_part(directory.path, read_manifest(directory.path))
    except DatasetError:  # a plain directory
        return ""
    return f" ({part})" if part else ""
