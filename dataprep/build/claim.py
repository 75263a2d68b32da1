"""Making an output directory a job's own, or finding that it is another's."""

from __future__ import annotations

from collections.abc import Mapping

from dataprep.build.identity import Identity, check_identity, store_identity
from dataprep.build.job import Job
from dataprep.build.lock import check_held
from dataprep.build.overwrite import (
    check_foreign_files,
    remove_built_files,
    remove_unrecorded_files,
)


def claim(job: Job, identity: Identity, units: Mapping[str, str], *, overwrite: bool) -> None:
    """Accept a directory that is new or this job's, and write down whose it is.

    To be called when nothing that was asked for can be refused any more; hold the lock.

    Args:
        job: what is to be built.
        identity: everything that shapes the bytes of the output, as JSON.
        units: a digest of every piece of the input.
        overwrite: first delete what an earlier job made there.

    Raises:
        DatasetError: the directory is being made in another way, or holds foreign shards.
        LockedError: another run has taken it over.
    """
    workspace = job.workspace
    check_held(workspace, job.lease)
    if overwrite:
        remove_built_files(workspace)
    fresh = check_identity(workspace, identity, units)
    if fresh:
        remove_unrecorded_files(workspace)
    check_foreign_files(job, fresh=fresh)
    if fresh:
        store_identity(workspace, identity, units)
