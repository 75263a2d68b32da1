"""``dataprep stage --status``: what is in a target, told without changing anything."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dataprep.errors import DatasetError
from dataprep.sealed.set import PART, SealedSet, described
from dataprep.staging.directory import StageDirectory
from dataprep.staging.node_lock import describe_holder
from dataprep.staging.sentinel import changed_files, other_jobs, planned_paths, read_sentinel
from dataprep.system.messages import counted, printable, sized, some_of


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
