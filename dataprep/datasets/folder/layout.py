"""Finds class folders and archives, and tells which class and split an image in them has.

To find them, the top two levels of directories are listed, and no archive is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.containers import container_kind, container_stem
from dataprep.archives.listing import StoredImage, folder_of
from dataprep.datasets.base import Found, ScanUnit
from dataprep.datasets.folder.beside import (
    refuse_labels,
    refuse_listing,
    refuse_no_classes,
)
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList
from dataprep.datasets.raw_directory import Level, list_raw, open_level
from dataprep.datasets.splits import SPLIT_FOLDERS, in_usual_order, split_of_folder
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of
from dataprep.tables import Ignored, Row, Unmatched

Stray = Ignored | Unmatched
Layout = tuple[tuple[str, ...], tuple[ScanUnit, ...], tuple[str, ...] | None]
BoxForm = Literal["", "fractions", "pixels", "pixels of files"]

# ImageNet-22K is 21,841 class archives: a unit each would be that many small files of the index.
_ENOUGH_UNITS: Final = 350
_MOST_CONTAINERS: Final = 64
METADATA: Final = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
_EXPECTED: Final = (
    f"class folders, archives, or folders named {SPLIT_FOLDERS} that hold them, or --listing FILE"
)


@dataclass(frozen=True, slots=True)
class Container:
    """A folder, searched to any depth, or an archive.

    Attributes:
        path: relative to the raw directory.
        prefix: of a folder, what stands before its images' paths; empty for an archive.
        stem: of an archive whose images may lie in no folder, the class they then have.
        flat: whether only the images that lie in the folder itself are taken.
    """

    path: str
    prefix: str = ""
    stem: str = ""
    flat: bool = False

    @property
    def order(self) -> str:
        """Sorts containers as their images' keys sort: ``/`` comes after ``-``."""
        return f"{self.prefix or self.stem}/"


@dataclass(frozen=True, slots=True)
class ContainerUnit(ScanUnit):
    """Consecutive folders and archives of one split.

    Attributes:
        split: the split of all of them; empty if their content or `Cut` tells.
        containers: at most 64, at least one.
        inside: the path below which an archive's images are taken; of folders it is part of the
            path already.
        listed: whether a list tells everything else of the images.
        stray: what lay beside them; reported with the first unit. Images count for --max_bad.
    """

    split: str
    containers: tuple[Container, ...]
    inside: str = ""
    stray: tuple[Stray, ...] = ()
    listed: bool = False


@dataclass(frozen=True, slots=True)
class ListingUnit(ScanUnit):
    """A listing.

    Attributes:
        top: the directory that the listed paths start from, relative to the raw directory; empty
            for that itself.
        packed: whether other units hold the images, which are in archives.
        paths: where it is, relative to the raw directory or absolute; of annotations, several.
        split: the split of its images, if their folder or its name tells it.
        column: of the paths, where that is known.
        boxes: how those of a listing are given, if a row is a box: of files that say how large
            they are, too.
        several: whether images may have several labels by them.
    """

    top: str
    packed: bool
    paths: tuple[str, ...] = ()
    split: str = ""
    column: str = ""
    boxes: BoxForm = ""
    several: bool = False


@dataclass(frozen=True)
class FolderFound(Found):
    """What was found of an image set.

    Attributes:
        known: the only classes there may be; None if any may.
        names: of annotations, (id, identifier) of the classes of all of them.
    """

    known: ClassList | None = None
    names: tuple[tuple[int | str, str], ...] = ()


def open_top(raw: Path, inside: str) -> tuple[Level, str]:
    """The directory everything starts from, and the path still to be looked for in its archives.

    Raises:
        SourceError: it does not exist or cannot be read.
    """
    if inside and (raw / inside).is_dir():
        return open_level(raw, inside), ""
    list_raw(raw, _EXPECTED)
    top = open_level(raw, "")
    if not inside:
        return top, ""
    if not top.archives:
        raise SourceError(
            f"no {printable(inside)} in {printable(str(raw))}, and no archives that could hold it; "
            "check --inside"
        )
    reason = "folder that is not below --inside"
    others = top.others + [Ignored("", name, reason) for name in top.folders]
    return replace(top, folders=[], others=others), inside


def metadata_beside(raw: Path, top: str, *, splits: bool) -> list[ListingUnit]:
    """Tables beside images as Hugging Face's ``imagefolder`` has them: in the top, or by split.

    Args:
        splits: whether folders may be splits.

    Raises:
        SourceError: a directory cannot be read, or has several.
    """
    folders = {"": open_level(raw, top)} if (raw / top).is_dir() else {}
    if folders and splits:
        above = folders[""]
        folders |= {
            split: open_level(raw, above.at(name))
            for name in above.folders
            if (split := split_of_folder(name))
        }
    found = []
    for split, level in folders.items():
        names = [entry.name for entry in level.others if entry.name in METADATA]
        if len(names) > 1:
            raise SourceError(
                f"{printable(level.path or str(raw))} has {some_of(names)}; expected one of them; "
                "move what should not be read out of the raw directory"
            )
        for name in names:
            path = level.at(name)
            unit = f"listing-{split}" if split else "listing"
            found.append(ListingUnit(unit, path, level.path, False, (path,), split, "file_name"))
        if names and not split:
            return found
    # A table that one split lacks would lose its images without a word.
    if found and (bare := {*folders} - {"", *(unit.split for unit in found)}):
        raise SourceError(
            f"{some_of([folders[split].path for split in bare])}: no {METADATA[0]} or alike, as "
            f"{found[0].container} has it; expected one in every split's folder; or take one split "
            f"with --inside {printable(found[0].top)} --split_name {found[0].split}, or give "
            "--listing none"
        )
    return found


def containers_of(level: Level, *, loose: bool = False) -> list[Container]:
    """The folders and archives of a directory; `loose`: and the images beside them, if any."""
    folders = [Container(level.at(name), prefix=name) for name in level.folders]
    folders += [Container(level.path, flat=True)] * bool(loose and level.images)
    return folders + [
        Container(level.at(name), stem=container_stem(name)) for name in level.archives
    ]


def find_folders(raw: Path, options: FolderOptions) -> Layout:
    """The description, the units of class folders and archives, and their splits.

    Raises:
        SourceError: there are none, or some contradict each other.
    """
    top, inside = open_top(raw, options.inside)
    stray, loose = _set_aside(raw, top, options)
    refuse_no_classes(raw, top, options)
    names = [*top.folders, *top.archives]
    if not names and not (options.unlabelled and top.images):
        raise SourceError(loose[0]) if loose else _nothing(raw, top)
    if options.split_folders:
        splits = {name: split_of_folder(container_stem(name)) for name in names}
        if any(splits.values()):
            _refuse_mixture(splits, options)
            return _find_splits(raw, top, inside, options, splits, (stray, loose))
    # Archives alone may have split folders in them. Beside class folders they have classes.
    there = top.folders or not top.archives
    split = options.split_name if there and not options.cut else ""
    containers = containers_of(top, loose=options.unlabelled)
    units = make_units(split or "all", split, containers, inside, stray)
    described = _describe(printable(top.path) or "images", containers, stray)
    announced = options.cut.splits if options.cut else (split,) if split else None
    hint = options.hint if split else ()
    return (described, *loose, *hint), tuple(units), announced


def _find_splits(
    raw: Path,
    top: Level,
    inside: str,
    options: FolderOptions,
    splits: Mapping[str, str],
    aside: tuple[list[Stray], list[str]],
) -> Layout:
    units: list[ContainerUnit] = []
    unlabelled: list[Stray] = []
    stray, description = aside
    for split in in_usual_order({*splits.values()}):
        containers: list[Container] = []
        names = [name for name in splits if splits[name] == split]
        for name in names:
            if name in top.archives:
                containers.append(Container(top.at(name)))
                continue
            level = open_level(raw, top.at(name))
            if not (level.folders or level.archives or level.images):
                raise _nothing(raw, level)
            advice = f"; if {printable(name)} is a class, give --split_folders never"
            more, loose = _set_aside(raw, level, options, advice, split)
            stray += more
            description += loose
            containers += containers_of(level, loose=options.unlabelled)
        if containers:
            place = ", ".join(printable(top.at(name)) for name in names)
            description.append(_describe(f"{split}: {place}", containers, stray))
            units += make_units(split, split, containers, inside, stray)
        else:
            unlabelled += stray
        stray = []
    if not units:
        raise SourceError(description[0])
    units[0] = replace(units[0], stray=(*units[0].stray, *unlabelled))
    found = in_usual_order({unit.split for unit in units})
    return tuple(description), tuple(units), found


def _refuse_mixture(splits: Mapping[str, str], options: FolderOptions) -> None:
    named = some_of([name for name, split in splits.items() if split])
    others = [name for name, split in splits.items() if not split]
    if options.cut:
        raise SourceError(
            f"--fractions with split folders: found {named}; expected one of the two; leave "
            "--fractions out, name one of them with --inside, or give --split_folders never if "
            "they are classes"
        )
    if others:
        raise SourceError(
            f"found {named}, which could be splits, beside {some_of(others)}; expected all of them "
            "or none; move what does not belong out of the raw directory, or give --split_folders "
            "never if all are classes"
        )


def _set_aside(
    raw: Path, level: Level, options: FolderOptions, advice: str = "", split: str = ""
) -> tuple[list[Stray], list[str]]:
    """What is no class of a directory, and what to say of images that so have no class.

    These belong to the data, so they count; a table that may have their labels is refused.
    """
    images = [] if options.unlabelled else [level.at(name) for name in level.images]
    refuse_listing(level.path, level.others, options, images)
    refuse_labels(raw, level, options)
    stray: list[Stray] = [*level.others]
    stray += [Unmatched("unlisted", path, level.path, split) for path in images]
    said = (
        f"images outside a class folder: {some_of(images)}; expected class folders or --listing "
        f"FILE; move them into their class folder{advice}"
    )
    return stray, [said] if images else []


def make_units(
    name: str,
    split: str,
    containers: Iterable[Container],
    inside: str = "",
    stray: Sequence[Stray] = (),
) -> list[ContainerUnit]:
    """Put containers, at least one, into about 350 units, or, if there are very many, 64 into each.

    A gzip archive is a unit of its own, because a unit has one file of restart points. Names of
    units start with `name`, which is safe as a file name; for the rest see `ContainerUnit`.
    """
    batches: list[list[Container]] = []
    several: list[Container] = []
    for each in sorted(containers, key=lambda container: (container.order, container.path)):
        if not each.prefix and container_kind(each.path) == "gzip":
            batches.append([each])
        else:
            several.append(each)
    size = max(1, min(_MOST_CONTAINERS, -(-len(several) // _ENOUGH_UNITS)))
    batches += [several[at : at + size] for at in range(0, len(several), size)]
    return [
        ContainerUnit(
            name=f"{name}-{number:05d}",
            container=batch[0].path,
            split=split,
            containers=tuple(batch),
            inside=inside,
            stray=() if number else tuple(stray),
        )
        for number, batch in enumerate(batches)
    ]


def _nothing(raw: Path, level: Level) -> SourceError:
    found = some_of([entry.name for entry in level.others]) or "nothing"
    return SourceError(
        f"no images in {printable(str(raw / level.path))}: found {found}; expected {_EXPECTED}; "
        "check --raw and --inside"
    )


def _describe(place: str, containers: Sequence[Container], stray: Sequence[Stray]) -> str:
    folders = sum(bool(container.prefix) for container in containers)
    archives = len(containers) - folders
    kinds = [counted(folders, "class folder")] if folders else []
    kinds += [counted(archives, "archive") + ", read in place"] if archives else []
    ignored = [entry.name for entry in stray if isinstance(entry, Ignored)]
    ignoring = f", ignoring {some_of(ignored)}" if ignored else ""
    return f"{place} ({' and '.join(kinds)}){ignoring}"


def label_images(
    container: Container,
    split: str,
    placed: Sequence[tuple[str, StoredImage]],
    options: FolderOptions,
    numbers: dict[str, int],
    known: ClassList | None,
) -> Iterator[tuple[str, Row]]:
    """The split and the row of each image of a container; no split where all images tell.

    The folders below the split tell the class. An archive's images that lie in no folder have the
    archive's name as their class. Folders in an archive are splits only if every image is in one
    that is named so, with a class folder below.

    Args:
        split: the split of all its images; empty if folders in the archive may tell.
        placed: images by their path below where everything starts.
        numbers: the number of each class; gets those that are new.
        known: the only classes there may be; None if any may.

    Raises:
        SourceError: images lie partly in folders and partly not, in no class folder, in split
            folders that contradict what else is known, or have an unknown class.
    """
    paths = [path for path, _ in placed]
    wrapped = False
    if paths and not container.prefix:
        if not options.unlabelled:
            paths = _with_stem(container, paths)
        elif container.stem:
            paths = [f"{container.stem}/{path}" for path in paths]
        wrapped = options.split_folders and _has_split_folders(container, split, paths, options)
    unknown: set[str] = set()
    for path, (_, image) in zip(paths, placed, strict=True):
        top, _, rest = path.partition("/")
        key = rest if wrapped else path
        label = folder_of(key) if options.class_from == "path" else key.partition("/")[0]
        labels: tuple[int, ...] = ()
        if options.unlabelled:
            pass
        elif (name := label if known is None else known.named(label)) is None:
            unknown.add(label)
            continue
        else:
            labels = (numbers.setdefault(name, len(numbers)),)
        own = split_of_folder(top) if wrapped else split or options.split_name
        group = folder_of(key) if options.group_by == "folder" else ""
        if options.cut:
            own = "" if options.stratify else options.cut.split_of(group or key)
        yield own, image.row(key, labels, group=group)
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
