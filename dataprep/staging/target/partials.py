"""Files in a target that are not finished, or never will be."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dataprep.durable_files import PARTIAL, is_partial
from dataprep.staging.target.beneath import opened_parent, place_of
from dataprep.staging.target.refusals import target_error

_MAX_NAME = 255 - len(f"..{'0' * 8}{PARTIAL}")  # NAME_MAX, less what a temporary name adds


def partial_name(name: str) -> str:
    """Like `dataprep.durable_files.partial_path`, for names that leave no room for it too."""
    short = os.fsdecode(os.fsencode(name)[:_MAX_NAME])
    return f".{short}.{secrets.token_hex(4)}{PARTIAL}"


def remove_partials(target: int, files: Iterable[str]) -> None:
    """Delete what killed copiers left half-done where ``files`` go. The node's lock must be held.

    Raises:
        StagingError: it cannot be deleted.
    """
    for parent in sorted({path.rpartition("/")[0] for path in files}):
        with suppress(FileNotFoundError, NotADirectoryError):
            _sweep(target, parent)


def _sweep(target: int, parent: str) -> None:
    # Any name will do: only the directory that it would be in is opened.
    with opened_parent(target, f"{parent}/x".lstrip("/")) as (directory, _):
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if is_partial(Path(entry.name))]
        for name in names:
            try:
                os.unlink(name, dir_fd=directory)
            except OSError as error:
                raise target_error(error, place_of(target), f"{parent}/{name}") from error
