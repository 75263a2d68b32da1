"""How what ``--append`` made becomes a part of the data set, and what ``compact`` made all of it.

That is an ordinary data set in a directory of its own inside OUT, of the images that
``records.parquet`` lacks. In the end it is merged: every shard is renamed to its number of the new
count, and table and manifest are exchanged; of what was compacted the old shards are deleted. All
of that is first written down in a journal, so a merge that is killed is finished by the next run,
whichever that is; meanwhile there is no manifest.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.errors import DatasetError
from dataprep.formats import Layout, ShardName, Sink
from dataprep.jobs.output.lock import Lease, check_held
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running.identity import store_grown
from dataprep.jobs.running.seal import publish_manifest, sync_above
from dataprep.sealed.set import SealedSet, sink_of
from dataprep.system.durable_files import sync_directory
from dataprep.system.state_files import encode, read_document, write_state
from dataprep_schemas.manifest import Manifest
from dataprep_schemas.state import MergeJournal

if TYPE_CHECKING:
    pass


_REMEDY: Final = "move the directory away, and run the command that made the data set again"

Renames = Sequence[tuple[str, str]]
"""Present and new path of files, relative to OUT."""


def exchange(
    before: SealedSet, new: Manifest, lease: Lease, renames: Renames | None = None
) -> SealedSet:
    """Let what was made inside OUT take the place of the data set there, or join it.

    Args:
        before: what there is so far; files that the new manifest does not name are deleted.
        renames: of shards; None: all are new.

    Raises:
        DatasetError: a file that is not the data set's is in the way.
        LockedError: another run has taken the directory over.
    """
    out, workspace = before.out, Workspace(before.out)
    there = {file.path for file in before.manifest.files()}
    names = [file.path for file in new.files()]
    place, table = workspace.generation.relative_to(out).as_posix(), new.records_table.path
    renames = renames or [(f"{place}/{path}", path) for path in names]
    for target in (target for _, target in renames if target not in there):
        if (out / target).exists():
            raise DatasetError(
                f"{out / target} is in the way: it was not written by this job, and readers would "
                "take it in; move it away, and run the same command again"
            )
    for directory in (workspace.generation, workspace.private):
        sync_directory(directory)
    journal = MergeJournal(
        manifest=new,
        renames=(*renames, (f"{place}/{table}", table)),
        deletions=tuple(sorted(there.difference(names, (source for source, _ in renames)))),
    )
    write_state(workspace.journal, journal, flush=True, check=partial(check_held, lease))
    sync_directory(workspace.private)
    finish_merge(workspace, lease)
    return SealedSet.of(out, new)


def finish_merge(workspace: Workspace, lease: Lease) -> bool:
    """Do what the journal says, from wherever a killed run left off; False: there is none.

    Every step may be repeated. There is no manifest until every file has its new name.

    Raises:
        DatasetError: a file is gone, or the journal is damaged.
        LockedError: another run has taken the directory over.
    """
    if not workspace.journal.exists():
        return False
    out = workspace.out
    journal = read_document(workspace.journal, MergeJournal, _REMEDY)
    pairs, gone = _checked_journal(workspace, journal)
    check_held(lease)
    workspace.manifest.unlink(missing_ok=True)
    sync_directory(out)
    for source, target in pairs:
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        elif not target.exists():
            raise DatasetError(
                f"{target} is gone, and so is {source}, from which it was to be; {_REMEDY}"
            )
    for path in gone:
        path.unlink(missing_ok=True)
    # Before a directory goes: a rename out of it that does not last leaves the file in it.
    sync_above(out, (*journal.deletions, *(target for _, target in journal.renames)))
    # Formats whose shards are directories leave those under their old names.
    for directory in sorted({path.parent for path in (*gone, *(source for source, _ in pairs))}):
        if directory != out and directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()
    store_grown(workspace, journal.manifest)
    publish_manifest(workspace, lease, encode(journal.manifest))
    for private in (workspace.commits, workspace.order, workspace.generation):
        if private.exists():
            shutil.rmtree(private)
    workspace.make()
    sync_directory(workspace.private)  # what was removed stays so once the journal is gone
    workspace.journal.unlink()
    return True


def _checked_journal(
    workspace: Workspace, journal: MergeJournal
) -> tuple[list[tuple[Path, Path]], list[Path]]:
    """What the journal says: pairs of present and new paths, and old files.

    New paths are the manifest's, and old ones what the format calls shards of its splits.
    """
    added, manifest = Workspace(workspace.generation), journal.manifest
    place = f"{added.out.relative_to(workspace.out).as_posix()}/"

    def present(name: str) -> Path:
        inner = name.removeprefix(place)
        return (workspace if inner == name else added).path_of(inner)

    pairs = [(present(old), workspace.path_of(new)) for old, new in journal.renames]
    gone = [workspace.path_of(name) for name in journal.deletions]
    made = {*(file.path for file in manifest.files()), manifest.records_table.path}
    old = [*journal.deletions, *(old for old, _ in journal.renames if not old.startswith(place))]
    sink, splits, layout = sink_of(manifest), manifest.splits, manifest.layout
    strange = {new for _, new in journal.renames} - made
    strange |= {name for name in old if not _is_shard(name, sink, splits, layout)}
    if strange or not made.isdisjoint(journal.deletions):
        raise DatasetError(f"{workspace.journal} names files that no run would; {_REMEDY}")
    return pairs, gone


def _is_shard(name: str, sink: Sink, splits: Collection[str], layout: Layout) -> bool:
    """Whether it is a file of a shard of any number of shards: ``train-00003-of-00007``."""
    found = re.search(r"(?:^|/)([^/]+)-([0-9]{5,7})-of-([0-9]{5,7})", name)
    if found is not None:
        shards = [ShardName(found[1], int(found[2]), int(found[3]))]
    else:
        shards = [ShardName(split, 0, 1) for split in splits]
    return any(
        shard.split in splits and name in map(str, sink.paths(shard, layout)) for shard in shards
    )
