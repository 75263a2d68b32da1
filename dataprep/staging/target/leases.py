"""Which jobs use a copy that they share, so that none takes it away from another."""

from __future__ import annotations

import json

from dataprep.staging.target.directory import StageDirectory, private_name
from dataprep.system.state_files import to_json

_KIND = "lease"


def add_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses the copy; before the sentinel is read, or `clean` may not see it.

    Raises:
        NoRoomError: the storage is full; nothing has been copied by this job yet.
        StagingError: it is read-only, damaged, or gone.
    """
    directory.write_private(private_name(_KIND, job), to_json({"job": job}), copied=False)


def remove_lease(directory: StageDirectory, job: str) -> None:
    """Note that a job uses the copy no more; nothing if it did not.

    Raises:
        StagingError: the storage is read-only or damaged.
    """
    directory.remove_private(private_name(_KIND, job))


def others(directory: StageDirectory, job: str | None) -> list[str]:
    """The jobs that use the copy, but for ``job``; a note that cannot be read counts as one."""
    own = None if job is None else private_name(_KIND, job)
    names = [name for name in directory.private_names(_KIND) if name != own]
    return [_job(directory, name) for name in names]


def _job(directory: StageDirectory, name: str) -> str:
    try:
        return str(json.loads(directory.read_private(name) or b"")["job"])
    except (ValueError, TypeError, KeyError):
        return name
