"""What lies beside images and may have their labels, and folders that are no classes.

Nothing is guessed of it: each stops the run and says what it is and which option decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from posixpath import commonpath
from typing import Final

from dataprep.archives.containers import container_kind, container_stem
from dataprep.archives.listing import (
    StoredImage,
    folder_of,
    is_clutter_folder,
    is_image_name,
    stem_of,
)
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import FORMATS
from dataprep.datasets.raw_directory import Entries, entries_of
from dataprep.datasets.splits import SPLIT_FOLDERS, split_in_name, split_of_folder
from dataprep.errors import SourceError
from dataprep.rows import Ignored
from dataprep.system.filesystems import walk
from dataprep.system.messages import printable, some_of

_MASKS: Final = frozenset(
    {"mask", "masks", "segmentation", "segmentationclass", "segmentationobject", "gtfine"}
)
_PICTURES: Final = re.compile(
    r"(images?|imgs?|jpe?gs?|pngs?|photos?|pictures?|jpegimages|leftimg8bit)", re.IGNORECASE
)
_PIECES: Final = re.compile(r"(.*[_-])?(images?|imgs?)([_-]?(part|\d+))*", re.IGNORECASE)
_LABELS: Final = re.compile(
    r"(labels?|annotations?|annots?|anno|xmls?|bbox(es)?|ground[_-]?truth|devkit)", re.IGNORECASE
)
_MARKUP: Final = (".json", ".mat", ".xml")
_LABEL_FILES: Final = (*_MARKUP, ".txt")
_PROSE: Final = re.compile(r"(read[-_ ]?me|licen[cs]e|copying|notice|citation).*", re.IGNORECASE)
_YAML: Final = re.compile(r"^(names|nc|train)\s*:", re.MULTILINE)
_NAMES_IMAGE: Final = re.compile(r"\w\.(jpe?g|png|bmp|tiff?|webp|gif)\b", re.IGNORECASE)
_HEAD: Final = 1 << 16
_MOST_FOLDERS: Final = 64  # of more, only those that are called like labels are looked into
_MOST_ENTRIES: Final = 2000
_NOT_IMAGES: Final = frozenset(
    {"not an image name", "neither a folder, an archive nor an image"}
)  # as listings say it; what is hidden belongs to the system
_READS: Final = (
    "dataprep reads tables, COCO's JSON, YOLO's data.yaml, Pascal VOC's folder of XML, LabelMe's "
    "of JSON and some published layouts (--listing, docs/folder.md); give --listing none if class "
    "folders tell the labels, with --inside where they start, or --unlabelled"
)
_ONE_CLASS: Final = (
    "; --listing FILE if a table has the labels, --unlabelled if there are none, or --classes FILE "
    "with all that are classes"
)


def refuse_listing(
    container: str, ignored: Iterable[Ignored], options: FolderOptions, images: Sequence[str] = ()
) -> None:
    """Refuse a table beside images, which may have their labels, unless the user knows of it.

    Raises:
        SourceError: there is one.
    """
    suffixes = tuple(suffix for suffix in FORMATS if suffix != ".txt")
    tables = [entry.name for entry in ignored if entry.name.lower().endswith(suffixes)]
    if tables and not (options.listing_ruled_out or options.unlabelled):
        table = printable("/".join(filter(None, (container, min(tables)))))
        there = f" beside {some_of(images)}" if images else ""
        raise SourceError(
            f"found the table {table}{there}; give --listing {table} if it has the labels of the "
            "images, or --listing none if their folders tell the classes"
        )


def refuse_labels(raw: Path, level: Entries, options: FolderOptions) -> None:
    """Refuse files and folders of a directory that may have the labels of what is beside them.

    Names are looked at, a few entries of each folder, and the heads of small texts. Where the user
    said that he knows, such folders are put aside, as they are no classes.

    Raises:
        SourceError: there are some, and he did not.
    """
    known = options.listing_ruled_out or options.unlabelled
    stems = {*map(stem_of, level.images)}
    found = [
        level.at(entry.name)
        for entry in level.others
        if not known
        and entry.reason in _NOT_IMAGES
        and _has_labels(raw / level.at(entry.name), stems)
    ]
    few = len(level.folders) <= _MOST_FOLDERS
    named = [name for name in level.folders if few or _LABELS.fullmatch(name)]
    for name in named if len(level.folders) + len(level.images) > 1 else ():
        labels = _label_files(raw / level.at(name), None if known else _MOST_ENTRIES)
        images, called = labels.pop("", 0), _LABELS.fullmatch(name)
        if not labels or not (called or (not images and labels != {".txt": 1})):
            continue
        kinds = ", ".join(f"{number:,} {suffix}" for suffix, number in sorted(labels.items()))
        found.append(f"{level.at(name)}/ ({kinds})")
        if known and not images:
            level.folders.remove(name)
            level.others.append(Ignored(level.path, name, f"folder of {kinds}, and no images"))
    if found and not known:
        raise SourceError(f"found {some_of(found)}, which may have the labels; {_READS}")


def _has_labels(path: Path, stems: Collection[str]) -> bool:
    suffix = path.suffix.lower()
    if suffix == ".mat" or (suffix in _LABEL_FILES and path.stem in stems):
        return True
    if suffix not in (*_LABEL_FILES, ".yaml", ".yml") or _PROSE.fullmatch(path.name):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return False  # nobody asked for it
    if suffix in (".yaml", ".yml"):
        return bool(_YAML.search(head))
    lines = head.split() and head.strip().split("\n")
    named = sum(bool(_NAMES_IMAGE.search(line)) for line in lines)
    return named > 0 and (suffix != ".txt" or 2 * named >= len(lines))  # else it is about some


def _label_files(folder: Path, most: int | None) -> Counter[str]:
    """How many files that may be labels are in a folder, by suffix; and as "" whether images are.

    Where these are, the rest is looked at in a folder that is called like labels alone.
    """
    found: Counter[str] = Counter()
    below = walk(folder, lambda it: it.is_dir() and not is_clutter_folder(it.name))
    for name in islice((entry.name for _, entries in below for entry in entries), most):
        suffix = PurePosixPath(name).suffix.lower()
        found[suffix] += suffix in _LABEL_FILES
        found[""] += bool(is_image_name(name) or container_kind(name))
        if found[""] and (most is None or not _LABELS.fullmatch(folder.name)):
            break
    return +found


def refuse_twins(
    container: str,
    images: Iterable[StoredImage],
    ignored: Iterable[Ignored],
    options: FolderOptions,
) -> None:
    """Refuse labels that lie among the images of a folder or archive: ``1.json`` beside ``1.jpg``.

    Raises:
        SourceError: there are some, and the user did not say that he knows.
    """
    paths = [PurePosixPath(entry.name) for entry in ignored if entry.reason in _NOT_IMAGES]
    paths = [path for path in paths if path.suffix.lower() in _LABEL_FILES]
    if not paths or options.listing_ruled_out or options.unlabelled:
        return
    stems = {stem_of(image.name) for image in images}
    found = [str(path) for path in paths if path.suffix.lower() == ".mat" or path.stem in stems]
    if found:
        raise SourceError(
            f"{printable(container)} has {some_of(found)} beside images of the same names, which "
            f"may have the labels; {_READS}"
        )


def refuse_no_classes(raw: Path, top: Entries, options: FolderOptions) -> None:
    """Refuse masks beside pictures; and one folder round everything, which would be the only class.

    Raises:
        SourceError: there are some, and no list of classes has them.
    """
    pictures = [name for name in top.folders if _PICTURES.fullmatch(name)]
    masks = [name for name in top.folders if name.lower() in _MASKS]
    if masks and pictures:
        raise SourceError(
            f"found {some_of(pictures)} beside {some_of(masks)}, which look like segmentation "
            f"masks; give --inside {printable(top.at(pictures[0]))}, --unlabelled if there are no "
            f"classes, and --mask_dir {printable(top.at(masks[0]))} to keep the masks"
        )
    if options.unlabelled or options.classes or options.class_from == "path":
        return
    names = [*top.folders, *map(container_stem, top.archives)]
    if len(names) == len(top.folders) == 1 and not (
        options.split_folders and split_of_folder(names[0])
    ):
        level = entries_of(raw, top.at(names[0]))
        while len(level.folders) == 1 and not (level.archives or level.images):
            level = entries_of(raw, level.at(level.folders[0]))
        stems = [container_stem(name) for name in (*level.folders, *level.archives)]
        splits = options.split_folders and any(map(split_of_folder, stems))
        if (splits or len(stems) > 1) and not (top.images or level.images):
            raise _wrapper(level.path, stems, f"--inside {printable(level.path)}", options)


def _wrapper(place: str, names: Collection[str], start: str, options: FolderOptions) -> SourceError:
    if options.split_folders and all(map(split_of_folder, names)):
        return SourceError(
            f"{printable(place)} holds {some_of(names)}, which are splits and no classes; did you "
            f"mean {start} ?"
        )
    return SourceError(
        f"{printable(place)} holds {some_of(names)}, and would be the only class; give {start} if "
        f"these are the classes{_ONE_CLASS}"
    )


def only_class(name: str) -> str:
    """What to say of a folder that is the only class."""
    return f"{printable(name)} is the only class{_ONE_CLASS}"


def refuse_classes(
    classes: Sequence[str],
    by_split: Mapping[str, Collection[str]],
    folders: Collection[str],
    above: Mapping[str, Collection[str]],
    options: FolderOptions,
) -> None:
    """Refuse folders that can be no classes, by what all folders and archives together say.

    Args:
        folders: of the keys of images.
        above: the directories that each class folder is in; none of those in archives.

    Raises:
        SourceError: one is a folder round others, or is called like a split or like a folder of all
            images; or a split has no class of the split that has most.
    """

    def start(name: str) -> str:
        inner = commonpath([it for it in folders if it.partition("/")[0] == name] or [name])
        if inner in folders and inner != name:
            inner = folder_of(inner)
        base, *others = above.get(name, (options.inside,))
        if others:
            return "--class_from path"
        of_split = f" --split_name {next(iter(by_split), 'train')}" * (base != options.inside)
        return f"--inside {printable('/'.join(filter(None, (base, inner))))}{of_split}"

    inner = commonpath(folders) if len(classes) == 1 and folders else ""
    if inner and inner not in folders:
        below = {folder[len(inner) + 1 :].partition("/")[0] for folder in folders}
        raise _wrapper(inner, below, start(classes[0]), options)
    largest = max(by_split, key=lambda split: (len(by_split[split]), split), default="")
    for split, some in by_split.items():
        if some and {*by_split[largest]}.isdisjoint(some):
            raise SourceError(
                f"{split}: its classes ({some_of(some)}) are none of those of {largest} "
                f"({some_of(by_split[largest])}); expected the same folders in both: start with "
                "--inside where the class folders are, or give the table or .txt that has the "
                f"labels as --listing, --splits without {split}, --split_folders never, or "
                "--classes FILE that has all of them"
            )
    alike = {name: split_in_name(name) for name in classes if options.split_folders}
    alike = {name: split for name, split in alike.items() if split}
    if len({*alike.values()}) > 1 and len(alike) * 2 > len(classes):
        first = next(iter(alike))
        raise SourceError(
            f"found {some_of(alike)}, which look like splits and not like classes; expected "
            f"{SPLIT_FOLDERS}; rename them, or take one with {start(first)} --split_name "
            f"{alike[first]}; or give --split_folders never if they are classes"
        )
    pictures = [name for name in classes if _PICTURES.fullmatch(name)]
    pieces = [*alike] if len(classes) == 1 else []
    pieces = pieces or [name for name in classes if _PIECES.fullmatch(name)]
    if found := pictures or pieces * (len(pieces) == len(classes)):
        raise SourceError(
            f"found {some_of(found)}, which look like folders of all images and not like classes; "
            f"give {start(found[0])} if class folders are in it{_ONE_CLASS}"
        )
