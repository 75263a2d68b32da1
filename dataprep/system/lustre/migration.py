"""Files that are already there: a directory's new layout is not theirs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dataprep.system.lustre.layout import Layout
from dataprep.system.lustre.lfs import Lfs
from dataprep.system.lustre.striping import Plan

_AT_ONCE = 8  # questions; each is a process that mostly waits for the metadata server


def files_to_migrate(
    lfs: Lfs, files: Collection[Path], plans: Iterable[Plan]
) -> list[tuple[Path, Layout]]:
    """The files whose layout is not the one that their directory is to have, and that layout.

    Raises:
        LfsError: `lfs` cannot be run.
    """
    asked = {plan.directory: plan for plan in plans if plan.asked is not None}
    chosen = [(file, asked[file.parent]) for file in sorted(files) if file.parent in asked]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lfs.layout_of, [file for file, _ in chosen]))
    return [
        (file, plan.asked)
        for (file, plan), layout in zip(chosen, found, strict=True)
        if plan.asked is not None and layout is not None and not plan.has(layout)
    ]


def migrate_files(lfs: Lfs, files: Sequence[tuple[Path, Layout]]) -> list[Path]:
    """Write the files anew in their new layouts, one after the other.

    Returns:
        Those that have another layout even so, though `lfs` succeeded.

    Raises:
        LfsError: a file could not be migrated; it and the ones behind it are as they were.
    """
    others = []
    for file, layout in files:
        before = lfs.layout_of(file)
        lfs.migrate(file, layout)
        if lfs.layout_of(file) == before:
            others.append(file)
    return others
