"""The directory that the user says holds the raw data, and where else it may have been meant."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from dataprep.archives.listing import is_clutter_folder, refusal
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable

_MOST_FOLDERS_TRIED: Final = 100


def list_raw(raw: Path, expected: str) -> list[str]:
    """The names in the raw directory, sorted.

    Args:
        raw: the raw directory, as the user gave it.
        expected: what it should hold, for the message.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    try:
        if raw.is_dir():
            return sorted(path.name for path in raw.iterdir())
        problem = "is not a directory" if raw.exists() else "does not exist"
    except OSError as error:
        raise unreadable(str(raw), error) from error
    raise SourceError(
        f"raw data directory {printable(str(raw))} {problem}; expected the directory that holds "
        f"{expected}; check --raw_data_dir"
    )


def list_entries(raw: Path, directory: str) -> list[tuple[str, bool, str]]:
    """The entries of a directory by name: whether each is a folder, and why it is left out.

    Hidden files, folders of the system and what is neither a file nor a folder are left out. A
    link to nowhere is not: it fails with its name when it is read.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with os.scandir(raw / directory) as entries:
            return sorted((entry.name, entry.is_dir(), _left_out(entry)) for entry in entries)
    except OSError as error:
        raise unreadable(directory or str(raw), error) from error


def _left_out(entry: os.DirEntry[str]) -> str:
    if entry.is_dir():
        return "hidden or system folder" if is_clutter_folder(entry.name) else ""
    if entry.name.startswith("."):
        return refusal(entry.name)
    # Opening a named pipe would block.
    return "" if entry.is_file() or entry.is_symlink() else "not a regular file"


def likely(
    raw: Path,
    below: Sequence[str],
    above: int,
    holds: Callable[[Path], bool],
) -> Iterator[str]:
    """Directories below or above `raw` that hold what was looked for, while `raw` does not.

    Args:
        raw: the raw directory, as the user gave it.
        below: names or paths in it, the likeliest first.
        above: which of the directories that it is in: 1 is the nearest; 0 for none.
        holds: whether a directory holds what was looked for.
    """
    if _can_hold(raw, holds):
        return
    for name in below[:_MOST_FOLDERS_TRIED]:
        if _can_hold(raw / name, holds):
            yield str(raw / name)
    # Lexical on purpose: behind a symbolic link the user means the path as it was typed.
    outer = os.path.normpath(raw.joinpath(*[".."] * above))
    if above and _can_hold(Path(outer), holds):
        yield outer


def _can_hold(directory: Path, holds: Callable[[Path], bool]) -> bool:
    try:
        return holds(directory)
    except OSError:  # a directory that cannot be looked into is no advice
        return False
