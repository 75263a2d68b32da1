"""What can be done about a data set's bad files: how to have them again, and deleting them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dataprep.errors import DatasetError
from dataprep.jobs.lock import check_held, locked
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.verify import Verified
from dataprep.system.state_files import read_state
from dataprep_schemas.state import StoredJob

STAGED: Final = ".dataprep-stage"
"""What staging keeps in a copy; see `dataprep.staging.directory`."""

_COPY: Final = (
    "take it from another copy: `dataprep stage COPY --to NEW` or `dataprep convert COPY --to NEW`"
)


def remedy(out: Path) -> str:
    """How to have the bad files of a data set again, once they are deleted."""
    if (out / STAGED).is_dir():
        return "run the same dataprep stage again, with --verify reread: it copies only those"
    workspace = Workspace(out)
    if not workspace.private.is_dir():
        return _COPY
    stored = read_state(workspace.job, StoredJob)
    if stored is None:
        return "run the command that made it with --overwrite, as nothing tells which that was"
    if stored.generations:
        return f"it grew by --append, so {_COPY}; or make it anew with --overwrite"
    again = f"this command again: {stored.command}" if stored.command else "the call again"
    return f"run {again}; it makes only those anew"


def discard(out: Path, found: Verified) -> list[str]:
    """Delete the bad files that a verification found, and nothing else.

    Files that are not the data set's stay.

    Returns:
        Their paths.

    Raises:
        DatasetError: nothing here could have them again; or one is behind a link.
        LockedError: a run is working here.
    """
    workspace, staged = Workspace(out), (out / STAGED).is_dir()
    stored = read_state(workspace.job, StoredJob)
    if not staged and (stored is None or stored.generations):
        raise DatasetError(
            f"nothing in {out} can make the files anew, so none is deleted; bring them back from a "
            "copy, or make the data set again with --overwrite"
        )
    bad = dict.fromkeys(problem.path for problem in found.problems if not problem.foreign)
    paths = {name: workspace.path_of(name) for name in bad}
    if staged:
        return _delete(paths)
    workspace.require_own()
    with locked(workspace) as lease:
        check_held(lease)
        return _delete(paths)


def _delete(paths: dict[str, Path]) -> list[str]:
    there = [name for name, path in paths.items() if path.exists() or path.is_symlink()]
    for name in there:
        paths[name].unlink()
    return there
