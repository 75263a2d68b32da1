"""What may be deleted or written over in an output directory: only what dataprep made there."""

from __future__ import annotations

import shutil
from pathlib import Path

from dataprep.assembly.commit import Commits
from dataprep.assembly.job import Job
from dataprep.assembly.workspace import Workspace
from dataprep.errors import DatasetError
from dataprep.plugins import load_sink


def remove_built_files(workspace: Workspace) -> None:
    """Delete the data set but not the index, which is about the raw data; nobody else's files."""
    workspace.manifest.unlink(missing_ok=True)
    directories: set[Path] = set()
    for record in Commits(workspace).all():
        for file in record.files:
            path = workspace.out / file.path
            path.unlink(missing_ok=True)
            directories.update(parent for parent in path.parents if parent > workspace.out)
    workspace.job.unlink(missing_ok=True)
    for private in (workspace.commits, workspace.deck):
        shutil.rmtree(private)
        private.mkdir()
    for directory in sorted(directories, reverse=True):  # the deepest first
        if directory.is_dir() and not any(directory.iterdir()):
            directory.rmdir()


def check_foreign_files(job: Job, *, fresh: bool) -> None:
    """Refuse a directory that holds shards of something else, which readers would take in.

    Args:
        job: what will be written.
        fresh: nothing of this job has been written yet, so even its own names are foreign.

    Raises:
        DatasetError: names the first such file.
    """
    sink = load_sink(job.sink)
    expected = {
        job.workspace.out / path
        for shard in job.shard_names()
        for path in sink.paths(shard, job.layout)
    }
    for directory in sorted({path.parent for path in expected}):
        for split in job.splits:
            for path in sorted(directory.glob(f"{split.name}-*-of-*")):
                if fresh or path not in expected:
                    raise DatasetError(
                        f"{path} is in the way: it was not written by this job, and readers would "
                        "take it in; move it away, or choose another --local_scratch_dir"
                    )
