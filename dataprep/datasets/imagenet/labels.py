"""The label of each ILSVRC2012 validation image, from a list of one WordNet id a line."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

VALIDATION_COUNT: Final = 50_000
LIST_NAMES: Final = ("synset_labels.txt", "imagenet_2012_validation_synset_labels.txt")
_SHIPPED: Final = "the list shipped with dataprep"
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

    @property
    def is_official(self) -> bool:
        """Whether it has a line for each image number of the published validation set."""
        return len(self.classes) == VALIDATION_COUNT


def find_label_list(raw: Path) -> str:
    """The label list in the raw directory, relative to it; empty if there is none.

    Raises:
        SourceError: there are two and they differ, or one cannot be used.
    """
    present = [name for name in LIST_NAMES if os.path.lexists(raw / name)]
    lists = {name: load_label_list(raw, name) for name in present}
    if len({entry.classes for entry in lists.values()}) > 1:
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
    if not name:
        return _shipped_list()
    try:
        text = (raw / name).read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise unreadable(name, error) from error
    return _parse(text, name)


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
    if labels.is_official:
        return _by_number(names, labels)
    if len(names) == len(labels.classes):
        return list(labels.classes)
    raise SourceError(
        f"{labels.place} has {len(labels.classes)} lines for {len(names)} validation images; "
        f"expected {VALIDATION_COUNT} lines (looked up by image number) or one line an image "
        "(in the order of the sorted names); correct the list, or remove it to use the shipped one"
    )


def check_category(names: Sequence[str], category: str, labels: LabelList) -> None:
    """Check a class folder of validation images against a list of all 50,000 labels.

    Names without an official number, and lists that go by position, cannot be compared and pass.

    Raises:
        SourceError: the list says that an image belongs to another class.
    """
    if not labels.is_official:
        return
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None or not 1 <= int(match[1]) <= VALIDATION_COUNT:
            continue
        index = labels.classes[int(match[1]) - 1]
        if index != class_indices()[category]:
            raise SourceError(
                f"{printable(name)} is in class folder {category}, but {labels.place} says "
                f"{imagenet_classes()[index][0]}; move the image, or remove the wrong list"
            )


def _by_number(names: Sequence[str], labels: LabelList) -> list[int]:
    owners: dict[int, str] = {}
    for name in names:
        number = _number(name, labels)
        if number in owners:
            raise SourceError(
                f"{printable(owners[number])} and {printable(name)} have the same image number; "
                "expected one file an image; remove one"
            )
        owners[number] = name
    return [labels.classes[number - 1] for number in owners]


def _number(name: str, labels: LabelList) -> int:
    match = _NUMBERED.fullmatch(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= VALIDATION_COUNT:
        raise SourceError(
            f"validation image {printable(name)} has no number from 1 to {VALIDATION_COUNT} to "
            f"look up in {labels.place}; expected ILSVRC2012_val_00000001.JPEG to "
            f"ILSVRC2012_val_{VALIDATION_COUNT:08d}.JPEG; rename it, or supply {LIST_NAMES[0]} "
            "with one line an image"
        )
    return number


@cache
def _shipped_list() -> LabelList:
    indices = class_indices()
    return LabelList(_SHIPPED, tuple(indices[synset] for synset in imagenet_validation_synsets()))


@lru_cache(maxsize=4)
def _parse(text: str, name: str) -> LabelList:
    """Parse a list; cached because each of a thousand class folders is checked against it."""
    lines = [line.strip() for line in text.rstrip().split("\n")] if text.strip() else []
    if not lines:
        raise SourceError(f"{name} is empty; expected one WordNet id a line, such as n01440764")
    return LabelList(
        name, tuple(_index(line, number, name) for number, line in enumerate(lines, 1))
    )


def _index(line: str, number: int, name: str) -> int:
    index = class_indices().get(line)
    if index is None:
        raise SourceError(
            f"line {number} of {name} is {printable(line[:40])!r}; expected one of the 1000 "
            "WordNet ids, such as n01440764 (ILSVRC2012_validation_ground_truth.txt of the "
            "development kit numbers classes differently and cannot be used)"
        )
    return index
