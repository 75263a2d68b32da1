"""Says what to do when images are not where they were looked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.sources.imagenet.labels import class_indices
from dataprep.sources.imagenet.layout import (
    TRAIN_ARCHIVE,
    TRAIN_FOLDER,
    VALIDATION_ARCHIVE,
    VALIDATION_FOLDERS,
)
from dataprep.wording import printable, some_of, unreadable

_LOOKED_FOR: Final = {
    "train": "ILSVRC2012_img_train.tar, train/<WordNet id>/*.JPEG or train/<WordNet id>.tar",
    "validation": "ILSVRC2012_img_val.tar, validation/ILSVRC2012_val_*.JPEG or "
    "validation/<WordNet id>/*.JPEG (also val/)",
}
# Where Kaggle's release keeps the images.
_KAGGLE: Final = ("ILSVRC/Data/CLS-LOC", "Data/CLS-LOC", "CLS-LOC")
_MOST_FOLDERS_TRIED: Final = 100


def list_raw(raw: Path) -> list[str]:
    """The names in the raw directory, sorted.

    Raises:
        SourceError: it does not exist, is not a directory or cannot be read.
    """
    try:
        if raw.is_dir():
            return sorted(path.name for path in raw.iterdir())
        problem = "is not a directory" if raw.exists() else "does not exist"
    except OSError as error:
        raise unreadable(str(raw), error) from error
    raise SourceError(
        f"raw data directory {printable(str(raw))} {problem}; expected the directory that holds "
        f"{TRAIN_FOLDER}/ or {TRAIN_ARCHIVE}; check --raw_data_dir"
    )


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
    if _holds_split(raw):
        return
    for below in (*_KAGGLE, *names[:_MOST_FOLDERS_TRIED]):
        if _holds_split(raw / below):
            yield str(raw / below)
    # Lexical on purpose: behind a symbolic link the user means the path as it was typed.
    above = os.path.normpath(raw / "..")
    is_split_folder = raw.resolve().name in (TRAIN_FOLDER, *VALIDATION_FOLDERS)
    is_class_folder = raw.resolve().name in class_indices()
    if is_split_folder and _holds_split(Path(above)):
        yield above
    elif is_class_folder and _holds_split(Path(above, "..")):
        yield os.path.normpath(Path(above, ".."))


def _holds_split(directory: Path) -> bool:
    archives = (TRAIN_ARCHIVE, VALIDATION_ARCHIVE)
    folders = (TRAIN_FOLDER, *VALIDATION_FOLDERS)
    try:
        return any((directory / name).is_file() for name in archives) or any(
            (directory / name).is_dir() for name in folders
        )
    except OSError:  # a directory that cannot be looked into is no advice
        return False
