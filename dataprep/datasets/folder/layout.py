"""Finds class folders and archives: directory listings of the top two levels, no archive opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from dataprep.archives.containers import container_kind, container_stem
from dataprep.archives.listing import is_image_name
from dataprep.datasets.base import Attribute, Found, ScanUnit
from dataprep.datasets.folder.options import LISTING_FORMATS, FolderOptions
from dataprep.datasets.raw_directory import list_entries, list_raw
from dataprep.datasets.splits import SPLIT_FOLDERS, in_usual_order, split_of_folder
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of
from dataprep.tables import Ignored, Unmatched

# ImageNet-22K is 21,841 class archives: a unit each would be that many small files of the index.
_ENOUGH_UNITS: Final = 350
_MOST_CONTAINERS: Final = 64
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
    """

    path: str
    prefix: str = ""
    stem: str = ""

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
        stray: what lay beside them; reported with the first unit. Images count for --max_bad.
    """

    split: str
    containers: tuple[Container, ...]
    inside: str = ""
    stray: tuple[Ignored | Unmatched, ...] = ()


@dataclass(frozen=True, slots=True)
class ListingUnit(ScanUnit):
    """A listing.

    Attributes:
        top: the directory that the listed paths start from, relative to the raw directory; empty
            for that itself.
        packed: whether other units hold the images, which are in archives.
        attributes: what its columns say of each image.
    """

    top: str
    packed: bool
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """The entries of one directory by kind, sorted by name.

    Attributes:
        path: the directory, relative to the raw directory; empty for that itself.
        inside: the path that is still to be looked for in archives.
        folders: names of its folders.
        archives: names of its archives.
        images: names of images that lie in it directly.
        stray: what is nothing of these.
    """

    path: str
    inside: str = ""
    folders: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    stray: list[Ignored | Unmatched] = field(default_factory=list)

    def at(self, name: str) -> str:
        """The path of an entry, relative to the raw directory."""
        return f"{self.path}/{name}" if self.path else name

    def containers(self) -> list[Container]:
        """Its folders and archives."""
        folders = [Container(self.at(name), prefix=name) for name in self.folders]
        return folders + [
            Container(self.at(name), stem=container_stem(name)) for name in self.archives
        ]


def open_top(raw: Path, inside: str) -> Level:
    """The directory everything starts from: `inside`, or the raw directory if archives have that.

    Raises:
        SourceError: it does not exist or cannot be read.
    """
    if inside and (raw / inside).is_dir():
        return _open(raw, Level(inside))
    list_raw(raw, _EXPECTED)
    top = _open(raw, Level("", inside))
    if inside and not top.archives:
        raise SourceError(
            f"no {printable(inside)} in {printable(str(raw))}, and no archives that could hold it; "
            "check --inside"
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
    loose = _set_aside(top, options)
    names = [*top.folders, *top.archives]
    if not names:
        raise SourceError(loose[0]) if loose else _nothing(raw, top)
    splits = [name for name in names if split_of_folder(container_stem(name))]
    if options.split_folders and splits:
        others = [name for name in names if name not in splits]
        _refuse_mixture(splits, others, options)
        return _find_splits(raw, top, options, loose)
    if options.split_folders and len(top.folders) == len(names) == 1:
        level = _open(raw, Level(top.at(names[0])))
        stems = [container_stem(name) for name in (*level.folders, *level.archives)]
        refuse_wrapped_splits(level.path, level.path, stems)
    # Archives alone may have split folders in them. Beside class folders they have classes.
    split = options.split_name if top.folders and not options.cut else ""
    containers = top.containers()
    units = make_units(split or "all", split, containers, top.inside, top.stray)
    described = _describe(printable(top.path) or "images", containers, top.stray)
    announced = options.cut.splits if options.cut else (split,) if split else None
    hint = options.hint if split else ()
    return Found((described, *loose, *hint), tuple(units), announced, whole=True)


def refuse_listing(
    container: str,
    ignored: Iterable[Ignored | Unmatched],
    options: FolderOptions,
    images: Sequence[str] = (),
) -> None:
    """Refuse a table beside images, which may have their labels, unless the user knows of it.

    Raises:
        SourceError: there is one.
    """
    suffixes = tuple(suffix for suffix in LISTING_FORMATS if suffix != ".txt")
    tables = [entry.name for entry in ignored if entry.name.lower().endswith(suffixes)]
    if tables and not options.listing_ruled_out:
        table = printable("/".join(filter(None, (container, min(tables)))))
        there = f" beside {some_of(images)}" if images else ""
        raise SourceError(
            f"found the table {table}{there}; give --listing {table} if it has the labels of the "
            "images, or --listing none if their folders tell the classes"
        )


def refuse_wrapped_splits(place: str, inside: str, names: Collection[str]) -> None:
    """Refuse one folder round the split folders, which would be taken for the only class.

    Raises:
        SourceError: all are names of splits.
    """
    if names and all(map(split_of_folder, names)):
        raise SourceError(
            f"{printable(place)} holds {some_of(names)} in {printable(inside)}/, which are splits "
            f"and no classes; did you mean --inside {printable(inside)} ?"
        )


def make_units(
    name: str,
    split: str,
    containers: Iterable[Container],
    inside: str = "",
    stray: Sequence[Ignored | Unmatched] = (),
) -> list[ContainerUnit]:
    """Put containers, at least one, into about 350 units, or, if there are very many, 64 into each.

    A gzip archive is a unit of its own, because a unit has one file of restart points. Names of
    units start with `name`, which is safe as a file name; for the rest see `ContainerUnit`.
    """
    batches: list[tuple[Container, ...]] = []
    several: list[Container] = []
    for container in sorted(containers, key=lambda container: (container.order, container.path)):
        if not container.prefix and container_kind(container.path) == "gzip":
            batches.append((container,))
        else:
            several.append(container)
    size = max(1, min(_MOST_CONTAINERS, -(-len(several) // _ENOUGH_UNITS)))
    batches += [tuple(several[at : at + size]) for at in range(0, len(several), size)]
    return [
        ContainerUnit(
            name=f"{name}-{number:05d}",
            container=batch[0].path,
            split=split,
            containers=batch,
            inside=inside,
            stray=tuple(stray) if number == 0 else (),
        )
        for number, batch in enumerate(batches)
    ]


def _find_splits(raw: Path, top: Level, options: FolderOptions, loose: Sequence[str]) -> Found:
    places: dict[str, list[str]] = {}
    for name in (*top.folders, *top.archives):
        places.setdefault(split_of_folder(container_stem(name)), []).append(name)
    units: list[ContainerUnit] = []
    description = [*loose]
    unlabelled: list[Ignored | Unmatched] = []
    for split in in_usual_order(places):
        stray = [] if units else [*top.stray]
        containers: list[Container] = []
        for name in places[split]:
            if name in top.archives:
                containers.append(Container(top.at(name)))
                continue
            level = _open(raw, Level(top.at(name)))
            advice = f"; if {printable(name)} is a class, give --split_folders never"
            description += _set_aside(level, options, advice, split)
            containers += level.containers()
            stray += level.stray
            if not (level.folders or level.archives or level.images):
                raise _nothing(raw, level)
        if not containers:
            unlabelled += stray
            continue
        named = ", ".join(printable(top.at(name)) for name in places[split])
        description.append(_describe(f"{split}: {named}", containers, stray))
        units += make_units(split, split, containers, top.inside, stray)
    if not units:
        raise SourceError(description[0])
    units[0] = replace(units[0], stray=(*units[0].stray, *unlabelled))
    splits = in_usual_order({unit.split for unit in units})
    return Found(tuple(description), tuple(units), splits, whole=True)


def _refuse_mixture(splits: Sequence[str], others: Sequence[str], options: FolderOptions) -> None:
    if options.cut:
        raise SourceError(
            f"--fractions with split folders: found {some_of(splits)}; expected one of the two; "
            "leave --fractions out, name one of them with --inside, or give --split_folders never "
            "if they are classes"
        )
    if others:
        raise SourceError(
            f"found {some_of(splits)}, which could be splits, beside {some_of(others)}; expected "
            "all of them or none; move what does not belong out of the raw directory, or give "
            "--split_folders never if all are classes"
        )


def _set_aside(
    level: Level, options: FolderOptions, advice: str = "", split: str = ""
) -> list[str]:
    """Count images that would be left out though they belong to the data; refuse such tables."""
    images = [level.at(name) for name in level.images]
    refuse_listing(level.path, level.stray, options, images)
    level.stray.extend(Unmatched("unlisted", path, level.path, split) for path in images)
    said = (
        f"images outside a class folder: {some_of(images)}; expected class folders or --listing "
        f"FILE; move them into their class folder{advice}"
    )
    return [said] if images else []


def _nothing(raw: Path, level: Level) -> SourceError:
    found = some_of([entry.name for entry in level.stray]) or "nothing"
    return SourceError(
        f"no images in {printable(str(raw / level.path))}: found {found}; expected {_EXPECTED}; "
        "check --raw and --inside"
    )


def _open(raw: Path, level: Level) -> Level:
    for name, is_folder, reason in list_entries(raw, level.path):
        if reason:
            level.stray.append(Ignored(level.path, name, reason))
        elif is_folder:
            level.folders.append(name)
        elif container_kind(name):
            level.archives.append(name)
        elif is_image_name(name):
            level.images.append(name)
        else:
            reason = "neither a folder, an archive nor an image"
            level.stray.append(Ignored(level.path, name, reason))
    return level


def _describe(
    place: str, containers: Sequence[Container], stray: Sequence[Ignored | Unmatched]
) -> str:
    folders = sum(bool(container.prefix) for container in containers)
    archives = len(containers) - folders
    kinds = [counted(folders, "class folder")] if folders else []
    kinds += [counted(archives, "archive") + ", read in place"] if archives else []
    ignored = [entry.name for entry in stray if isinstance(entry, Ignored)]
    ignoring = f", ignoring {some_of(ignored)}" if ignored else ""
    return f"{place} ({' and '.join(kinds)}){ignoring}"
