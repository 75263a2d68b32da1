"""Tells which class and split an image has: from its path, or from a list of classes.

The list fixes the order of the classes, so that part of a data set keeps the whole's labels: one
class a line, in the order of the labels. After a tab may follow its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dataprep.archives.listing import StoredImage, folder_of
from dataprep.datasets.folder.layout import Container, refuse_wrapped_splits
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import read_lines
from dataprep.datasets.splits import SPLIT_FOLDERS, split_of_folder
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of
from dataprep.system.state_files import file_sha256
from dataprep.tables import Row

Placed = list[tuple[str, StoredImage]]
"""Images by their path below where everything starts."""

_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)
_NUMBERED: Final = re.compile(r"[^\t]*[ \t][0-9]+[ \r]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClassList:
    """The classes of a data set, in the order of their labels.

    Attributes:
        place: what messages call the list.
        classes: (identifier, name), by 0-based index.
        indices: the index of each identifier.
        sha256: of the file.
    """

    place: str
    classes: tuple[tuple[str, str], ...]
    indices: dict[str, int]
    sha256: str


def load_class_list(path: Path) -> ClassList:
    """Read a list of classes.

    Raises:
        SourceError: it is unreadable, empty or not UTF-8, names a class twice, or numbers them.
    """
    place, lines = printable(str(path)), read_lines(path)
    if not lines:
        raise SourceError(f"{place} is empty; expected one class a line")
    # Of `/a/airfield 0` the number would be taken for part of the class or for its name.
    if all(map(_NUMBERED.fullmatch, lines.values())):
        raise SourceError(
            f"{place}: a number ends every line; expected classes in the order of their labels; "
            "sort the lines by it and take it away, or put a TAB behind it if it is part of a class"
        )
    classes: dict[str, str] = {}
    for number, line in lines.items():
        identifier, _, name = line.partition("\t")
        identifier = identifier.strip().strip("/")
        if identifier in classes:
            raise SourceError(
                f"{place}, line {number}: class {printable(identifier)} is there already; "
                "expected each class once; remove one of them"
            )
        classes[identifier] = name.strip() or identifier
    indices = {identifier: index for index, identifier in enumerate(classes)}
    return ClassList(place, tuple(classes.items()), indices, file_sha256(path))


def numbers_in_order(found: Iterable[str]) -> list[str]:
    """Class identifiers by name; by value if all are whole numbers, so that 10 comes after 9."""
    names = sorted(found)
    return sorted(names, key=int) if all(map(_NUMBER.fullmatch, names)) else names


def label_images(
    container: Container,
    split: str,
    placed: Placed,
    options: FolderOptions,
    numbers: dict[str, int],
    known: ClassList | None,
) -> Iterator[tuple[str, Row]]:
    """The split and the row of each image of a container.

    The folders below the split tell the class. An archive's images that lie in no folder have the
    archive's name as their class. Folders in an archive are splits only if every image is in one
    that is named so, with a class folder below.

    Args:
        split: the split of all its images; empty if folders in the archive may tell.
        numbers: the number of each class; gets those that are new.
        known: the only classes there may be; None if any may.

    Raises:
        SourceError: images lie partly in folders and partly not, in no class folder, in split
            folders that contradict what else is known, or have an unknown class.
    """
    paths = [path for path, _ in placed]
    wrapped = False
    if paths and not container.prefix:
        paths = _with_stem(container, paths)
        wrapped = options.split_folders and _has_split_folders(container, split, paths, options)
    unknown: set[str] = set()
    for path, (_, image) in zip(paths, placed, strict=True):
        top, _, rest = path.partition("/")
        key = rest if wrapped else path
        label = folder_of(key) if options.class_from == "path" else key.partition("/")[0]
        if known is not None and label not in known.indices:
            unknown.add(label)
            continue
        own = split_of_folder(top) if wrapped else split or options.split_name
        group = folder_of(key) if options.group_by == "folder" else ""
        if options.cut:
            own = options.cut.split_of(group or key)
        yield own, image.row(key, (numbers.setdefault(label, len(numbers)),), group=group)
    if unknown and known is not None:
        raise SourceError(
            f"unknown class in {printable(container.path)}: {some_of(unknown)}; expected those of "
            f"{known.place}; add what is missing there, or move it out of the raw directory"
        )


def _with_stem(container: Container, paths: list[str]) -> list[str]:
    """The paths of an archive's images; of a class archive with its class before them."""
    loose = [path for path in paths if "/" not in path]
    if not loose:
        return paths
    if len(loose) < len(paths) or not container.stem:
        raise SourceError(
            f"images outside a class folder in {printable(container.path)}: {some_of(loose)}; "
            "expected all its images in class folders, or, in an archive of one class, none; "
            "make the archive again, or give --listing FILE"
        )
    return [f"{container.stem}/{path}" for path in paths]


def _has_split_folders(
    container: Container, split: str, paths: Sequence[str], options: FolderOptions
) -> bool:
    """Whether the first folder of every path is a split's, with a class folder below.

    The split is often known already: ``train.tar`` may hold ``train/airfield/x.jpg``.
    """
    tops = {path.partition("/")[0] for path in paths}
    splits = set(map(split_of_folder, tops))
    depth = min(path.count("/") for path in paths)
    if splits == {""}:
        if not split and len(tops) == 1 and depth > 2:
            folder = "/".join(filter(None, (options.inside, *tops)))
            refuse_wrapped_splits(container.path, folder, {path.split("/")[1] for path in paths})
        return False
    mixed = "" in splits or depth < 2
    if split and mixed:
        return False  # all of them are classes
    if mixed or (split and splits != {split}):
        raise SourceError(
            f"{printable(container.path)} has images in {some_of(tops)}, some of which could be "
            f"splits ({SPLIT_FOLDERS}); expected all in <split>/<class>/"
            f"{f', where the split is {split}' if split else ''}; make the archive again, or give "
            "--split_folders never if they are classes"
        )
    if options.cut:
        raise SourceError(
            f"--fractions, but {printable(container.path)} has split folders: {some_of(tops)}; "
            "expected one of the two; leave --fractions out, or name one of them with --inside"
        )
    return True
