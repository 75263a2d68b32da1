"""The label of each ILSVRC2012 image: of a class's name, or of a validation image's number."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from dataprep.errors import SourceError
from dataprep.system.messages import printable
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

_VALIDATION_COUNT: Final = 50_000
_NUMBERED: Final = re.compile(r"ILSVRC2012_val_([0-9]{8})\.[A-Za-z]+")


@cache
def class_indices() -> dict[str, int]:
    """The 0-based class index of each WordNet id: its position among the 1000 sorted ids."""
    return {synset: index for index, (synset, _) in enumerate(imagenet_classes())}


def validation_label(name: str) -> int:
    """The 0-based class index of a validation image, by the number in its name.

    So any subset of the images keeps its labels.

    Raises:
        SourceError: its name has none.
    """
    match = _NUMBERED.fullmatch(name)
    number = int(match[1]) if match else 0
    if not 1 <= number <= _VALIDATION_COUNT:
        raise SourceError(
            f"validation image {printable(name)} has no number from 1 to {_VALIDATION_COUNT} to "
            "look its label up; expected ILSVRC2012_val_00000001.JPEG to "
            f"ILSVRC2012_val_{_VALIDATION_COUNT:08d}.JPEG; rename it, or sort the images into "
            "folders named by their WordNet ids"
        )
    return class_indices()[imagenet_validation_synsets()[number - 1]]
