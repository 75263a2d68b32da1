"""The directory that the user says holds the raw data, and what is in it."""

from __future__ import annotations

import os
from pathlib import Path

from dataprep.archives.listing import is_clutter_folder, refusal
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable


def list_raw(raw: Path, expected: str) -> list[str]:
    """The names in the raw directory, sorted.

    Args:
        expected: what it should hold, for the message.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    try:
        return sorted(path.name for path in raw.iterdir())
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = "is not a directory" if raw.exists() else "does not exist"
        raise SourceError(
            f"raw data directory {printable(str(raw))} {problem}; expected the directory that "
            f"holds {expected}; check --raw"
        ) from error
    except OSError as error:
        raise unreadable(str(raw), error) from error


def leads_out(raw: Path, name: str) -> bool:
    """Whether a file in the raw directory is reached through a link that leads out of it.

    Whoever gave the directory away may have put one there to somebody's private file; so no
    message may quote what is in it.
    """
    return not Path(os.path.realpath(raw / name)).is_relative_to(os.path.realpath(raw))


def list_entries(raw: Path, directory: str) -> list[tuple[str, bool, str]]:
    """The entries of a directory by name: whether each is a folder, and why it is left out.

    Hidden files, folders of the system and what is neither a file nor a folder are left out.

    Raises:
        SourceError: it cannot be read, or holds a link that leads nowhere: without the class that
            a link led to, others would get its label.
    """
    try:
        with os.scandir(raw / directory) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
            return [(entry.name, entry.is_dir(), _left_out(directory, entry)) for entry in found]
    except OSError as error:
        raise unreadable(directory or str(raw), error) from error


def _left_out(directory: str, entry: os.DirEntry[str]) -> str:
    if entry.is_dir():
        return "hidden or system folder" if is_clutter_folder(entry.name) else ""
    if entry.name.startswith("."):
        return refusal(entry.name)
    if entry.is_file():
        return ""
    try:
        entry.stat()
    except OSError as error:
        raise unreadable(f"{directory}/{entry.name}".lstrip("/"), error) from error
    return "not a regular file"  # opening a named pipe would block
