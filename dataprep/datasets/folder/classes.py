"""Tells which class and split an image has: from its path, or from a list of classes.

The list fixes the order of the classes, so that part of a data set keeps the whole's labels: one
class a line, in the order of the labels. After a tab may follow its name or its number. In a list
without tabs a class may have spaces in it, ``apple pie``; only if every line ends in a space and a
number is that the class's number, as in Places-365's ``/a/airfield 0``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple
from unicodedata import normalize

from dataprep.archives.listing import Listing, StoredImage, below, folder_of
from dataprep.datasets.folder.layout import Container
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.splits import SPLIT_FOLDERS, split_of_folder
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of, unreadable

OUTSIDE: Final = "images that are not below --inside"
"""What they are counted as."""

WITHOUT_IMAGES: Final = "class folders or archives without images"
"""What they are counted as."""

Placed = list[tuple[str, StoredImage]]
"""Images by their path below where everything starts."""

_NUMBER: Final = re.compile(r"[0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class ClassList:
    """The classes of a data set, in the order of their labels.

    Attributes:
        place: what messages call the list.
        classes: (identifier, name), by 0-based index.
        indices: the index of each identifier and, where the list gives numbers, of each number
            as text: a listing may use either.
        sha256: of the file.
    """

    place: str
    classes: tuple[tuple[str, str], ...]
    indices: dict[str, int]
    sha256: str


class Classified(NamedTuple):  # made in half the time of a frozen dataclass
    """An image, and what its folders tell of it.

    Attributes:
        split: the split it belongs to.
        key: its name within the split.
        label: its class, or what else `ClassList.indices` knows.
        group: as in `Row`.
        image: where its bytes are.
    """

    split: str
    key: str
    label: str
    group: str
    image: StoredImage


def load_class_list(path: Path) -> ClassList:
    """Read a list of classes; a second time only if it has changed.

    Raises:
        SourceError: it is unreadable, empty or not UTF-8, names a class twice, has numbers that
            are not 0, 1, 2, … in some order, or names a class like another one's number.
    """
    try:
        status = path.stat()
        return _load(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise unreadable(str(path), error) from error


def numbers_in_order(found: Iterable[str]) -> list[str]:
    """Class identifiers by name; by value if all are whole numbers, so that 10 comes after 9."""
    names = sorted(found)
    if all(_NUMBER.fullmatch(name) for name in names):
        # Compared as text of equal length: int() refuses thousands of digits.
        names.sort(key=lambda name: (len(name.lstrip("0")), name.lstrip("0")))
    return names


def refuse_unicode_collisions(names: Iterable[str]) -> None:
    """Refuse names that are one name in two Unicode spellings.

    macOS writes é as two characters, other systems as one.

    Raises:
        SourceError: two are the same in normal form NFC.
    """
    seen: dict[str, str] = {}
    for name in sorted(name for name in names if not name.isascii()):
        other = seen.setdefault(normalize("NFC", name), name)
        if other != name:
            raise SourceError(
                f"two classes have the same name in two Unicode spellings, {other!a} and "
                f"{name!a}; expected one; rename one, or what belongs to it, as the other "
                "(macOS writes NFD, other systems NFC)"
            )


def place_images(container: Container, inside: str, images: Sequence[StoredImage]) -> Placed:
    """Give each image of a container its path, if it is below ``--inside``.

    Args:
        container: a folder, whose own name is part of the path, or an archive.
        inside: what archives are to be searched below.
        images: what the container holds.
    """
    if container.prefix:
        return [(f"{container.prefix}/{image.path}", image) for image in images]
    paths = ((below(image.path, inside), image) for image in images)
    return [(path, image) for path, image in paths if path]


def classify(
    container: Container,
    split: str,
    placed: Placed,
    options: FolderOptions,
    known: ClassList | None,
) -> Iterator[Classified]:
    """The split, key and class of a container's images.

    The folders below the split tell the class. An archive's images that lie in no folder have the
    archive's name as their class. Folders in an archive are splits only if every image is in one
    that is named so, with a class folder below.

    Args:
        container: the folder or archive.
        split: the split of all its images; empty if folders in the archive may tell.
        placed: its images and their paths.
        options: the user's.
        known: the only classes there may be; None if any may.

    Raises:
        SourceError: images lie partly in folders and partly not, in no class folder, in split
            folders that contradict what else is known, or have an unknown class.
    """
    if not placed:
        return
    paths = [path for path, _ in placed]
    if not container.prefix:
        paths = _with_stem(container, paths)
    wrapped = not container.prefix and _has_split_folders(container, split, paths, options)
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
        yield Classified(own, key, label, group, image)
    if unknown and known is not None:
        raise SourceError(
            f"unknown class in {printable(container.path)}: {some_of(unknown)}; expected those of "
            f"{known.place}; add what is missing there, or move it out of "
            "the raw directory"
        )


def class_without_images(
    container: Container, listing: Listing, inside: str, options: FolderOptions
) -> str:
    """The class of a container without images, which keeps its number; empty if it has none.

    Its name tells it: of a folder unless the whole path is the class, of an archive unless folders
    in it could be classes.

    Args:
        container: the folder or archive.
        listing: what is in it.
        inside: what archives are to be searched below.
        options: the user's.
    """
    if listing.images or inside:
        return ""
    if container.prefix:
        return container.prefix if options.class_from == "top" else ""
    in_folders = any("/" in entry.name.removeprefix("./") for entry in listing.ignored)
    return "" if in_folders else container.stem


def _with_stem(container: Container, paths: Sequence[str]) -> list[str]:
    """The paths of an archive's images; of a class archive with its class before them."""
    loose = [path for path in paths if "/" not in path]
    if not loose:
        return list(paths)
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
    if not options.split_folders:
        return False
    tops = {path.partition("/")[0]: path for path in paths}
    splits = {top: split_of_folder(top) for top in tops}
    if not any(splits.values()):
        if not split:
            _suggest_inside(container, options.inside, tops, paths)
        return False
    deep = all(path.count("/") > 1 for path in paths)
    if split and not (deep and set(splits.values()) == {split}):
        _refuse_other_splits(container, split, splits, deep=deep)
        return False
    if not all(splits.values()) or not deep:
        others = [path for top, path in tops.items() if not splits[top]]
        raise SourceError(
            f"{printable(container.path)} has images in {some_of([t for t in tops if splits[t]])}, "
            f"which could be splits ({SPLIT_FOLDERS}), but not all are in <split>/<class>/: "
            f"{some_of(others or [min(paths, key=lambda path: path.count('/'))])}; make the "
            "archive again, or give --split_folders never if they are classes"
        )
    if options.cut:
        raise SourceError(
            f"--fractions, but {printable(container.path)} has split folders: {some_of(tops)}; "
            "expected one of the two; leave --fractions out, or name one of them with --inside"
        )
    return True


def _refuse_other_splits(
    container: Container, split: str, splits: Mapping[str, str], *, deep: bool
) -> None:
    if deep and all(splits.values()):
        raise SourceError(
            f"{printable(container.path)} is {split}, but its images are in {some_of(splits)}; "
            "expected class folders; rename the archive, or give --split_folders never if these "
            "are classes"
        )


def _suggest_inside(
    container: Container, inside: str, tops: Mapping[str, str], paths: Sequence[str]
) -> None:
    """Refuse one folder round the split folders, which would be taken for the only class."""
    if len(tops) > 1 or any(path.count("/") < 3 for path in paths):
        return
    seconds = {path.split("/", 2)[1] for path in paths}
    if all(map(split_of_folder, seconds)):
        (top,) = tops
        path = f"{inside}/{top}" if inside else top
        raise SourceError(
            f"{printable(container.path)} holds {some_of(seconds)} in {printable(top)}/, which are "
            f"splits and no classes; did you mean --inside {printable(path)} ?"
        )


@lru_cache(maxsize=4)
def _load(path: Path, _size: int, _modified: int) -> ClassList:
    content = path.read_bytes()
    place = printable(str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{place}, line {line}: not UTF-8; save the list as UTF-8") from error
    if "\0" in text:
        raise SourceError(f"{place} is UTF-16 or no text; save it as UTF-8")
    lines = {number: line.strip() for number, line in enumerate(re.split("\r\n|\n|\r", text), 1)}
    pairs = _pairs({number: line for number, line in lines.items() if line}, tabs="\t" in text)
    if not pairs:
        raise SourceError(f"{place} is empty; expected one class a line")
    first: dict[str, int] = {}
    for line, (identifier, _) in pairs.items():
        if not identifier:
            raise SourceError(f"{place}, line {line}: no class; expected one class a line")
        if first.setdefault(identifier, line) != line:
            raise SourceError(
                f"{place}, line {line}: class {printable(identifier)} is already on line "
                f"{first[identifier]}; expected each class once; remove one of them, or put a TAB "
                "before what is no part of a name"
            )
    numbers = {rest: identifier for identifier, rest in pairs.values()}
    if not all(_NUMBER.fullmatch(number) for number in numbers):
        classes = [(identifier, rest or identifier) for identifier, rest in pairs.values()]
        numbers = {}
    else:
        _require_numbers(place, numbers, len(pairs))
        classes = [(numbers[str(index)], numbers[str(index)]) for index in range(len(numbers))]
    indices = {identifier: index for index, (identifier, _) in enumerate(classes)}
    indices |= {number: int(number) for number in numbers}
    return ClassList(place, tuple(classes), indices, hashlib.sha256(content).hexdigest())


def _pairs(lines: Mapping[int, str], *, tabs: bool) -> dict[int, tuple[str, str]]:
    """Each line's class and what follows it, which may be nothing; by line number."""
    parts = {number: line.partition("\t") for number, line in lines.items()}
    if not tabs:
        spaced = {number: line.rpartition(" ") for number, line in lines.items()}
        if all(name and _NUMBER.fullmatch(rest) for name, _, rest in spaced.values()):
            parts = spaced
    return {
        number: (identifier.strip().strip("/"), rest.strip())
        for number, (identifier, _, rest) in parts.items()
    }


def _require_numbers(place: str, numbers: Mapping[str, str], count: int) -> None:
    """Refuse numbers with gaps, and a class that is called like the number of another one."""
    if set(numbers) != {str(index) for index in range(count)}:
        raise SourceError(
            f"{place}: the class numbers are not 0 to {count - 1}, each once; correct them, or "
            "leave the numbers out: then the order of the lines counts"
        )
    for number, identifier in numbers.items():
        if identifier in numbers and identifier != number:
            raise SourceError(
                f"{place}: class {identifier} is called like the number of class "
                f"{printable(numbers[identifier])}, so that a label {identifier} could be either; "
                "correct the list, or leave the numbers out: then the order of the lines counts"
            )
