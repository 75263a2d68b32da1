"""The label of each ILSVRC2012 validation image, from a list of one WordNet id a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    """The 0-based class index on each line of a label list.

    Args:
        raw: the raw directory.
        name: the list, relative to `raw`; empty for the one shipped with dataprep.

    Raises:
        SourceError: the list is unreadable or has a line that is not a class.
    """
    indices = class_indices()
    if not name:
        return tuple(indices[synset] for synset in imagenet_validation_synsets())
    try:
        text = (raw / name).read_text(encoding="utf-8-sig", errors="replace").rstrip()
    except OSError as error:
        raise unreadable(name, error) from error
    lines = [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if line not in indices:
            raise SourceError(
                f"line {number} of {name} is {printable(line[:40])!r}; expected one of the 1000 "
                "WordNet ids, such as n01440764 (ILSVRC2012_validation_ground_truth.txt of the "
                "development kit numbers classes differently and cannot be used)"
            )
    return tuple(indices[line] for line in lines)


def classify(names: Sequence[str], place: str, classes: Sequence[int]) -> list[int]:
    """The 0-based class index of each validation image.

    A list of 50,000 lines is looked up by the number in the file name, so any subset of the
    images keeps its labels. A list with as many lines as there are files goes by position, as in
    the TPU script. Any other list would misalign labels.

    Args:
        names: the images' file names, sorted.
        place: the list to look them up in; empty for the shipped one.
        classes: the class index on each of its lines.

    Raises:
        SourceError: the list does not fit, or a name has no number or one out of range.
    """
    place = place or "the list shipped with dataprep"
    if len(classes) == VALIDATION_COUNT:
        return [classes[_number(name, place) - 1] for name in names]
    if len(names) == len(classes):
        return list(classes)
    raise SourceError(
        f"{place} has {len(classes)} lines for {len(names)} validation images; "
        f"expected {VALIDATION_COUNT} lines (looked up by image number) or one line an image "
        "(in the order of the sorted names); correct the list, or remove it to use the shipped one"
    )


def _number(name: str, place: str) -> int:
    match = _NUMBERED.fullmatch(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= VALIDATION_COUNT:
        raise SourceError(
            f"validation image {printable(name)} has no number from 1 to {VALIDATION_COUNT} to "
            f"look up in {place}; expected ILSVRC2012_val_00000001.JPEG to "
            f"ILSVRC2012_val_{VALIDATION_COUNT:08d}.JPEG; rename it, or supply "
            f"{_LIST_NAMES[0]} with one line an image"
        )
    return number
