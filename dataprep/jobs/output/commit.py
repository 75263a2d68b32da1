"""Commit records, the only evidence that a shard is finished; and how far the others are.

A shard is written under temporary names, flushed, renamed, and only then recorded; so a shard
with a record is whole, and a shard without one is made again, to the same bytes. Progress,
resuming and the manifest all read these records, and nothing else, so they work the same on
every engine. A format with one file a split would otherwise say nothing for hours; so a shard that
is being written leaves a note of how far it is. Those are evidence of nothing: they are written
without care and ignored by everything but displays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dataprep.errors import PipelineError
from dataprep.jobs.output.workspace import Workspace
from dataprep.system.durable_files import partial_path, rename, write_once
from dataprep.system.regular_files import read_regular
from dataprep.system.state_files import encode, is_intact, read_state
from dataprep.tables.records import conspicuous
from dataprep_schemas.manifest import File
from dataprep_schemas.state import CommitRecord, RowsFile, ShardName

_NOTE_SECONDS = 2.0  # between two notes of how far a shard is, at least


def read_records(workspace: Workspace, known: Collection[str] = ()) -> list[CommitRecord]:
    """The records of a directory, by split and number, but for shards of these names.

    One that is damaged counts as not there: its shard is made again.
    """
    paths = (path for path in workspace.commits.glob("[!.]*.json") if path.stem not in known)
    found = [record for path in paths if (record := _load(path)) is not None]
    return sorted(found, key=lambda record: (record.shard.split, record.shard.number))


def rejected_images(
    workspace: Workspace, records: Iterable[CommitRecord]
) -> Iterator[tuple[str, str, str, str]]:
    """Split, key, container and reason of every rejected image.

    Raises:
        DatasetError: the rows of a shard are damaged.
    """
    columns = ("status", "split", "key", "container", "reason")
    for record in records:
        if record.rejected:
            for status, *found in conspicuous(workspace.rows(record.shard), columns):
                if status == "rejected":
                    yield tuple(found)


def _load(path: Path) -> CommitRecord | None:
    record = read_state(path, CommitRecord)
    return record if record is not None and str(record.shard) == path.stem else None


def finished_shard(workspace: Workspace, shard: ShardName) -> CommitRecord | None:
    """The record of a shard that is there, looked up now; None if it is to be made."""
    record = _load(workspace.record(shard))
    return record if record is not None and _is_there(record, workspace.out) else None


def finished_shards(workspace: Workspace) -> list[CommitRecord]:
    """The records of all shards that are there, by split and number."""
    return [record for record in read_records(workspace) if _is_there(record, workspace.out)]


def _is_there(record: CommitRecord, out: Path) -> bool:
    """Whether every file of a shard has its size, and its rows are there to the last bit.

    Nobody can tell by its rows that they were damaged once they are among those of other shards.
    """
    rows = record.rows
    return are_there(out, record.files) and is_intact(out / rows.path, rows.sha256)


def are_there(out: Path, files: Iterable[File]) -> bool:
    """Whether every one of them has its size."""
    try:
        return all((out / file.path).stat().st_size == file.bytes for file in files)
    except (FileNotFoundError, NotADirectoryError):
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


def publish(
    temporaries: Sequence[Path], finals: Sequence[Path], check: Callable[[], object] = lambda: None
) -> None:
    """Rename finished files into place, the data file last: what readers glob for is complete.

    Repeating it is harmless, since the same shard always has the same bytes. The renames are not
    flushed to the disk here: a record that outlives them in a power cut is found out by
    `finished_shard`, and sealing flushes the directories once.

    Args:
        finals: where they belong, in the same order.
        check: as for `rename`.
    """
    for temporary, final in reversed(list(zip(temporaries, finals, strict=True))):
        rename(temporary, final, check)


def commit(workspace: Workspace, record: CommitRecord) -> bool:
    """Record that a published shard is finished; False: somebody else has just done so."""
    return write_once(workspace.record(record.shard), encode(record))


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
        finals: where it belongs, in the same order: the data file first, its rows last.

    Raises:
        PipelineError: somebody else has made other bytes of the same shard.
    """
    path = workspace.record(record.shard)
    earlier = finished_shard(workspace, record.shard)
    if earlier is not None:
        _check_same(earlier, record, workspace, path)
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)
        return
    path.unlink(missing_ok=True)
    publish(temporaries, finals)
    if not commit(workspace, record):
        winner = _load(path)
        if winner is not None:
            _check_same(winner, record, workspace, path)


def _check_same(theirs: CommitRecord, ours: CommitRecord, workspace: Workspace, path: Path) -> None:
    if (theirs.files, theirs.rows) == (ours.files, ours.rows):
        return
    path.unlink(missing_ok=True)
    made: list[File | RowsFile] = [*ours.files, ours.rows]
    found: list[File | RowsFile] = [*theirs.files, theirs.rows]
    pairs = zip(found, made, strict=False)
    there, here = next(((x, y) for x, y in pairs if x != y), (found[0], made[0]))
    raise PipelineError(
        f"{workspace.out / here.path}: two workers made different bytes of it (SHA-256 "
        f"{there.sha256[:12]} and {here.sha256[:12]}): they do not run the same programs, or the "
        "raw data changed; mend that and run again with --overwrite"
    )


class ShardProgress:
    """Notes the number of images of one shard, now and then.

    Args:
        seconds: between two notes. Of thousands of workers, each should write less often: every
            note is a few requests to the file system's metadata server.
    """

    def __init__(self, workspace: Workspace, shard: ShardName, seconds: float) -> None:
        self._path = workspace.progress / str(shard)
        self._images = 0
        self._seconds = max(seconds, _NOTE_SECONDS)
        self._noted = time.monotonic()

    def advance(self) -> None:
        """One more image."""
        self._images += 1
        if time.monotonic() >= self._noted + self._seconds:
            self._noted = time.monotonic()
            with suppress(OSError):
                self._path.write_text(str(self._images))

    def finish(self) -> None:
        """The shard is committed, or given up."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def images_under_way(workspace: Workspace) -> int:
    """How many images of unfinished shards have been written."""
    total = 0
    with suppress(OSError):
        for path in workspace.progress.iterdir():
            with suppress(OSError, ValueError):
                total += int(read_regular(path))
    return total


def forget_progress(workspace: Workspace) -> None:
    """Remove what a killed run noted; call only while holding the lock."""
    for path in workspace.progress.iterdir():
        path.unlink(missing_ok=True)
