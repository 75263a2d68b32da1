"""Finds the ILSVRC2012 validation images: an archive, a flat directory, or class folders."""

from __future__ import annotations

from pathlib import Path

from dataprep.archives.names import is_image_name, refusal
from dataprep.datasets.imagenet.labels import find_label_list
from dataprep.datasets.imagenet.layout import (
    VALIDATION_ARCHIVE,
    VALIDATION_FOLDERS,
    ImageNetUnit,
    SplitFolder,
    SplitLayout,
    contradiction,
    folder_units,
    is_archive,
    open_folder,
    require_known,
    split_layout,
)
from dataprep.errors import SourceError
from dataprep.index import Ignored
from dataprep.system.messages import counted, some_of


def find_validation(raw: Path) -> SplitLayout | None:
    """The validation split, or None if there is none.

    Raises:
        SourceError: two forms or two label lists contradict each other, or a class is unknown.
    """
    opened = [folder for name in VALIDATION_FOLDERS if (folder := open_folder(raw, name))]
    forms = [f"{folder.path}/" for folder in opened]
    if is_archive(raw, VALIDATION_ARCHIVE):
        forms.insert(0, VALIDATION_ARCHIVE)
    if len(forms) > 1:
        raise contradiction("validation", forms)
    if not forms:
        return None
    if opened:
        return _tree(raw, opened[0])
    labels = find_label_list(raw)
    unit = ImageNetUnit("validation", VALIDATION_ARCHIVE, "validation", "archive", labels=labels)
    form = f"{VALIDATION_ARCHIVE} (read in place, {_labels_from(labels)})"
    return split_layout("validation", form, [unit], [])


def _tree(raw: Path, found: SplitFolder) -> SplitLayout | None:
    images = [name for name in found.files if is_image_name(name)]
    if images and found.folders:
        folders = some_of([f"{found.path}/{name}/" for name in found.folders])
        raise SourceError(
            f"found images directly in {found.path}/ ({some_of(images)}) and folders ({folders}); "
            "expected all validation images in one directory or all in class folders; move one "
            "of the two out of the raw directory"
        )
    if found.folders:
        return _class_folders(raw, found)
    return _flat(raw, found) if images else None


def _class_folders(raw: Path, found: SplitFolder) -> SplitLayout:
    require_known([(name, f"{found.path}/{name}/") for name in found.folders], "class folders")
    stray = [Ignored(found.path, name, refusal(name)) for name in found.files]
    units = folder_units("validation", found, find_label_list(raw))
    form = f"{found.path}/ ({counted(len(units), 'class folder')})"
    return split_layout("validation", form, units, [*found.stray, *stray])


def _flat(raw: Path, found: SplitFolder) -> SplitLayout:
    labels = find_label_list(raw)
    # The scan of the directory itself reports what is stray in it.
    unit = ImageNetUnit("validation", found.path, "validation", "folder", labels=labels)
    form = f"{found.path}/ (one directory, {_labels_from(labels)})"
    return split_layout("validation", form, [unit], [])


def _labels_from(labels: str) -> str:
    return f"labels from {labels}" if labels else "labels from the shipped list"
