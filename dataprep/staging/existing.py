"""What is in a target already: whose it is, how far it can be trusted, what makes it a data set.

The manifest, and ``part.json`` beside it, are not copied but written when all else is there: so
whatever kills a copier, what it leaves behind does not look like a finished data set.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dataprep.errors import StagingError
from dataprep.sealed.foreign import foreign_files
from dataprep.sealed.part import NAME as PART
from dataprep.sealed.set import NAME as MANIFEST
from dataprep.staging.inventory import SourceFile
from dataprep.staging.node_dir.directory import StageDirectory, remove_file
from dataprep.staging.node_dir.paths import opened_parent, sync_folders, target_error
from dataprep.staging.node_dir.sentinel import (
    PLANNED,
    add_lease,
    changed_files,
    other_jobs,
    planned_paths,
    read_sentinel,
    remove_lease,
)
from dataprep.staging.plan import StagePlan
from dataprep.staging.writing import TargetWriter
from dataprep.system.messages import printable, some_of
from dataprep.system.state_files import encode
from dataprep_schemas.state import CopiedFile, Sentinel

_LABELS = (MANIFEST, PART)  # in this order they go: without its part, a manifest means all


@dataclass(frozen=True, slots=True)
class Present:
    """What is in a target before anything is changed: a selection's files by what is known of them.

    Attributes:
        sentinel: of an earlier call that ended well; None if there is none.
        planned: what earlier calls, however they ended, may have put here.
        good: there, as the sentinel says, and untouched since.
        doubtful: there and of the right size; to be hashed before they are believed.
        lacking: to be copied.
        obsolete: files that an earlier call staged and that do not belong here any more.
        renamed: (present path, path) of files that have another name now, as those of a data set
            that grew; they are among the doubtful.
        is_whole: whether nothing is to be done.
    """

    sentinel: Sentinel | None
    planned: frozenset[str]
    good: tuple[CopiedFile, ...]
    doubtful: tuple[SourceFile, ...]
    lacking: tuple[SourceFile, ...]
    obsolete: tuple[CopiedFile, ...]
    renamed: tuple[tuple[str, str], ...]
    is_whole: bool


def look(plan: StagePlan, directory: StageDirectory) -> Present:
    """Look at the target, without reading any of its files.

    Raises:
        StagingError: it is another job's, in use by others, or a copy of something else; a file
            that staging did not put here is in the way, or readers would take it in.
    """
    sentinel = _claim(plan, directory)
    planned = planned_paths(directory)
    recorded = {file.path: file for file in sentinel.files} if sentinel else {}
    changed = set(changed_files(directory, list(recorded.values())))
    same_source = sentinel is not None and sentinel.digest == plan.inventory.digest
    labels = {*labels_of(plan)}
    wanted = {file.path for file in plan.selection.files} | labels
    ours = {*recorded, *planned}
    if plan.inventory.manifest is not None:
        splits = plan.inventory.manifest.splits
        for foreign in foreign_files(directory.path, splits, ours | wanted):
            raise StagingError(
                f"{printable(str(directory.path / foreign))} is not of this data set, but readers "
                "would take it in; move it away, or stage into another directory (--to)"
            )
    for path in sorted(wanted - ours):
        _refuse_foreign(directory, path, ours)
    good: list[CopiedFile] = []
    doubtful: list[SourceFile] = []
    lacking: list[SourceFile] = []
    for file in copied_files(plan):
        there, before = _find(directory, file.path), recorded.get(file.path)
        if there is None or there.bytes != file.bytes:
            lacking.append(file)
            continue
        known = file.sha256 or (before.sha256 if before and same_source else None)
        untouched = before is not None and file.path not in changed
        # A source that was made anew may have shards of the same sizes: these alone never tell.
        same = before is not None and before.sha256 == known and (bool(known) or same_source)
        believed = plan.request.verify != "reread"
        if before and untouched and same and believed:
            good.append(before)
        elif known:
            doubtful.append(replace(file, sha256=known))
        elif believed and there.modified == file.modified:
            # It got its source's time when it was whole, before it got its name.
            good.append(before if before and untouched else there)
        else:
            lacking.append(file)
    found = [_find(directory, path) for path in sorted(ours - wanted)]
    # What is no regular file has been put in the place of one: a directory, by a newer source.
    obsolete = [file for file in found if file is not None and file.bytes >= 0]
    hashes = {path: file.sha256 for path, file in recorded.items() if path not in changed}
    renamed = _renamed(lacking, obsolete, hashes)
    new = {path for _, path in renamed}
    doubtful += [file for file in lacking if file.path in new]
    lacking = [file for file in lacking if file.path not in new]
    obsolete = [file for file in obsolete if file.path not in dict(renamed)]
    is_current = sentinel is not None and sentinel.selection == plan.selection.digest
    left = doubtful or lacking or obsolete or changed & labels
    return Present(
        sentinel=sentinel,
        planned=planned,
        good=tuple(good),
        doubtful=tuple(doubtful),
        lacking=tuple(lacking),
        obsolete=tuple(obsolete),
        renamed=renamed,
        is_whole=is_current and not left,
    )


def _renamed(
    lacking: Sequence[SourceFile],
    obsolete: Sequence[CopiedFile],
    hashes: Mapping[str, str | None],
) -> tuple[tuple[str, str], ...]:
    """Present and wanted path of what is there under another name.

    Args:
        obsolete: files that are here, and are not to be.
        hashes: of files that are here, as they were copied.
    """
    there = {(hashes.get(file.path), file.bytes): file.path for file in obsolete}
    pairs = []
    for file in lacking:
        # Sidecars may be alike: each is renamed once, and the others are copied.
        path = there.pop((file.sha256, file.bytes), None) if file.sha256 else None
        if path is not None:
            pairs.append((path, file.path))
    return tuple(pairs)


def _refuse_foreign(directory: StageDirectory, path: str, ours: Collection[str]) -> None:
    there = _find(directory, path)
    if there is None:
        return
    if there.bytes >= 0 or not any(each.startswith(f"{path}/") for each in ours):
        raise StagingError(
            f"{directory.path}/{printable(path)} is in the way, and dataprep did not stage it; "
            "move it away, or stage into another directory (--to)"
        )


def _find(directory: StageDirectory, path: str) -> CopiedFile | None:
    """What is in the target under that name; None if nothing is. No file has -1 bytes."""
    try:
        with opened_parent(directory.descriptor, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise target_error(error, directory.path, f"looking at {path}") from error
    size = found.st_size if stat.S_ISREG(found.st_mode) else -1
    return CopiedFile(path, size, None, found.st_mtime_ns)


def copied_files(plan: StagePlan) -> list[SourceFile]:
    """What is copied of a selection: all but the labels of a data set, which are written last."""
    return [file for file in plan.selection.files if file.path not in labels_of(plan)]


def labels_of(plan: StagePlan) -> tuple[str, ...]:
    """What makes the target a data set, or a part of one; none of a plain directory."""
    return _LABELS if plan.inventory.manifest is not None else ()


def remove_labels(plan: StagePlan, directory: StageDirectory) -> None:
    """From here on it is no data set, nor a part of one.

    Raises:
        StagingError: the storage is read-only or damaged.
    """
    for name in labels_of(plan):
        remove_file(directory.descriptor, name)


def write_labels(plan: StagePlan, directory: StageDirectory) -> list[CopiedFile]:
    """Write them, durably; the manifest last of all but the sentinel.

    Raises:
        StagingError: the storage is full, read-only, damaged, or gone.
    """
    part, source = plan.selection.part, plan.inventory.source
    written = []
    for name, data in ((PART, part and encode(part)), (MANIFEST, plan.inventory.data)):
        if not data:
            continue
        file = SourceFile(name, len(data))
        with TargetWriter(directory.descriptor, file, source=source, verify="copy") as writer:
            writer.write(data, 0)
            written.append(writer.finish())
        sync_folders(directory.descriptor, [name])
    return written


def _claim(plan: StagePlan, directory: StageDirectory) -> Sentinel | None:
    """Make sure that this job may use and change what an earlier call left in the target.

    Returns:
        The sentinel of that call; None if there is none.

    Raises:
        StagingError: it is another job's, in use by others, or a copy of something else.
    """
    job = plan.placement.job
    leased = plan.request.shared and job is not None
    had = job in other_jobs(directory, None)  # an earlier call of this job may be in use
    if leased and job is not None:
        add_lease(directory, job)  # before the look, so that no other job cleans in between
    sentinel = read_sentinel(directory)
    try:
        _check_owner(plan, directory, sentinel)
    except StagingError:
        if leased and job is not None and not had:
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
