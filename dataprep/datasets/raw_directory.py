"""The directory that the user says holds the raw data, and what is in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dataprep.archives.containers import container_kind
from dataprep.archives.listing import is_clutter_folder, is_image_name, refusal
from dataprep.errors import SourceError
from dataprep.rows import Ignored
from dataprep.system.filesystems import walk
from dataprep.system.messages import printable, unreadable

# ImageNet-22K is 21,841 class archives: a unit each would be that many small files of the index.
_ENOUGH_UNITS: Final = 350
_MOST_IN_UNIT: Final = 64

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of one directory by kind, sorted by name."""

    path: str  # the directory, relative to the raw directory; empty for that itself
    folders: list[str] = field(default_factory=list)  # names of its folders
    archives: list[str] = field(default_factory=list)  # names of its archives
    images: list[str] = field(default_factory=list)  # names of images that lie in it directly
    # What is nothing of these: hidden files, folders of the system, devices.
    others: list[Ignored] = field(default_factory=list)

    def at(self, name: str) -> str:
        """The path of an entry, relative to the raw directory."""
        return f"{self.path}/{name}" if self.path else name


def entries_of(raw: Path, path: str) -> Entries:
    """List one directory; no archive is opened.

    Raises:
        SourceError: it cannot be read, or holds a link that leads nowhere: without the class that
            a link led to, others would get its label.
    """
    level = Entries(path)

    def refuse(_path: str, error: OSError) -> None:
        raise unreadable(path or str(raw), error) from error

    _, entries = next(walk(raw / path, failed=refuse))
    for entry in sorted(entries, key=lambda entry: entry.name):
        if reason := _left_out(level.at(entry.name), entry):
            level.others.append(Ignored(path, entry.name, reason))
        elif entry.is_dir():
            level.folders.append(entry.name)
        elif container_kind(entry.name):
            level.archives.append(entry.name)
        else:
            level.images.append(entry.name)
    return level


def _left_out(path: str, entry: os.DirEntry[str]) -> str:
    name = entry.name
    if entry.is_dir():
        return "hidden or system folder" if is_clutter_folder(name) else ""
    if name.startswith("."):
        return refusal(name)
    if not entry.is_file():
        try:
            entry.stat()
        except OSError as error:
            raise unreadable(path, error) from error
        return "not a regular file"  # opening a named pipe would block
    usable = container_kind(name) or is_image_name(name)
    return "" if usable else "neither a folder, an archive nor an image"


def in_batches(items: Sequence[Item], is_alone: Callable[[Item], bool]) -> list[Sequence[Item]]:
    """Folders or files in about 350 units or, if there are very many, 64 in each; in their order.

    Args:
        is_alone: whether one is a unit of its own, and comes first: a compressed archive, since a
            unit has one file of restart points and one copy.
    """
    alone = [item for item in items if is_alone(item)]
    others = [item for item in items if not is_alone(item)] if alone else items
    size = max(1, min(_MOST_IN_UNIT, -(-len(others) // _ENOUGH_UNITS)))
    parts = (others[at : at + size] for at in range(0, len(others), size))
    return [*([item] for item in alone), *parts]


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
