"""What of a selection is in the target already, and how far that can be trusted."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, replace

from dataprep.errors import StagingError
from dataprep.staging.inventory import Inventory, SourceFile
from dataprep.staging.labels import LABELS
from dataprep.staging.landed import Landed, Verify
from dataprep.staging.selection import Selection
from dataprep.staging.target.beneath import opened_parent
from dataprep.staging.target.directory import StageDirectory
from dataprep.staging.target.sentinel import Sentinel, changed_files
from dataprep.system.messages import printable


@dataclass(frozen=True, slots=True)
class Present:
    """The files of a selection, by what is known of the target's.

    Attributes:
        good: there, as the sentinel says, and untouched since.
        doubtful: there and of the right size; to be hashed before they are believed.
        lacking: to be copied.
        obsolete: files that an earlier call staged and that do not belong here any more.
    """

    good: tuple[Landed, ...]
    doubtful: tuple[SourceFile, ...]
    lacking: tuple[SourceFile, ...]
    obsolete: tuple[Landed, ...]

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.doubtful or self.lacking or self.obsolete)


def find_present(
    directory: StageDirectory,
    inventory: Inventory,
    selection: Selection,
    sentinel: Sentinel | None,
    *,
    planned: Collection[str],
    verify: Verify,
    hashed: bool = False,
) -> Present:
    """Look at the target, without reading any of its files.

    Args:
        directory: the target.
        inventory: what there is.
        selection: what belongs here.
        sentinel: what an earlier call that ended well left here.
        planned: what earlier calls, however they ended, may have put here.
        verify: ``reread`` believes no file without hashing it, ``none`` any of the right size that
            an earlier call has copied from this very source.
        hashed: believe no file without a hash, even if the source has none.

    Raises:
        StagingError: a file that staging did not put here is in the way.
    """
    recorded = {file.path: file for file in sentinel.files} if sentinel else {}
    changed = set(changed_files(directory, list(recorded.values())))
    same_source = sentinel is not None and sentinel.digest == inventory.digest
    labels = LABELS if inventory.manifest is not None else frozenset()
    good: list[Landed] = []
    doubtful: list[SourceFile] = []
    lacking: list[SourceFile] = []
    for path in sorted({*labels, *(file.path for file in selection.files)} - {*recorded, *planned}):
        there = _find(directory, path)
        if there is not None and not (
            there.bytes < 0 and any(each.startswith(f"{path}/") for each in (*recorded, *planned))
        ):
            _refuse_stranger(directory, path)
    for file in selection.files:
        if file.path in labels:
            continue
        there, landed = _find(directory, file.path), recorded.get(file.path)
        if there is None or there.bytes != file.bytes:
            lacking.append(file)
            continue
        untouched = landed is not None and file.path not in changed
        known = file.sha256 or (landed.sha256 if landed and same_source else None)
        of_source = landed is not None and _is_of(landed, file, same_source, verify)
        enough = not hashed or (landed is not None and landed.sha256 is not None)
        if landed and of_source and untouched and enough and verify != "reread":
            good.append(landed)
        elif of_source and file.sha256 and verify == "none":
            good.append(there)
        elif known:
            doubtful.append(replace(file, sha256=known))
        elif not hashed and verify != "reread" and there.modified == file.modified:
            # It got its source's time when it was whole, before it got its name.
            good.append(there)
        else:
            lacking.append(file)
    wanted = {file.path for file in selection.files}
    found = [_find(directory, path) for path in sorted({*recorded, *planned} - wanted - labels)]
    # What is no regular file has been put in the place of one: a directory, by a newer source.
    obsolete = [file for file in found if file is not None and file.bytes >= 0]
    return Present(tuple(good), tuple(doubtful), tuple(lacking), tuple(obsolete))


def _is_of(landed: Landed, file: SourceFile, same_source: bool, verify: Verify) -> bool:
    """Whether what has landed is this file of this source; what nobody hashed is not known to be.

    A source that was made anew may have shards of the same sizes, so these alone never tell.
    """
    if landed.sha256 is not None and file.sha256 is not None:
        return landed.sha256 == file.sha256
    return same_source and (file.sha256 is None or verify == "none")


def _refuse_stranger(directory: StageDirectory, path: str) -> None:
    raise StagingError(
        f"{directory.path}/{printable(path)} is in the way, and dataprep did not stage it; "
        "move it away, or stage into another directory (--to)"
    )


def _find(directory: StageDirectory, path: str) -> Landed | None:
    """What is in the target under that name; None if nothing is. No file has -1 bytes."""
    try:
        with opened_parent(directory.descriptor, path) as (parent, name):
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StagingError(
            f"{directory.path}/{printable(path)} cannot be looked at: {error.strerror}; "
            "check this node's storage"
        ) from error
    size = found.st_size if stat.S_ISREG(found.st_mode) else -1
    return Landed(path, size, None, found.st_mtime_ns)
