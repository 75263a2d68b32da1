"""Finds class folders and archives: directory listings of the top two levels, no archive opened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dataprep.archives.kinds import container_kind
from dataprep.archives.names import is_clutter_folder, is_image_name, refusal
from dataprep.datasets.base import Found
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.folder.units import Container, ContainerUnit, make_units
from dataprep.datasets.split_names import SPLIT_FOLDERS, in_usual_order, split_of_folder
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import counted, printable, some_of, unreadable

_SUFFIXES: Final = (".tar.gz", ".tgz", ".tar", ".zip")
_EXPECTED: Final = (
    "expected class folders, archives, or folders named "
    f"{SPLIT_FOLDERS} that hold them, or --listing FILE"
)


@dataclass(frozen=True, slots=True)
class Level:
    """The entries of one directory by kind, sorted by name.

    Attributes:
        path: the directory, relative to the raw directory; empty for that itself.
        inside: the path that is still to be looked for in archives.
        folders: names of its folders.
        archives: names of its archives.
        images: names of images that lie in it directly.
        broken: names of symbolic links that lead nowhere, perhaps to a class folder once.
        stray: what is nothing of these.
    """

    path: str
    inside: str = ""
    folders: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    stray: list[Ignored] = field(default_factory=list)

    def at(self, name: str) -> str:
        """The path of an entry, relative to the raw directory."""
        return f"{self.path}/{name}" if self.path else name


def open_top(raw: Path, inside: str) -> Level:
    """The directory everything starts from: `inside`, or the raw directory if archives have that.

    Raises:
        SourceError: it does not exist or cannot be read.
    """
    if inside and (raw / inside).is_dir():
        return _open(raw, Level(inside))
    if not raw.is_dir():
        problem = "is not a directory" if raw.exists() else "does not exist"
        raise SourceError(
            f"raw data directory {printable(str(raw))} {problem}; {_EXPECTED}; check --raw_data_dir"
        )
    top = _open(raw, Level("", inside))
    if inside and not top.archives:
        raise SourceError(
            f"no {printable(inside)} in {printable(str(raw))}, and no archives that could hold it; "
            f"found {_named(top)}; check --inside"
        )
    if inside:
        reason = "folder that is not below --inside"
        top.stray.extend(Ignored("", name, reason) for name in top.folders)
        top.folders.clear()
    return top


def find_folders(raw: Path, options: FolderOptions) -> Found:
    """The units of class folders and archives.

    Raises:
        SourceError: there are none, or some contradict each other.
    """
    top = open_top(raw, options.inside)
    _refuse_broken(raw, top)
    if not top.folders and not top.archives:
        raise SourceError(
            f"no images in {printable(str(raw / top.path))}: found {_named(top)}; {_EXPECTED}; "
            "check --raw_data_dir and --inside"
        )
    _refuse_images(top)
    if options.split_folders and _are_splits(top):
        return _find_splits(raw, top, options)
    _suggest_inside(raw, top, options)
    # Archives alone may have split folders in them. Beside class folders they have classes.
    split = options.split_name if top.folders and not options.cut else ""
    units = make_units(split or "all", split, _containers(top), top.inside, top.stray)
    description = f"{printable(top.path) or 'images'}: {_kinds(top)}{_ignoring(top.stray)}"
    splits = options.splits if options.cut else (split,) if split else None
    return Found((description,), tuple(units), splits, whole=True)


def _find_splits(raw: Path, top: Level, options: FolderOptions) -> Found:
    if options.cut:
        names = some_of([*top.folders, *top.archives])
        raise SourceError(
            f"--fractions with split folders: found {names}; expected one of the two; leave "
            "--fractions out, name one of them with --inside, or give --split_folders never if "
            "they are classes"
        )
    places: dict[str, list[str]] = {}
    for name in (*top.folders, *top.archives):
        places.setdefault(split_of_folder(stem_of(name)), []).append(name)
    units: list[ContainerUnit] = []
    description: list[str] = []
    stray = top.stray
    splits = in_usual_order(places)
    for split in splits:
        name, *others = places[split]
        if others:
            raise SourceError(
                f"found {some_of(places[split])}, which are all {split}; expected one; move the "
                "others out of the raw directory"
            )
        kinds, containers, ignored = _split_content(raw, top, name)
        place = printable(top.at(name))
        description.append(f"{split}: {place}{kinds}{_ignoring([*stray, *ignored])}")
        units += make_units(split, split, containers, top.inside, [*stray, *ignored])
        stray = []
    return Found(tuple(description), tuple(units), splits, whole=True)


def _split_content(raw: Path, top: Level, name: str) -> tuple[str, list[Container], list[Ignored]]:
    if name in top.archives:
        return " (one archive, read in place)", [Container(top.at(name))], []
    level = _open(raw, Level(top.at(name)))
    _refuse_broken(raw, level)
    _refuse_images(level, f"; if {printable(name)} is a class, give --split_folders never")
    if not level.folders and not level.archives:
        raise SourceError(
            f"no images in {printable(level.path)}/: found {_named(level)}; expected class folders "
            "or class archives; fill it or remove it"
        )
    return f"/ ({_kinds(level)})", _containers(level), level.stray


def _are_splits(top: Level) -> bool:
    names = [*top.folders, *top.archives]
    splits = [name for name in names if split_of_folder(stem_of(name))]
    if splits and len(splits) < len(names):
        others = [name for name in names if name not in splits]
        raise SourceError(
            f"found {some_of(splits)}, which could be splits, beside {some_of(others)}; expected "
            "all of them or none; move what does not belong out of the raw directory, or give "
            "--split_folders never if all are classes"
        )
    return bool(splits)


def _suggest_inside(raw: Path, top: Level, options: FolderOptions) -> None:
    """Refuse a lone folder that holds the splits, which would be taken for the only class."""
    if len(top.folders) != 1 or top.archives or not options.split_folders:
        return
    level = _open(raw, Level(top.at(top.folders[0])))
    names = [*level.folders, *level.archives]
    if names and all(split_of_folder(stem_of(name)) for name in names):
        raise SourceError(
            f"{printable(level.path)}/ holds {some_of(names)}, which are splits and no classes; "
            f"did you mean --inside {printable(level.path)} ?"
        )


def find_to_join(top: Level) -> list[ContainerUnit]:
    """The units of all folders and archives, to be joined with a listing.

    Raises:
        SourceError: a folder and an archive have the same name.
    """
    reason = "image beside the archives; only those in archives and folders are looked for"
    loose = [Ignored(top.path, name, reason) for name in top.images]
    return make_units("images", "", _containers(top), top.inside, [*top.stray, *loose])


def stem_of(name: str) -> str:
    """The name of an archive without its suffix; any other name as it is."""
    lower = name.lower()
    suffix = next((suffix for suffix in _SUFFIXES if lower.endswith(suffix)), "")
    return name[: len(name) - len(suffix)]


def _containers(level: Level) -> list[Container]:
    both = set(level.folders).intersection(map(stem_of, level.archives))
    if both:
        raise SourceError(
            f"found {some_of(both)} both as a folder and as an archive in "
            f"{printable(level.path) or 'the raw directory'}; expected each class in one form "
            "only; remove one of them"
        )
    folders = [Container(level.at(name), prefix=name) for name in level.folders]
    return folders + [Container(level.at(name), stem=stem_of(name)) for name in level.archives]


def _refuse_images(level: Level, advice: str = "") -> None:
    if level.images:
        images = some_of([level.at(name) for name in level.images])
        raise SourceError(
            f"images outside a class folder: {images}; expected class folders or --listing FILE; "
            f"move them into their class folder{advice}"
        )


def _refuse_broken(raw: Path, level: Level) -> None:
    """Refuse a link that leads nowhere: without its class, others would get its label."""
    for name in level.broken:
        path = raw / level.at(name)
        try:
            path.stat()
        except OSError as error:
            target = printable(str(path.readlink()))
            raise SourceError(
                f"{printable(level.at(name))} is a symbolic link to {target}, which cannot be read "
                f"({error.strerror}); restore the folder or remove the link"
            ) from error


def _open(raw: Path, level: Level) -> Level:
    try:
        with os.scandir(raw / level.path) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                _sort_in(entry, level)
    except OSError as error:
        raise unreadable(level.path or str(raw), error) from error
    return level


def _sort_in(entry: os.DirEntry[str], level: Level) -> None:
    reason = ""
    if entry.is_dir():
        if is_clutter_folder(entry.name):
            reason = "hidden or system folder"
        else:
            level.folders.append(entry.name)
    elif entry.name.startswith("."):
        reason = refusal(entry.name)
    elif not entry.is_file() and not entry.is_symlink():  # opening a named pipe would block
        reason = "not a regular file"
    elif container_kind(entry.name):
        level.archives.append(entry.name)
    elif is_image_name(entry.name):
        level.images.append(entry.name)
    else:
        reason = "neither a folder, an archive nor an image"
        if not entry.is_file() and not is_clutter_folder(entry.name):
            level.broken.append(entry.name)
    if reason:
        level.stray.append(Ignored(level.path, entry.name, reason))


def _named(level: Level) -> str:
    names = [*level.folders, *level.archives, *level.images]
    return some_of([*names, *(entry.name for entry in level.stray)]) or "nothing"


def _kinds(level: Level) -> str:
    folders = [counted(len(level.folders), "class folder")] if level.folders else []
    archives = [counted(len(level.archives), "archive")] if level.archives else []
    read = ", read in place" if archives else ""
    return " and ".join(folders + archives) + read


def _ignoring(stray: Sequence[Ignored]) -> str:
    return f", ignoring {some_of([entry.name for entry in stray])}" if stray else ""
