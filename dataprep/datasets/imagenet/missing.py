"""Says what to do when images are not where they were looked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dataprep.archives import raw_directory
from dataprep.datasets.imagenet.labels import class_indices
from dataprep.datasets.imagenet.layout import (
    TRAIN_ARCHIVE,
    TRAIN_FOLDER,
    VALIDATION_ARCHIVE,
    VALIDATION_FOLDERS,
)
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of

_LOOKED_FOR: Final = {
    "train": "ILSVRC2012_img_train.tar, train/<WordNet id>/*.JPEG or train/<WordNet id>.tar",
    "validation": "ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*.JPEG or "
    "validation/<WordNet id>/*.JPEG (also val/)",
}
# Where Kaggle's release keeps the images.
_KAGGLE: Final = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "CLS-LOC")


def list_raw(raw: Path) -> list[str]:
    """The names in the raw directory, sorted.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    return raw_directory.list_raw(raw, f"{TRAIN_FOLDER}/ or {TRAIN_ARCHIVE}")


def missing(raw: Path, names: Sequence[str], lacking: Sequence[str], there: str) -> SourceError:
    """The error for splits that were not found.

    Args:
        raw: the raw directory, as the user gave it.
        names: the names in it.
        lacking: the splits that were not found.
        there: the splits that were found, comma-separated; empty if there are none.
    """
    looked_for = "; ".join(f"for {split}: {_LOOKED_FOR[split]}" for split in lacking)
    found = some_of(names) if names else "nothing"
    right = next(_likely(raw, names), None)
    if right:
        advice = f"did you mean --raw_data_dir {printable(right)} ?"
    elif there:
        advice = f"--splits {there} would take only what is there"
    else:
        advice = "check --raw_data_dir"
    return SourceError(
        f"no {' and no '.join(lacking)} images in {printable(str(raw))}; looked {looked_for}; "
        f"found {found}; {advice}"
    )


def _likely(raw: Path, names: Sequence[str]) -> Iterator[str]:
    """Directories below or above `raw` that hold what `raw` itself does not."""
    name = raw.resolve().name
    above = (
        1 if name in (TRAIN_FOLDER, *VALIDATION_FOLDERS) else 2 if name in class_indices() else 0
    )
    return raw_directory.likely(raw, (*_KAGGLE, *names), above, _holds_split)


def _holds_split(directory: Path) -> bool:
    archives = (TRAIN_ARCHIVE, VALIDATION_ARCHIVE)
    folders = (TRAIN_FOLDER, *VALIDATION_FOLDERS)
    return any((directory / name).is_file() for name in archives) or any(
        (directory / name).is_dir() for name in folders
    )
