"""Commit records: the only evidence that a shard is finished.

A shard is written under temporary names, flushed, renamed, and only then recorded; so a shard
with a record is whole, and a shard without one is made again, to the same bytes. Progress,
resuming and the manifest all read these records, and nothing else, so they work the same on
every engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dataprep.assembly.workspace import Workspace
from dataprep.canonical import to_json
from dataprep.durable_files import partial_path, write_once
from dataprep.errors import DatasetError, PipelineError
from dataprep.sinks import ShardName


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """One finished file: its path relative to the output directory, size and hash."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """An image that is not in the data set, where its bytes are, and why."""

    key: str
    source: str
    offset: int
    size: int
    reason: str


@dataclass(frozen=True, slots=True)
class Noted:
    """An image that is in the data set but was repaired, or that its decoder warned about."""

    key: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """What one finished shard holds.

    Attributes:
        files: the data file first, then sidecars.
        records: how many examples were written.
        classes: examples written, by 0-based class index; an example with several counts for each.
        statistics: of the images, as `dataprep.images.Statistics.to_json` gives them.
        label_sets: where an example has any number of labels: examples written, by their labels
            joined with ``|``.
    """

    split: str
    number: int
    count: int
    files: tuple[CommittedFile, ...]
    records: int
    classes: dict[int, int]
    rejected: tuple[Rejected, ...] = ()
    noted: tuple[Noted, ...] = ()
    statistics: dict[str, Any] | None = None
    label_sets: dict[str, int] = field(default_factory=dict)

    @property
    def shard(self) -> ShardName:
        """Which shard this is."""
        return ShardName(self.split, self.number, self.count)

    @property
    def images(self) -> int:
        """How many images were read: written or rejected."""
        return self.records + len(self.rejected)

    @property
    def total_bytes(self) -> int:
        """The size of all the shard's files."""
        return sum(file.bytes for file in self.files)

    @classmethod
    def from_json(cls, text: str | bytes) -> CommitRecord:
        """Read a record back."""
        value = json.loads(text)
        return cls(
            **{
                **value,
                "files": tuple(CommittedFile(**file) for file in value["files"]),
                "classes": {int(label): count for label, count in value["classes"].items()},
                "rejected": tuple(Rejected(**image) for image in value["rejected"]),
                "noted": tuple(Noted(**image) for image in value["noted"]),
            }
        )


@dataclass(slots=True)
class Commits:
    """The records of a directory, read once each however often they are asked for."""

    workspace: Workspace
    _known: dict[str, CommitRecord] = field(default_factory=dict)

    def refresh(self) -> list[CommitRecord]:
        """Read the records that appeared since the last call, and return those."""
        new = []
        for path in sorted(self.workspace.commits.glob("[!.]*.json")):
            if path.stem in self._known:
                continue
            record = _load(path)
            self._known[path.stem] = record
            new.append(record)
        return new

    def seen(self, shard: ShardName) -> CommitRecord | None:
        """The record of one shard, if `refresh` has come across it."""
        return self._known.get(str(shard))

    def of(self, shard: ShardName) -> CommitRecord | None:
        """The record of one shard, looked up now; None if there is none that can be read."""
        try:
            return _load(_path(self.workspace, shard))
        except (FileNotFoundError, DatasetError):
            return None

    def readable(self) -> list[CommitRecord]:
        """Every record that is not torn."""
        records = []
        for path in sorted(self.workspace.commits.glob("[!.]*.json")):
            with suppress(DatasetError):
                records.append(_load(path))
        return records

    def all(self) -> list[CommitRecord]:
        """Every record, by split and number."""
        self.refresh()
        return sorted(self._known.values(), key=lambda record: (record.split, record.number))


def _load(path: Path) -> CommitRecord:
    try:
        return CommitRecord.from_json(path.read_bytes())
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(
            f"{path}: not a commit record ({error}); delete it and run again: "
            "that shard will be made anew"
        ) from error


def is_intact(record: CommitRecord, out: Path) -> bool:
    """Whether every file of a committed shard is there with its recorded size."""
    try:
        return all((out / file.path).stat().st_size == file.bytes for file in record.files)
    except FileNotFoundError:
        return False


@contextmanager
def temporary_files(finals: Sequence[Path]) -> Iterator[list[Path]]:
    """Temporary names beside the final ones; whatever is left of them is removed on an error."""
    for final in finals:
        final.parent.mkdir(parents=True, exist_ok=True)
    temporaries = [partial_path(final) for final in finals]
    try:
        yield temporaries
    except BaseException:
        for path in temporaries:
            path.unlink(missing_ok=True)
        raise


def publish(temporaries: Sequence[Path], finals: Sequence[Path]) -> None:
    """Rename finished files into place, the data file last: what readers glob for is complete.

    Repeating it is harmless, since the same shard always has the same bytes. The renames are not
    flushed to the disk here: a record that outlives them in a power cut is found out by
    `is_intact`, and sealing flushes the directories once.
    """
    for temporary, final in reversed(list(zip(temporaries, finals, strict=True))):
        temporary.replace(final)


def commit(workspace: Workspace, record: CommitRecord) -> bool:
    """Record that a published shard is finished; False: somebody else has just done so."""
    return write_once(_path(workspace, record.shard), to_json(asdict(record)))


def _path(workspace: Workspace, shard: ShardName) -> Path:
    return workspace.commits / f"{shard}.json"


def publish_once(
    workspace: Workspace, record: CommitRecord, temporaries: Sequence[Path], finals: Sequence[Path]
) -> None:
    """Publish a shard and record it, unless another worker has done so.

    Two workers may make one shard: an engine gives it away again when it takes the first for dead.
    Whoever comes second throws away what it made, having found it the same; so files that readers
    may have open are never exchanged. Should both come at the same moment, they put the same bytes
    in place twice, which is harmless, and one of them records it. ::

        record  its files  same bytes  what happens
        no      any        -           renamed and recorded
        yes     gone       -           renamed and recorded again
        yes     there      yes         ours is thrown away
        yes     there      no          PipelineError: two machines do not make the same

    In the last case the record is withdrawn, so that no other run trusts it.

    Args:
        workspace: the output directory.
        record: what was made.
        temporaries: where it is.
        finals: where it belongs, in the same order: the data file first.

    Raises:
        PipelineError: somebody else has made other bytes of the same shard.
    """
    path = _path(workspace, record.shard)
    earlier = Commits(workspace).of(record.shard)
    if earlier is not None and is_intact(earlier, workspace.out):
        _check_same(earlier, record, workspace, path)
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        return
    path.unlink(missing_ok=True)
    publish(temporaries, finals)
    if not commit(workspace, record):
        winner = Commits(workspace).of(record.shard)
        if winner is not None:
            _check_same(winner, record, workspace, path)


def _check_same(theirs: CommitRecord, ours: CommitRecord, workspace: Workspace, path: Path) -> None:
    if theirs.files == ours.files:
        return
    path.unlink(missing_ok=True)
    pairs = zip(theirs.files, ours.files, strict=False)
    there, here = next(((x, y) for x, y in pairs if x != y), (theirs.files[0], ours.files[0]))
    raise PipelineError(
        f"{workspace.out / here.path}: two workers made different bytes of it (SHA-256 "
        f"{there.sha256[:12]} and {here.sha256[:12]}): they do not run the same programs, or the "
        "raw data changed; mend that and run again with --overwrite"
    )
