"""What a directory holds, or will hold, as far as its layout goes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from dataprep.build.manifest import read_manifest
from dataprep.errors import DatasetError
from dataprep.system.lustre.striping import Expected
from dataprep.system.messages import unreadable


def expected_in(
    root: Path, files: Mapping[Path, int], file_size: int | None, default: int
) -> list[Expected]:
    """The directories whose layout matters: the one that was named, and those that hold files.

    Args:
        root: what the user named; its largest file is the largest of any below.
        files: what is there or is known to come, with sizes.
        file_size: what the user says will be there; believed more than what is there.
        default: for a directory of which nothing is known.
    """
    largest = {root: 0 if files else default}
    for file, size in files.items():
        for directory in (file.parent, root):
            largest[directory] = max(size, largest.get(directory, 0))
    if file_size is not None:
        largest = dict.fromkeys(largest, file_size)
    return [Expected(directory, largest[directory]) for directory in sorted(largest)]


def existing_files(root: Path) -> dict[Path, int]:
    """The regular files below a directory, and their sizes.

    Hidden ones are left out, and what is in hidden directories: unfinished files, and what
    programs keep for themselves.

    Raises:
        SourceError: a directory cannot be read.
    """
    return dict(_walk(root)) if root.exists() else {}


def promised_files(root: Path) -> dict[Path, int]:
    """The shards that a manifest names, and their sizes, whether they are there yet or not."""
    try:
        manifest = read_manifest(root)
    except DatasetError:
        return {}
    # Not the sidecars, which are small, and may be elsewhere.
    data = [shard["files"][0] for split in manifest["splits"].values() for shard in split["shards"]]
    return {root / file["path"]: file["bytes"] for file in data}


def _walk(root: Path) -> Iterator[tuple[Path, int]]:
    def fail(error: OSError) -> None:
        raise unreadable(str(error.filename or root), error) from error

    for place, directories, names in os.walk(root, onerror=fail):
        directories[:] = [name for name in directories if not name.startswith(".")]
        for name in names:
            file = Path(place, name)
            if name.startswith(".") or file.is_symlink() or not file.is_file():
                continue
            with suppress(FileNotFoundError):  # a job is at work there
                yield file, file.stat().st_size
