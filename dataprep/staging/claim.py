"""Whose copy is in a target: jobs do not take each other's, unless they say that they share it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from dataprep.errors import StagingError
from dataprep.staging.errand import Errand
from dataprep.staging.target.cleaning import plan_of
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.leases import add_lease, others, remove_lease
from dataprep.staging.target.sentinel import Sentinel, read_sentinel
from dataprep.system.messages import printable, some_of


def claim(errand: Errand, directory: StageDirectory) -> Sentinel | None:
    """Make sure that this job may use and change what an earlier call left in the target.

    Returns:
        The sentinel of that call; None if there is none.

    Raises:
        StagingError: it is another job's, in use by others, or a copy of something else.
    """
    job = errand.placement.job
    leased = errand.request.shared and job is not None
    had = job in others(directory, None)  # an earlier call of this job may be in use
    if leased and job is not None:
        add_lease(directory, job)  # before the look, so that no other job cleans in between
    sentinel = read_sentinel(directory)
    try:
        _check_owner(errand, directory, sentinel)
    except StagingError:
        if leased and job is not None and not had:
            remove_lease(directory, job)
        raise
    return sentinel


def _check_owner(errand: Errand, directory: StageDirectory, sentinel: Sentinel | None) -> None:
    users = others(directory, errand.placement.job)
    if sentinel is None:
        if users and not errand.request.shared:
            raise StagingError(
                f"{printable(str(directory.path))} is used by {some_of(users)}; stage into another "
                "directory, or share one between jobs (--shared, in all of them)"
            )
        plan = plan_of(directory)
        if users and plan is not None and plan.selection != errand.selection.digest:
            _refuse_to_change(errand, directory, users)
        return
    job = errand.placement.job
    place, source = printable(str(directory.path)), printable(str(errand.inventory.source))
    delete = printable(f"dataprep stage --clean --to {shlex.quote(str(directory.path))}")
    shares = sentinel.shared and errand.request.shared
    if sentinel.job not in (None, job) and not shares:
        raise StagingError(
            f"{place} was staged by {sentinel.job}, this is {job or 'outside of any job'}; stage "
            f"into another directory, share one between jobs (--shared, in all of them), or delete "
            f"it: {delete} --all_jobs"
        )
    if (
        sentinel.source != str(errand.inventory.source)
        and sentinel.digest != errand.inventory.digest
    ):
        raise StagingError(
            f"{place} holds a copy of {printable(sentinel.source)}; stage {source} into another "
            f"directory, or delete the copy: {delete}"
        )
    if users and not is_current(sentinel, errand):
        _refuse_to_change(errand, directory, users)
    asked = errand.request.asked
    if asked != sentinel.asked:
        raise StagingError(
            f"{place} holds another part of {source}: {sentinel.asked}; this call asks for "
            f"{asked}, and would delete the rest; ask for both in one call (--split, twice), "
            f"stage into another directory, or delete the copy: {delete}"
        )


def _refuse_to_change(errand: Errand, directory: StageDirectory, users: Sequence[str]) -> None:
    raise StagingError(
        f"{printable(str(directory.path))} is used as it is by {some_of(users)}, and this call "
        f"would change it: {printable(str(errand.inventory.source))} has changed, or other splits "
        "are asked for; stage into another directory"
    )


def is_current(sentinel: Sentinel | None, errand: Errand) -> bool:
    """Whether it is of this source, and of the files that are asked for."""
    return (
        sentinel is not None
        and sentinel.digest == errand.inventory.digest
        and sentinel.selection == errand.selection.digest
    )
