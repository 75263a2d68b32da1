"""Which images are assigned to splits already (--splits_from), wherever that is said."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from dataprep.datasets import Dataset
from dataprep.errors import UsageError
from dataprep.jobs.request import Request
from dataprep.jobs.workspace import Workspace
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import partial_path, rename
from dataprep.system.messages import printable, refusal
from dataprep.system.state_files import file_sha256
from dataprep.tables.records import NAME, check_sealed


def settle_cut(request: Request, dataset: Dataset) -> None:
    """Make the data set's cut name a table to read, and its digest; hold OUT.

    Of OUT itself a copy is kept there, since a run that deletes the table may be killed, and must
    find it when it is run again.

    Raises:
        DatasetError: there is no sealed set, or its table is damaged.
        UsageError: a table cannot be read.
    """
    cut = dataset.cut
    if cut is None or cut.kept is None:
        return
    table = cut.kept
    if table.is_dir():
        workspace = Workspace(request.out)
        own = table.resolve() == request.out.resolve()
        again = request.overwrite and workspace.manifest.exists()
        if own and workspace.kept_splits.exists() and not again:
            table = workspace.kept_splits
        else:
            check_sealed(table / NAME, SealedSet.read(table).manifest.records_table)
            table = table / NAME
            if own:
                _copy(table, workspace.kept_splits)
                table = workspace.kept_splits
    try:
        dataset.cut = replace(cut, kept=table, digest=file_sha256(table))
    except OSError as error:
        raise UsageError(
            f"--splits_from {printable(str(table))} cannot be read ({refusal(error)}); check the "
            "path"
        ) from error


def config_of(dataset: Dataset) -> dict[str, str]:
    """The options that shape the data set: its own, and a digest of what is assigned."""
    digest = "" if dataset.cut is None else dataset.cut.digest
    return {**dataset.config(), **({"splits_from": digest} if digest else {})}


def _copy(table: Path, kept: Path) -> None:
    temporary = partial_path(kept)
    try:
        shutil.copyfile(table, temporary)
        rename(temporary, kept)
    finally:
        temporary.unlink(missing_ok=True)
