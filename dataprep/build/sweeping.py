"""What killed runs left behind, and removing it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from dataprep.build.identity import planned_paths
from dataprep.build.workspace import Workspace
from dataprep.system.durable_files import PARTIAL, is_partial


def remove_partial_files(workspace: Workspace, splits: Sequence[str]) -> None:
    """Delete what killed runs left behind; call only while holding the lock.

    Looks only where a run writes, and only for names that it gives: the output directory may hold
    other people's files, even the raw data.

    Args:
        workspace: the output directory.
        splits: those that this run makes, as far as they are known.
    """
    directories = {workspace.out, *workspace.private_directories()}
    directories |= {workspace.out / split for split in splits}
    directories |= set(workspace.rejected.glob("*"))
    directories |= {(workspace.out / path).parent for path in planned_paths(workspace)}
    for directory in directories:
        _remove_partials(directory)


def _remove_partials(directory: Path) -> None:
    for path in directory.glob(f".*{PARTIAL}"):
        if not is_partial(path):
            continue
        if path.is_dir() and not path.is_symlink():  # some library insisted on a directory
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
