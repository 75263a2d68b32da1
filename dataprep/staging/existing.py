"""What is in a target already: whose it is, and how far it can be trusted; and in words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dataprep.errors import DatasetError, StagingError
from dataprep.sealed.set import PART, SealedSet, described, foreign_files
from dataprep.staging.directory import StageDirectory
from dataprep.staging.node_lock import describe_holder
from dataprep.staging.plan import StagePlan
from dataprep.staging.sentinel import (
    PLANNED,
    add_lease,
    changed_files,
    find_files,
    has_lease,
    is_as_copied,
    other_jobs,
    planned_paths,
    read_sentinel,
    remove_lease,
)
from dataprep.staging.source import SourceFile
from dataprep.system.messages import counted, printable, sized, some_of
from dataprep_schemas.state import CopiedFile, Sentinel


@dataclass(frozen=True, slots=True)
class Present:
    """What is in a target before anything is changed, and what is known of a selection's files."""

    sentinel: Sentinel | None  # of an earlier call that ended well
    planned: frozenset[str]  # what earlier calls, however they ended, may have put here
    good: tuple[CopiedFile, ...]  # there, as the sentinel says, and untouched since
    doubtful: tuple[SourceFile, ...]  # of the right size; to be hashed before they are believed
    lacking: tuple[SourceFile, ...]  # to be copied
    obsolete: tuple[CopiedFile, ...]  # that an earlier call staged, and do not belong here any more
    is_whole: bool  # nothing is to be done


def look(plan: StagePlan, directory: StageDirectory) -> Present:
    """Look at the target, without reading any of its files.

    Raises:
        StagingError: it is another job's, in use by others, or a copy of something else; a file
            that staging did not put here is in the way, or readers would take it in.
    """
    sentinel, planned = _claim(plan, directory), planned_paths(directory)
    recorded = {file.path: file for file in sentinel.files} if sentinel else {}
    wanted = {*plan.labels, *(file.path for file in plan.copied_files)}
    ours = planned.union(recorded)
    found = find_files(directory, wanted | ours)
    _refuse_foreign(plan, directory, wanted, ours, found)
    kept = {path: file for path, file in recorded.items() if is_as_copied(file, found)}
    same_source = sentinel is not None and sentinel.digest == plan.inventory.digest
    good: list[CopiedFile] = []
    doubtful: list[SourceFile] = []
    lacking: list[SourceFile] = []
    for file in plan.copied_files:
        there, before = found.get(file.path), recorded.get(file.path)
        sha256 = file.sha256 or (before.sha256 if before and same_source else None)
        if there is None or there.bytes != file.bytes:
            lacking.append(file)
            continue
        untouched = kept.get(file.path)
        if untouched and untouched.sha256 == sha256 and (sha256 or same_source):
            # A source that was made anew may have shards of the same sizes: these never tell alone.
            believed = untouched
        elif not sha256 and there.modified == file.modified:
            # It got its source's time when it was whole, before it got its name.
            believed = untouched or there
        else:
            believed = None
        if believed and plan.request.verify != "reread":
            good.append(believed)
        elif sha256:
            doubtful.append(replace(file, sha256=sha256))
        else:
            lacking.append(file)
    # What is no regular file has been put in the place of one: a directory, by a newer source.
    others = [found[path] for path in sorted(found.keys() - wanted)]
    obsolete = [file for file in others if file.bytes >= 0]
    is_current = sentinel is not None and sentinel.selection == plan.selection.digest
    left = doubtful or lacking or obsolete or recorded.keys() - kept.keys() & {*plan.labels}
    return Present(
        sentinel=sentinel,
        planned=planned,
        good=tuple(good),
        doubtful=tuple(doubtful),
        lacking=tuple(lacking),
        obsolete=tuple(obsolete),
        is_whole=is_current and not left,
    )


def _refuse_foreign(
    plan: StagePlan,
    directory: StageDirectory,
    wanted: AbstractSet[str],
    ours: AbstractSet[str],
    found: Mapping[str, CopiedFile],
) -> None:
    """Refuse what staging did not put here, where it is in the way or readers would take it in."""
    if plan.inventory.manifest is not None:
        splits = plan.inventory.manifest.splits
        for foreign in foreign_files(directory.path, splits, ours | wanted):
            raise StagingError(
                f"{printable(str(directory.path / foreign))} is not of this data set, but readers "
                "would take it in; move it away, or stage into another directory (--to)"
            )
    for path in sorted(found.keys() & wanted - ours):
        is_folder = found[path].bytes < 0
        if not (is_folder and any(each.startswith(f"{path}/") for each in ours)):
            raise StagingError(
                f"{directory.path}/{printable(path)} is in the way, and dataprep did not stage it; "
                "move it away, or stage into another directory (--to)"
            )


def _claim(plan: StagePlan, directory: StageDirectory) -> Sentinel | None:
    """Make sure that this job may use and change what is there; the sentinel of that, if any."""
    job = plan.placement.job
    had = job is not None and has_lease(directory, job)  # an earlier call of it may be in use
    if plan.request.shared and job is not None:
        add_lease(directory, job)  # before the look, so that no other job cleans in between
    sentinel = read_sentinel(directory)
    try:
        _check_owner(plan, directory, sentinel)
    except StagingError:
        if plan.request.shared and job is not None and not had:
            remove_lease(directory, job)
        raise
    return sentinel


def _check_owner(plan: StagePlan, directory: StageDirectory, sentinel: Sentinel | None) -> None:
    job, shared, asked = plan.placement.job, plan.request.shared, plan.request.asked
    users = other_jobs(directory, job)
    there = sentinel or read_sentinel(directory, PLANNED)
    ours = str(plan.inventory.source), plan.inventory.digest
    if sentinel is None and users and not shared:
        what = f"is used by {some_of(users)}"
    elif sentinel and sentinel.job not in (None, job) and not (sentinel.shared and shared):
        what = f"was staged by {sentinel.job}, this is {job or 'outside of any job'}"
    elif sentinel and sentinel.source != ours[0] and sentinel.digest != ours[1]:
        what = f"holds a copy of {printable(sentinel.source)}"
    elif users and there and there.selection != plan.selection.digest:
        what = f"is used as it is by {some_of(users)}, and this call would change it"
    elif sentinel and asked != sentinel.asked:
        what = f"holds another part: {sentinel.asked}; this call asks for {asked}"
    else:
        return
    place = printable(str(directory.path))
    if users or (sentinel and not sentinel.shared and sentinel.job not in (None, job)):
        delete = "the directory by hand when those jobs are gone"
    else:
        delete = f"it: dataprep stage --clean --to {shlex.quote(place)}"
    raise StagingError(
        f"{place} {what}; stage into another directory, share one between jobs (--shared, in all "
        f"of them), or delete {delete}"
    )


@dataclass(frozen=True, slots=True)
class StagedStatus:
    """What is in a target.

    Attributes:
        place: the target.
        is_whole: whether it is a whole copy that nobody has changed.
        source: of which it is a whole copy, or was before it was changed.
        part: of a data set, in words; None if it is all of it.
        files: that the copy has; of one that is not whole, will have.
        bytes: of all files of a whole copy.
        job: that staged it, if one did.
        shared: whether other jobs may use it.
        changed: files of another size or time since.
        users: the jobs that use a shared copy.
        holder: who is working on it.
        exists: whether anything was staged here.
    """

    place: Path
    is_whole: bool = False
    source: str | None = None
    part: str | None = None
    files: int = 0
    bytes: int = 0
    job: str | None = None
    shared: bool = False
    changed: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    holder: str | None = None
    exists: bool = True

    def __str__(self) -> str:
        """A few lines for a person."""
        part = f" ({self.part})" if self.part else ""
        by = f", staged by {self.job}" if self.job else ""
        if not self.exists:
            what = "nothing was staged here"
        elif self.source is not None:
            state = "whole" if self.is_whole else "changed"
            what = (
                f"{state} copy of {printable(self.source)}{part}, {counted(self.files, 'file')}, "
                f"{sized(self.bytes)}{by}{', shared' if self.shared else ''}"
            )
        elif self.holder is not None:
            what = self.holder
        else:
            what = (
                f"not whole, of {counted(self.files, 'file')}, and nobody is copying; run the same "
                "dataprep stage again: what is there is checked and used"
            )
        lines = [f"{printable(str(self.place))}: {what}"]
        if self.changed:
            lines.append(
                f"changed since: {some_of(self.changed)}; the same dataprep stage mends them"
            )
        if self.users:
            lines.append(f"used by: {some_of(self.users)}")
        if self.source is not None and self.holder is not None:
            lines.append(self.holder)
        return "\n".join(map(printable, lines))


def read_staged(path: Path) -> StagedStatus:
    """Look at a target, without reading any of its files.

    Raises:
        StagingError: what is there is not safe to look at.
    """
    directory = StageDirectory.existing(path)
    if directory is None:
        return StagedStatus(path, exists=False)
    with directory:
        sentinel, holder = read_sentinel(directory), describe_holder(directory)
        if sentinel is None:
            planned = len(planned_paths(directory) - {PART})
            return StagedStatus(path, files=planned, holder=holder)
        changed, part = changed_files(directory, sentinel.files), None
        with suppress(DatasetError):  # a plain directory
            part = SealedSet.read(path).part
        return StagedStatus(
            place=path,
            is_whole=not changed,
            source=sentinel.source,
            part=described(part) if part else None,
            files=len(sentinel.files),
            bytes=sum(file.bytes for file in sentinel.files),
            job=sentinel.job,
            shared=sentinel.shared,
            changed=tuple(sorted(changed)),
            users=tuple(other_jobs(directory, None)),
            holder=holder,
        )
