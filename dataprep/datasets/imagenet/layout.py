"""The forms a split of ILSVRC2012 comes in: archives, class folders, and what lies between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dataprep.archives.listing import basename, is_image_name
from dataprep.archives.tar import Archive, ArchiveMember, members
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.imagenet.labels import class_indices
from dataprep.datasets.raw_directory import list_entries, list_raw
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of

_TRAIN_ARCHIVE: Final = "ILSVRC2012_img_train.tar"
_VALIDATION_ARCHIVE: Final = "ILSVRC2012_img_val.tar"
_TRAIN: Final = "train"
_VALIDATION: Final = ("validation", "val")
_TAR: Final = ".tar"
_LOOKED_FOR: Final = {
    "train": "ILSVRC2012_img_train.tar, train/<WordNet id>/*.JPEG or train/<WordNet id>.tar",
    "validation": "ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*.JPEG or "
    "validation/<WordNet id>/*.JPEG (also val/)",
}
_OTHER_SET: Final = "if it is another image set, prepare it with `dataprep folder`"


@dataclass(frozen=True, slots=True)
class ImageNetUnit(ScanUnit):
    """A directory, an archive, or an archive in an archive, of one split.

    Attributes:
        split: ``train`` or ``validation``.
        category: the class all images of the unit have; empty where names tell the labels.
        offset: where in the container the archive starts, in bytes; 0 unless it is nested.
        size: how many bytes a nested archive has; None for everything else.
        inner: the nested archive's name inside the container; empty unless it is nested.
    """

    split: str
    category: str = ""
    offset: int = 0
    size: int | None = None
    inner: str = ""


SplitLayout = tuple[str, list[ImageNetUnit]]
"""One split as it was found: a line for the terminal, and what to scan."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """A split's directory: names of its folders, images and archives, and of what is neither."""

    path: str
    folders: list[str]
    images: list[str]
    archives: list[str]
    others: list[str]


def find_layouts(raw: Path, splits: Iterable[str]) -> dict[str, SplitLayout]:
    """The form of each split.

    Raises:
        SourceError: one is not there, is there in two forms that contradict each other, or has
            an unknown class; images lie outside the class folders; an archive is damaged.
    """
    names = list_raw(raw, f"{_TRAIN}/ or {_TRAIN_ARCHIVE}")
    find = {"train": _find_train, "validation": _find_validation}
    layouts = {split: find[split](raw) for split in splits}
    found = {split: layout for split, layout in layouts.items() if layout}
    if len(found) < len(layouts):
        raise _missing(raw, names, [split for split in layouts if split not in found], list(found))
    return found


def _find_train(raw: Path) -> SplitLayout | None:
    folder = _one_form(raw, "training", _TRAIN_ARCHIVE, [_TRAIN])
    if folder is None:
        return _archive_of_archives(raw) if (raw / _TRAIN_ARCHIVE).is_file() else None
    if folder.images:
        loose = [f"{folder.path}/{name}" for name in folder.images]
        raise SourceError(
            f"images outside a class folder: {some_of(loose)}; expected "
            f"{folder.path}/<WordNet id>/*.JPEG; move them into their class folder; {_OTHER_SET}"
        )
    return _classes("train", folder) if folder.folders or folder.archives else None


def _archive_of_archives(raw: Path) -> SplitLayout:
    inner: dict[str, ArchiveMember] = {}
    for member in members(raw, Archive(_TRAIN_ARCHIVE)):
        name = basename(member.name)
        if name.startswith("."):  # left behind by macOS
            continue
        synset = name.removesuffix(_TAR)
        place = f"{printable(member.name)} in {_TRAIN_ARCHIVE}"
        if synset == name or member.refusal:
            raise SourceError(
                f"found {place} {member.refusal}; expected class archives only, such as "
                "n01440764.tar, as published; if it is an archive of a tree, unpack it; "
                f"{_OTHER_SET}"
            )
        _require_known([(synset, place)], "class archives")
        inner[synset] = member
    if not inner:
        raise SourceError(
            f"{_TRAIN_ARCHIVE} holds no class archives; expected n01440764.tar and others, as "
            "published; copy or download it again"
        )
    units = [
        ImageNetUnit(
            split="train",
            name=f"train-{synset}",
            container=_TRAIN_ARCHIVE,
            category=synset,
            offset=member.offset,
            size=member.size,
            inner=f"{synset}{_TAR}",
        )
        for synset, member in sorted(inner.items())
    ]
    form = f"{_TRAIN_ARCHIVE} ({counted(len(inner), 'class archive')}, read in place)"
    return f"train: {form}", units


def _find_validation(raw: Path) -> SplitLayout | None:
    folder = _one_form(raw, "validation", _VALIDATION_ARCHIVE, _VALIDATION)
    if folder is not None and folder.images and folder.folders:
        raise SourceError(
            f"found images directly in {folder.path}/ ({some_of(folder.images)}) and folders "
            f"({some_of(folder.folders)}); expected all validation images in one directory or all "
            "in class folders; move one of the two out of the raw directory"
        )
    if folder is not None and not folder.images:
        return _classes("validation", folder) if folder.folders or folder.archives else None
    if folder is None and not (raw / _VALIDATION_ARCHIVE).is_file():
        return None
    place = folder.path if folder else _VALIDATION_ARCHIVE
    how = f"{place}/ (one directory" if folder else f"{place} (read in place"
    form = f"{how}, labels from the shipped list)"
    unit = ImageNetUnit("validation", place, "validation")
    return f"validation: {form}", [unit]


def _one_form(raw: Path, what: str, archive: str, names: Iterable[str]) -> _Folder | None:
    """A split's directory, if it holds anything and nothing else holds the split too."""
    folders = [folder for name in names if (folder := _open(raw, name))]
    forms = [archive] if (raw / archive).is_file() else []
    forms += [f"{folder.path}/" for folder in folders]
    if len(forms) > 1:
        raise SourceError(
            f"found {' and '.join(forms)}; expected the {what} images in one form only; move what "
            "should not be read out of the raw directory"
        )
    return folders[0] if folders else None


def _open(raw: Path, name: str) -> _Folder | None:
    """List a split's directory; None if it does not exist or holds nothing of interest."""
    if not (raw / name).is_dir():
        return None
    found = _Folder(name, [], [], [], [])
    for entry, is_folder, reason in list_entries(raw, name):
        if reason:
            found.others.append(entry)
        elif is_folder:
            found.folders.append(entry)
        elif entry.endswith(_TAR):
            found.archives.append(entry)
        else:
            (found.images if is_image_name(entry) else found.others).append(entry)
    return found if found.folders or found.images or found.archives else None


def _classes(split: str, found: _Folder) -> SplitLayout:
    """Class folders and class archives."""
    names = [*found.folders, *found.archives]
    places = [
        *((name, f"{found.path}/{name}/") for name in found.folders),
        *((name.removesuffix(_TAR), f"{found.path}/{name}") for name in found.archives),
    ]
    _require_known(places, "class folders or class archives")
    parts = [counted(len(found.folders), "class folder")] if found.folders else []
    if found.archives:
        parts.append(counted(len(found.archives), "class archive") + ", read in place")
    units = [
        ImageNetUnit(f"{split}-{name}", f"{found.path}/{name}", split, name.removesuffix(_TAR))
        for name in sorted(names)
    ]
    note = f", ignoring {some_of(found.others)}" if found.others else ""
    return f"{split}: {found.path}/ ({' and '.join(parts)}){note}", units


def _require_known(places: Iterable[tuple[str, str]], expected: str) -> None:
    """Check classes, each with where it was found."""
    if unknown := [place for synset, place in places if synset not in class_indices()]:
        raise SourceError(
            f"unknown class: {some_of(unknown)}; expected {expected} named by the 1000 WordNet "
            "ids of ILSVRC2012, such as n01440764; move it out of the raw directory; "
            f"{_OTHER_SET}"
        )


def _missing(
    raw: Path, names: Sequence[str], lacking: Sequence[str], there: Sequence[str]
) -> SourceError:
    """Says what to do when splits are not where they were looked for."""
    looked_for = "; ".join(f"for {split}: {_LOOKED_FOR[split]}" for split in lacking)
    if there:
        advice = f"--splits {','.join(there)} would take only what is there"
    else:
        advice = f"check --raw; {_OTHER_SET}"
    return SourceError(
        f"no {' and no '.join(lacking)} images in {printable(str(raw))}; looked {looked_for}; "
        f"found {some_of(names) if names else 'nothing'}; {advice}"
    )
