"""The label of each ILSVRC2012 validation image, from a list of one WordNet id a line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class LabelList:
    """A list of validation labels.

    Attributes:
        place: what messages call it.
        classes: the 0-based class index on each line.
    """

    place: str
    classes: tuple[int, ...]


def find_label_list(raw: Path) -> str:
    """The label list in the raw directory, relative to it; empty if there is none.

    Raises:
        SourceError: there are two and they differ, or one cannot be used.
    """
    present = [name for name in _LIST_NAMES if os.path.lexists(raw / name)]
    if len({load_label_list(raw, name).classes for name in present}) > 1:
        raise SourceError(
            f"{' and '.join(present)} differ; expected one list of validation labels; remove the "
            "wrong one"
        )
    return present[0] if present else ""


def load_label_list(raw: Path, name: str) -> LabelList:
    """Read a label list, or the shipped one.

    Args:
        raw: the raw directory.
        name: the list, relative to `raw`; empty for the shipped list.

    Raises:
        SourceError: the list is unreadable, empty, or has a line that is not a class.
    """
    indices = class_indices()
    if not name:
        shipped = tuple(indices[synset] for synset in imagenet_validation_synsets())
        return LabelList("the list shipped with dataprep", shipped)
    try:
        text = (raw / name).read_text(encoding="utf-8-sig", errors="replace").rstrip()
    except OSError as error:
        raise unreadable(name, error) from error
    if not text:
        raise SourceError(f"{name} is empty; expected one WordNet id a line, such as n01440764")
    lines = [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines, 1):
        if line not in indices:
            raise SourceError(
                f"line {number} of {name} is {printable(line[:40])!r}; expected one of the 1000 "
                "WordNet ids, such as n01440764 (ILSVRC2012_validation_ground_truth.txt of the "
                "development kit numbers classes differently and cannot be used)"
            )
    return LabelList(name, tuple(indices[line] for line in lines))


def classify(names: Sequence[str], labels: LabelList) -> list[int]:
    """The 0-based class index of each validation image.

    A list of 50,000 lines is looked up by the number in the file name, so any subset of the
    images keeps its labels. A list with as many lines as there are files goes by position, as in
    the TPU script. Any other list would misalign labels.

    Args:
        names: the images' file names, sorted.
        labels: the list to look them up in.

    Raises:
        SourceError: the list does not fit, or a name has no number, one out of range or another
            file's.
    """
    if len(labels.classes) == VALIDATION_COUNT:
        return _by_number(names, labels)
    if len(names) == len(labels.classes):
        return list(labels.classes)
    raise SourceError(
        f"{labels.place} has {len(labels.classes)} lines for {len(names)} validation images; "
        f"expected {VALIDATION_COUNT} lines (looked up by image number) or one line an image "
        "(in the order of the sorted names); correct the list, or remove it to use the shipped one"
    )


def _by_number(names: Sequence[str], labels: LabelList) -> list[int]:
    owners: dict[int, str] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        number = int(match[1]) if match else 0
        if not 1 <= number <= VALIDATION_COUNT:
            raise SourceError(
                f"validation image {printable(name)} has no number from 1 to {VALIDATION_COUNT} to "
                f"look up in {labels.place}; expected ILSVRC2012_val_00000001.JPEG to "
                f"ILSVRC2012_val_{VALIDATION_COUNT:08d}.JPEG; rename it, or supply "
                f"{_LIST_NAMES[0]} with one line an image"
            )
        if number in owners:
            raise SourceError(
                f"{printable(owners[number])} and {printable(name)} have the same image number; "
                "expected one file an image; remove one"
            )
        owners[number] = name
    return [labels.classes[number - 1] for number in owners]
