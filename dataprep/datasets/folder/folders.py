"""Class folders, and archives of them: the source of images whose paths tell their classes.

To find them, the top two levels of directories are listed, and no archive is opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dataprep.archives.containers import container_stem, how_read, list_container
from dataprep.archives.listing import Listing, StoredImage, below, folder_of
from dataprep.archives.packed import Copy
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.folder.beside import (
    refuse_labels,
    refuse_listing,
    refuse_no_classes,
    refuse_twins,
)
from dataprep.datasets.folder.headers import Headers
from dataprep.datasets.folder.layout import (
    EXPECTED,
    Container,
    ContainerUnit,
    FolderFound,
    ListingUnit,
    Source,
    Stray,
    containers_of,
    make_units,
    open_top,
)
from dataprep.datasets.folder.mask_files import is_mask, mask_files, mask_rows
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList
from dataprep.datasets.raw_directory import Entries, entries_of
from dataprep.datasets.splits import SPLIT_FOLDERS, in_usual_order, split_of_folder
from dataprep.errors import SourceError
from dataprep.rows import Ignored, Row, Scanned, Unmatched
from dataprep.system.messages import counted, printable, some_of

Placed = Sequence[tuple[str, StoredImage]]  # images by their paths below where everything starts


class Folders(Source):
    """Images whose folders and archives tell their classes; and images that a list labels."""

    def find(self, raw: Path, lists: Sequence[ListingUnit]) -> FolderFound:
        """Class folders and archives, perhaps in folders of splits."""
        del lists
        options = self.options
        top, inside = open_top(raw, options.inside)
        if options.mask_dir:
            others = [it for it in top.folders if top.at(it) != options.mask_dir]
            archives = [it for it in top.archives if container_stem(it) != options.mask_dir]
            top = replace(top, folders=others, archives=archives)
        stray, loose = _set_aside(raw, top, options)
        refuse_no_classes(raw, top, options)
        names = [*top.folders, *top.archives]
        if not names and not (options.unlabelled and top.images):
            raise SourceError(loose[0]) if loose else _nothing(raw, top)
        named = {name: split_of_folder(container_stem(name)) for name in names}
        if options.split_folders and any(named.values()):
            _refuse_mixture(named, options)
            return self._find_splits(raw, top, inside, named, (stray, loose))
        # Archives alone may have split folders in them. Beside class folders they have classes.
        there = top.folders or not top.archives
        split = options.split_name if there and not options.cut else ""
        containers = containers_of(top, loose=options.unlabelled)
        units = make_units(split or "all", split, containers, inside, stray)
        described = _describe(printable(top.path) or "images", containers, stray)
        return FolderFound((described, *loose), tuple(units), () if split else None)

    def _find_splits(
        self,
        raw: Path,
        top: Entries,
        inside: str,
        splits: Mapping[str, str],
        aside: tuple[list[Stray], list[str]],
    ) -> FolderFound:
        options = self.options
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
                level = entries_of(raw, top.at(name))
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
        return FolderFound(tuple(description), tuple(units), found)

    def scan(self, raw: Path, found: FolderFound, unit: ScanUnit) -> Scanned:
        """The images of a unit's folders and archives."""
        return unit.scanned(partial(self._scan, raw, found, cast("ContainerUnit", unit)))

    def _scan(
        self, raw: Path, found: FolderFound, unit: ContainerUnit, copy: Copy | None
    ) -> Scanned:
        scan = _Scan(raw, unit, self, found.known, copy)
        for container in scan.unit.containers:
            scan.add(container)
        return scan.scanned()


class _Scan:
    """What a unit's folders and archives hold.

    Attributes:
        numbers: of each class, of those that are known or found so far.
    """

    def __init__(
        self,
        raw: Path,
        unit: ContainerUnit,
        source: Source,
        known: ClassList | None,
        copy: Copy | None,
    ) -> None:
        self.copy = copy
        self.raw, self.unit, self.options, self.known = raw, unit, source.options, known
        self.headers = Headers(raw, source.options, source.hashes)
        names = () if known is None else known.classes
        self.numbers = {name: number for number, (name, _) in enumerate(names)}
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self.members: list[Row] = []
        self.masks: list[tuple[str, Row]] = []
        self._mask_files = mask_files(source.options)
        self.ignored = [entry for entry in unit.stray if isinstance(entry, Ignored)]
        self.unmatched = [entry for entry in unit.stray if isinstance(entry, Unmatched)]
        self.counts: Counter[str] = Counter()
        self.restarts = b""

    def add(self, container: Container) -> None:
        """What one holds.

        Raises:
            SourceError: it is damaged or unreadable, or tells no class of an image.
        """
        unit, gone = self.unit, list[str]()
        name, copy = unit.restarts_name, self.copy
        deep = not container.flat
        found = list_container(
            self.raw, container.path, deep=deep, restarts_name=name, gone=gone, copy=copy
        )
        self.restarts = found.restarts  # a gzip archive is a unit of its own
        if unit.masks:
            files = None if self.options.mask_column else self._mask_files
            self.masks += mask_rows(files, container, found.images, self.options.mask_dir)
            return
        self.ignored += found.ignored
        self.unmatched += [Unmatched("missing", it, container.path, unit.split) for it in gone]
        masks = self._mask_files
        images = [it for it in found.images if not is_mask(masks, container, it)]
        placed = self._placed(container, images if masks else found.images)
        if not unit.listed:
            self._add_rows(container, placed, found)
            return
        # A listing may call them by their paths or, of a class archive, below its name.
        stem = f"{container.stem}/" if container.stem else ""
        self.members += [image.row(path, (), alias=stem and stem + path) for path, image in placed]

    def _placed(self, container: Container, images: Sequence[StoredImage]) -> Placed:
        if container.prefix:
            return [(f"{container.prefix}/{image.path}", image) for image in images]
        inside = "" if container.flat else self.unit.inside
        paths = ((below(image.path, inside), image) for image in images)
        placed = [(path, image) for path, image in paths if path]
        if outside := len(images) - len(placed):
            self.counts["images that are not below --inside"] += outside
        return placed

    def _add_rows(self, container: Container, placed: Placed, found: Listing) -> None:
        options, unit = self.options, self.unit
        if container.prefix:
            refuse_listing(container.path, found.ignored, options)
        refuse_twins(container.path, found.images, found.ignored, options)
        labelled = _label(container, unit.split, placed, options, self.numbers, self.known)
        restarts = unit.restarts_name, self.restarts
        for split, row in self.headers.complete(labelled, restarts, self.copy):
            self.rows[split].append(row)
        # A class without images keeps its number.
        empty = "" if found.images or unit.inside else container.prefix or container.stem
        known = self.known is None or self.known.named(empty)
        if empty and known and options.class_from == "top":
            self.numbers.setdefault(empty, len(self.numbers))
            self.counts["class folders or archives without images"] += 1

    def scanned(self) -> Scanned:
        """All of that."""
        ignored, unmatched = self.ignored, self.unmatched
        if self.options.hash_keys:
            name = partial(self.headers.hashed, "file")
            ignored = [Ignored("", name(f"{it.container}/{it.name}"), it.reason) for it in ignored]
            unmatched = [Unmatched(it.kind, name(it.name), "", it.split) for it in unmatched]
        classes = list(self.numbers) if self.known is None else None
        counts = dict(self.counts + self.headers.counts)
        return Scanned(
            *(self.rows, ignored, unmatched, classes, counts, self.restarts, self.members),
            masks=self.masks,
        )


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
    raw: Path, level: Entries, options: FolderOptions, advice: str = "", split: str = ""
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


def _nothing(raw: Path, level: Entries) -> SourceError:
    found = some_of([entry.name for entry in level.others]) or "nothing"
    return SourceError(
        f"no images in {printable(str(raw / level.path))}: found {found}; expected {EXPECTED}; "
        "check --raw and --inside"
    )


def _describe(place: str, containers: Sequence[Container], stray: Sequence[Stray]) -> str:
    folders = sum(bool(container.prefix) for container in containers)
    archives = [container.path for container in containers if not container.prefix]
    kinds = [counted(folders, "class folder")] if folders else []
    kinds += [counted(len(archives), "archive") + how_read(archives)] if archives else []
    ignored = [entry.name for entry in stray if isinstance(entry, Ignored)]
    ignoring = f", ignoring {some_of(ignored)}" if ignored else ""
    return f"{place} ({' and '.join(kinds)}){ignoring}"


def _label(
    container: Container,
    split: str,
    placed: Placed,
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
