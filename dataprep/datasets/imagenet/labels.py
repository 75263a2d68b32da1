"""The label of each ILSVRC2012 validation image, from a list of one WordNet id a line."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

VALIDATION_COUNT: Final = 50_000
_LIST_NAMES: Final = ("synset_labels.txt", "imagenet_2012_validation_synset_labels.txt")
_NUMBERED: Final = re.compile(r"ILSVRC2012_val_([0-9]{8})\.[A-Za-z]+")


@cache
def class_indices() -> dict[str, int]:
    """The 0-based class index of each WordNet id: its position among the 1000 sorted ids."""
    return {synset: index for index, (synset, _) in enumerate(imagenet_classes())}


def find_label_list(raw: Path) -> str:
    """The label list in the raw directory, relative to it; empty if there is none."""
    return next((name for name in _LIST_NAMES if (raw / name).exists()), "")


def load_label_list(raw: Path, name: str) -> tuple[int, ...]:
    """The 0-based class index of each validation image, from the first to the 50,000th.

    Args:
        raw: the raw directory.
        name: the list, relative to `raw`; empty for the one shipped with dataprep.

    Raises:
        SourceError: the list is unreadable, has a line that is not a class, or not 50,000 lines.
    """
    indices = class_indices()
    if not name:
        return tuple(indices[synset] for synset in imagenet_validation_synsets())
    try:
        lines = (raw / name).read_text(encoding="utf-8-sig", errors="replace").split()
    except OSError as error:
        raise unreadable(name, error) from error
    for number, line in enumerate(lines, 1):
        if line not in indices:
            raise SourceError(
                f"line {number} of {name} is {printable(line[:40])!r}; expected one of the 1000 "
                "WordNet ids, such as n01440764 (ILSVRC2012_validation_ground_truth.txt of the "
                "development kit numbers classes differently and cannot be used)"
            )
    if len(lines) != VALIDATION_COUNT:
        raise SourceError(
            f"{name} has {len(lines)} lines; expected {VALIDATION_COUNT}, one an official "
            "validation image; correct the list, or remove it to use the shipped one"
        )
    return tuple(indices[line] for line in lines)


def image_number(name: str) -> int:
    """The number of a validation image, from 1, by which labels are looked up.

    So any subset of the images keeps its labels.

    Raises:
        SourceError: its name has none.
    """
    match = _NUMBERED.fullmatch(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= VALIDATION_COUNT:
        raise SourceError(
            f"validation image {printable(name)} has no number from 1 to {VALIDATION_COUNT} to "
            "look its label up; expected ILSVRC2012_val_00000001.JPEG to "
            f"ILSVRC2012_val_{VALIDATION_COUNT:08d}.JPEG; rename it, or sort the images into "
            "folders named by their WordNet ids"
        )
    return number
