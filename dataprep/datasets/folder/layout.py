"""What there is to scan of an image set: folders, archives and lists, in units."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple

from dataprep.archives.containers import container_stem, is_alone
from dataprep.datasets.base import Found, ScanUnit
from dataprep.datasets.folder.headers import KeyedHash
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList
from dataprep.datasets.raw_directory import Entries, entries_of, in_batches, list_raw
from dataprep.datasets.splits import SPLIT_FOLDERS, split_of_folder
from dataprep.errors import SourceError, UsageError
from dataprep.rows import Ignored, Scanned, Unmatched
from dataprep.system.messages import counted, printable, some_of

Stray = Ignored | Unmatched
BoxForm = Literal["", "fractions", "pixels", "pixels of files"]

EXPECTED: Final = (
    f"class folders, archives, or folders named {SPLIT_FOLDERS} that hold them, or --listing FILE"
)
_METADATA: Final = ("metadata.csv", "metadata.jsonl", "metadata.parquet")


@dataclass(frozen=True, slots=True)
class Container:
    """A folder, searched to any depth, or an archive."""

    path: str  # relative to the raw directory
    prefix: str = ""  # of a folder, what stands before its images' paths; empty for an archive
    stem: str = ""  # of an archive whose images may lie in no folder, the class they then have
    flat: bool = False  # whether only the images that lie in the folder itself are taken

    @property
    def order(self) -> str:
        """Sorts containers as their images' keys sort: ``/`` comes after ``-``."""
        return f"{self.prefix or self.stem}/"


@dataclass(frozen=True, slots=True)
class ContainerUnit(ScanUnit):
    """Consecutive folders and archives of one split."""

    split: str  # the split of all of them; empty if their content or `Cut` tells
    containers: tuple[Container, ...]  # at most 64, at least one
    # The path below which an archive's images are taken; of folders it is part of the path already.
    inside: str = ""
    # What lay beside them; reported with the first unit. Images count for --max_bad.
    stray: tuple[Stray, ...] = ()
    listed: bool = False  # whether a list tells everything else of the images
    masks: bool = False  # whether it has masks, which other units' images are joined with


@dataclass(frozen=True, slots=True)
class ListingUnit(ScanUnit):
    """A listing, or annotations."""

    # Where it is, relative to the raw directory or absolute; of annotations, several.
    paths: tuple[str, ...]
    # The directory that listed paths start from, from the raw directory; empty for that itself.
    top: str = ""
    packed: bool = False  # whether other units hold the images, which are in archives
    split: str = ""  # the split of its images, if their folder or its name tells it
    column: str = ""  # of the paths, where that is known
    layout: str = ""  # the published layout that its files are of, if they are
    # How those of a listing are given, if a row is a box: also of files that say their own size.
    boxes: BoxForm = ""
    several: bool = False  # whether images may have several labels by them


@dataclass(frozen=True)
class FolderFound(Found):
    """What was found of an image set."""

    known: ClassList | None = None  # the only classes there may be; None if any may
    # Of annotations, (id, identifier) of the classes of all of them.
    names: tuple[tuple[int | str, str], ...] = ()


class Source(ABC):
    """What tells which images there are, and their labels.

    Args:
        hashes: what hashes keys, and what tells of people; None: nothing is hashed.
    """

    def __init__(self, options: FolderOptions, hashes: KeyedHash | None) -> None:
        self.options, self.hashes = options, hashes

    @abstractmethod
    def find(self, raw: Path, lists: Sequence[ListingUnit]) -> FolderFound:
        """See `Dataset.find`; what the options say by themselves is filled in afterwards.

        That is so of splits, too, where these are empty: nothing that was found tells any.

        Args:
            lists: those that `lists_of` has found.
        """

    @abstractmethod
    def scan(self, raw: Path, found: FolderFound, unit: ScanUnit) -> Scanned:
        """See `Dataset.scan`."""


def open_top(raw: Path, inside: str) -> tuple[Entries, str]:
    """The directory everything starts from, and the path still to be looked for in its archives.

    Raises:
        SourceError: it does not exist or cannot be read.
    """
    if inside and (raw / inside).is_dir():
        return entries_of(raw, inside), ""
    list_raw(raw, EXPECTED)
    top = entries_of(raw, "")
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


def lists_of(raw: Path, options: FolderOptions) -> list[ListingUnit]:
    """The listing or annotations that are named, or else tables that lie beside the images.

    Raises:
        UsageError: what is named is not there.
        SourceError: a directory cannot be read, or has several tables.
    """
    named = options.annotations or options.listings
    for path in named:
        if not (raw / path).exists():
            raise UsageError(
                f"no listing {printable(str(path))} here or in {printable(str(raw))}; "
                "check --listing"
            )
    if options.listing_ruled_out:
        return []
    # Where nobody names a layout, all images are taken without labels, not those of its lists.
    any_image = options.annotations or (options.unlabelled and not options.listings)
    if not any_image and (published := _published(raw, options)):
        return published
    if len(options.listings) > 1:
        return _listings_of_splits(options.listings)
    if named:
        return [ListingUnit("listing", named[0].name, tuple(map(str, named)))]
    return _metadata_beside(raw, options)


def _published(raw: Path, options: FolderOptions) -> list[ListingUnit]:
    """The published layout that the listings are of, or whose files are in the raw directory."""
    from dataprep.datasets.folder import published

    named = [raw / path for path in options.listings]
    found = published.layouts_at(raw, named)
    if not found:
        return []
    others = [] if named else _metadata_beside(raw, options)
    if len(found) + len(others) > 1:
        told = [f"{paths[0].name} ({layout.name})" for layout, paths in found]
        raise SourceError(
            f"{printable(str(raw))} has {some_of([*told, *(it.container for it in others)])}; "
            "expected one of them; name its file with --listing"
        )
    ((layout, paths),) = found
    folders = [] if options.inside else published.folders_of_images(raw, layout, paths)
    if len(folders) > 1:
        raise SourceError(
            f"{layout.name}: its images may be in {' or '.join(map(printable, folders))}; name the "
            "folder with --inside"
        )
    places = [str(it.relative_to(raw) if it.is_relative_to(raw) else it) for it in paths]
    top = "".join(folders)
    return [ListingUnit("listing", paths[0].name, tuple(places), top, layout=layout.name)]


def _listings_of_splits(paths: Sequence[Path]) -> list[ListingUnit]:
    splits = [split_of_folder(path.stem) for path in paths]
    if not all(splits) or len({*splits}) < len(splits):
        raise UsageError(
            f"--listing {some_of([path.name for path in paths])}: several lists are one of each "
            "split; expected names such as train.csv,test.csv; or join them, with a column split"
        )
    return [
        ListingUnit(f"listing-{split}", path.name, (str(path),), split=split)
        for split, path in zip(splits, paths, strict=True)
    ]


def _metadata_beside(raw: Path, options: FolderOptions) -> list[ListingUnit]:
    """Tables as Hugging Face's ``imagefolder`` has them: in the top, or by split."""
    top = options.inside if (raw / options.inside).is_dir() else ""
    folders = {"": entries_of(raw, top)} if (raw / top).is_dir() else {}
    if folders and options.split_folders:
        above = folders[""]
        folders |= {
            split: entries_of(raw, above.at(name))
            for name in above.folders
            if (split := split_of_folder(name))
        }
    found = []
    for split, level in folders.items():
        names = [entry.name for entry in level.others if entry.name in _METADATA]
        if len(names) > 1:
            raise SourceError(
                f"{printable(level.path or str(raw))} has {some_of(names)}; expected one of them; "
                "move what should not be read out of the raw directory"
            )
        for name in names:
            path = level.at(name)
            unit = f"listing-{split}" if split else "listing"
            found.append(
                ListingUnit(unit, path, (path,), level.path, split=split, column="file_name")
            )
        if names and not split:
            return found
    # A table that one split lacks would lose its images without a word.
    if found and (bare := {*folders} - {"", *(unit.split for unit in found)}):
        raise SourceError(
            f"{some_of([folders[split].path for split in bare])}: no {_METADATA[0]} or alike, as "
            f"{found[0].container} has it; expected one in every split's folder; or take one split "
            f"with --inside {printable(found[0].top)} --split_name {found[0].split}, or give "
            "--listing none"
        )
    return found


def containers_of(level: Entries, *, loose: bool = False) -> list[Container]:
    """The folders and archives of a directory; `loose`: and the images beside them, if any."""
    folders = [Container(level.at(name), prefix=name) for name in level.folders]
    folders += [Container(level.path, flat=True)] * bool(loose and level.images)
    return folders + [
        Container(level.at(name), stem=container_stem(name)) for name in level.archives
    ]


def make_units(
    name: str,
    split: str,
    containers: Iterable[Container],
    inside: str = "",
    stray: Sequence[Stray] = (),
) -> list[ContainerUnit]:
    """Put containers, at least one, into units, as `in_batches` has it.

    Names of units start with `name`, which is safe as a file name; for the rest see
    `ContainerUnit`.
    """
    ordered = sorted(containers, key=lambda container: (container.order, container.path))
    batches = in_batches(ordered, lambda it: not it.prefix and is_alone(it.path))
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


class Images(NamedTuple):
    """Where listed images are."""

    top: str  # the directory that their paths start from
    place: str  # in words
    units: tuple[ContainerUnit, ...] = ()  # the archives that they are in; empty: they are files


def images_of(raw: Path, options: FolderOptions, folder: str = "") -> Images:
    """Where the images are that lists name.

    Args:
        folder: where these start; empty: at the top.
    """
    top, inside = (entries_of(raw, folder), "") if folder else open_top(raw, options.inside)
    if not top.archives:
        return Images(top.path, f"files in {printable(str(raw / top.path))}")
    containers = containers_of(top)
    reason = "image beside the archives; only those in archives and folders are looked for"
    stray = [*top.others, *(Ignored(top.path, name, reason) for name in top.images)]
    units = make_units("images", "", containers, inside, stray)
    place = f"images in {counted(len(containers), 'archive or folder', 'archives or folders')}"
    return Images(top.path, place, tuple(replace(unit, listed=True) for unit in units))
