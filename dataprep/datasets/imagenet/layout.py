"""The forms a split of ILSVRC2012 comes in: archives, class folders, and what lies between."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.directory import broken_link
from dataprep.archives.listing import basename, is_image_name, refusal
from dataprep.archives.tar import Archive, ArchiveMember, members
from dataprep.datasets.base import ScanUnit
from dataprep.datasets.imagenet.labels import class_indices, find_label_list
from dataprep.datasets.raw_directory import likely, list_entries, list_raw
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import counted, printable, some_of, unreadable

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
# Where Kaggle's release keeps the images.
_KAGGLE: Final = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "CLS-LOC")
_OTHER_SET: Final = "if it is another image set, prepare it with `dataprep folder`"


@dataclass(frozen=True, slots=True)
class ImageNetUnit(ScanUnit):
    """A directory, an archive, or an archive in an archive, of one split.

    Attributes:
        split: ``train`` or ``validation``.
        kind: whether `container` is a directory of images or a tar archive.
        offset: where in the container the archive starts, in bytes; 0 unless it is nested.
        size: how many bytes a nested archive has; None for everything else.
        inner: the nested archive's name inside the container; empty unless it is nested.
        category: the class all images of the unit have; empty when labels come from a list.
        labels: the list of labels, relative to the raw directory; empty for the shipped list.
        stray: what lay next to the unit and belongs to none; reported when this unit is scanned.
    """

    split: str
    kind: Literal["folder", "archive"]
    offset: int = 0
    size: int | None = None
    inner: str = ""
    category: str = ""
    labels: str = ""
    stray: tuple[Ignored, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitLayout:
    """One split as it was found: a line for the terminal, and what to scan."""

    description: str
    units: tuple[ImageNetUnit, ...]


@dataclass(frozen=True, slots=True)
class _Folder:
    """A split's directory: names of its folders and of its other entries, and what is neither."""

    path: str
    folders: list[str]
    files: list[str]
    stray: list[Ignored]


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
    folder = _open(raw, _TRAIN)
    if not _is_archive(raw, _TRAIN_ARCHIVE):
        return _train_tree(folder) if folder else None
    if folder:
        raise _contradiction("training", (_TRAIN_ARCHIVE, f"{_TRAIN}/"))
    return _archive_of_archives(raw)


def _train_tree(found: _Folder) -> SplitLayout | None:
    archives = [name.removesuffix(_TAR) for name in found.files if name.endswith(_TAR)]
    others = [name for name in found.files if not name.endswith(_TAR)]
    if loose := [f"{found.path}/{name}" for name in others if is_image_name(name)]:
        raise SourceError(
            f"images outside a class folder: {some_of(loose)}; expected "
            f"{found.path}/<WordNet id>/*.JPEG; move them into their class folder; {_OTHER_SET}"
        )
    places = [(name, f"{found.path}/{name}/") for name in found.folders]
    places += [(name, f"{found.path}/{name}{_TAR}") for name in archives]
    _require_known(places, "class folders or class archives")
    if both := set(archives).intersection(found.folders):
        raise SourceError(
            f"found {some_of(both)} both as a folder and as an archive in {found.path}/; expected "
            "each class in one form only; remove one of them"
        )
    if not places:
        return None
    parts = [counted(len(found.folders), "class folder")] if found.folders else []
    if archives:
        parts.append(counted(len(archives), "class archive") + ", read in place")
    reason = "neither a class folder nor a class archive"
    units = _folder_units("train", found)
    for synset in archives:
        container = f"{found.path}/{synset}{_TAR}"
        units.append(
            ImageNetUnit(f"train-{synset}", container, "train", "archive", category=synset)
        )
    stray = [*found.stray, *(Ignored(found.path, name, reason) for name in others)]
    return _layout("train", f"{found.path}/ ({' and '.join(parts)})", units, stray)


def _archive_of_archives(raw: Path) -> SplitLayout:
    inner: dict[str, ArchiveMember] = {}
    stray: list[Ignored] = []
    for member in members(raw, Archive(_TRAIN_ARCHIVE)):
        name = basename(member.name)
        synset = name.removesuffix(_TAR)
        place = f"{printable(member.name)} in {_TRAIN_ARCHIVE}"
        if reason := member.refusal or ("hidden file" if name.startswith(".") else ""):
            stray.append(Ignored(_TRAIN_ARCHIVE, member.name, reason))
            continue
        if synset == name:
            raise SourceError(
                f"found {place}; expected class archives only, such as n01440764.tar, as "
                f"published; if it is an archive of a tree, unpack it; {_OTHER_SET}"
            )
        _require_known([(synset, place)], "class archives")
        if synset in inner:
            raise SourceError(
                f"{_TRAIN_ARCHIVE} holds {name} twice, at bytes {inner[synset].offset} and "
                f"{member.offset}; expected each class once; copy or download it again"
            )
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
            kind="archive",
            container=_TRAIN_ARCHIVE,
            offset=member.offset,
            size=member.size,
            inner=f"{synset}{_TAR}",
            category=synset,
        )
        for synset, member in inner.items()
    ]
    form = f"{_TRAIN_ARCHIVE} ({counted(len(inner), 'class archive')}, read in place)"
    return _layout("train", form, units, stray)


def _find_validation(raw: Path) -> SplitLayout | None:
    opened = [folder for name in _VALIDATION if (folder := _open(raw, name))]
    forms = [f"{folder.path}/" for folder in opened]
    if _is_archive(raw, _VALIDATION_ARCHIVE):
        forms.insert(0, _VALIDATION_ARCHIVE)
    if len(forms) > 1:
        raise _contradiction("validation", forms)
    if not forms:
        return None
    found = opened[0] if opened else _Folder(_VALIDATION_ARCHIVE, [], [], [])
    images = [name for name in found.files if is_image_name(name)]
    if images and found.folders:
        folders = some_of([f"{found.path}/{name}/" for name in found.folders])
        raise SourceError(
            f"found images directly in {found.path}/ ({some_of(images)}) and folders ({folders}); "
            "expected all validation images in one directory or all in class folders; move one "
            "of the two out of the raw directory"
        )
    if found.folders:
        places = [(name, f"{found.path}/{name}/") for name in found.folders]
        _require_known(places, "class folders")
        stray = [Ignored(found.path, name, refusal(name)) for name in found.files]
        form = f"{found.path}/ ({counted(len(found.folders), 'class folder')})"
        return _layout(
            "validation", form, _folder_units("validation", found), [*found.stray, *stray]
        )
    if opened and not images:
        return None
    labels = find_label_list(raw)
    # The scan of a directory itself reports what is stray in it.
    kind: Literal["folder", "archive"] = "folder" if opened else "archive"
    unit = ImageNetUnit("validation", found.path, "validation", kind, labels=labels)
    how = f"{found.path}/ (one directory" if opened else f"{found.path} (read in place"
    form = f"{how}, labels from {labels or 'the shipped list'})"
    return _layout("validation", form, [unit], [])


def _is_archive(raw: Path, name: str) -> bool:
    path = raw / name
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not path.is_symlink():
            return False
        raise broken_link(path, name, error) from error


def _open(raw: Path, name: str) -> _Folder | None:
    """List a split's directory; None if it does not exist or holds nothing of interest."""
    try:
        if not (raw / name).is_dir():
            return None
    except OSError as error:
        raise unreadable(name, error) from error
    found = _Folder(name, [], [], [])
    for entry, is_folder, reason in list_entries(raw, name):
        if reason:
            found.stray.append(Ignored(name, entry, reason))
        else:
            (found.folders if is_folder else found.files).append(entry)
    return found if found.folders or found.files else None


def _contradiction(split: str, forms: Iterable[str]) -> SourceError:
    return SourceError(
        f"found {' and '.join(forms)}; expected the {split} images in one form only; move what "
        "should not be read out of the raw directory"
    )


def _require_known(places: Iterable[tuple[str, str]], expected: str) -> None:
    """Check classes, each with where it was found."""
    if unknown := [place for synset, place in places if synset not in class_indices()]:
        raise SourceError(
            f"unknown class: {some_of(unknown)}; expected {expected} named by the 1000 WordNet "
            "ids of ILSVRC2012, such as n01440764; move it out of the raw directory; "
            f"{_OTHER_SET}"
        )


def _folder_units(split: str, found: _Folder) -> list[ImageNetUnit]:
    return [
        ImageNetUnit(
            f"{split}-{synset}", f"{found.path}/{synset}", split, "folder", category=synset
        )
        for synset in found.folders
    ]


def _layout(
    split: str, form: str, units: Iterable[ImageNetUnit], stray: Sequence[Ignored]
) -> SplitLayout:
    """Put a split together; what is stray is reported with its first unit."""
    first, *others = sorted(units, key=lambda unit: unit.name)
    note = f", ignoring {some_of([entry.name for entry in stray])}" if stray else ""
    return SplitLayout(f"{split}: {form}{note}", (replace(first, stray=tuple(stray)), *others))


def _missing(raw: Path, names: list[str], lacking: list[str], there: list[str]) -> SourceError:
    """Says what to do when splits are not where they were looked for."""
    looked_for = "; ".join(f"for {split}: {_LOOKED_FOR[split]}" for split in lacking)
    name = raw.resolve().name
    above = 1 if name in (_TRAIN, *_VALIDATION) else 2 if name in class_indices() else 0
    right = next(likely(raw, (*_KAGGLE, *names), above, _holds_split), None)
    if right:
        advice = f"did you mean --raw_data_dir {printable(right)} ?"
    elif there:
        advice = f"--splits {','.join(there)} would take only what is there"
    elif any(is_image_name(name) for name in names):
        advice = "check --raw_data_dir; `dataprep folder` with --listing FILE takes loose images"
    else:
        advice = f"check --raw_data_dir; {_OTHER_SET}"
    return SourceError(
        f"no {' and no '.join(lacking)} images in {printable(str(raw))}; looked {looked_for}; "
        f"found {some_of(names) if names else 'nothing'}; {advice}"
    )


def _holds_split(directory: Path) -> bool:
    files = (directory / name for name in (_TRAIN_ARCHIVE, _VALIDATION_ARCHIVE))
    folders = (directory / name for name in (_TRAIN, *_VALIDATION))
    return any(path.is_file() for path in files) or any(path.is_dir() for path in folders)
