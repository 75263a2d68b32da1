"""Bounding boxes of the ILSVRC2012 training images, from slim's CSV.

``imagenet_2012_bounding_boxes.csv``, as ``process_bounding_boxes.py`` of tensorflow/models
writes it: one box a line, ``n00007846_64193.JPEG,xmin,ymin,xmax,ymax``, fractions of width and
height, several lines for an image with several boxes.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from dataprep.errors import SourceError
from dataprep.index import Box
from dataprep.system.state_files import file_sha256


@lru_cache(maxsize=1)  # each of a thousand class archives asks for them
def boxes_sha256(path: Path) -> str:
    """Identifies a file of boxes.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        return file_sha256(path)
    except OSError as error:
        raise SourceError(f"--bbox_csv {path}: {error.strerror}") from error


@lru_cache(maxsize=1)
def read_bounding_boxes(path: Path) -> Mapping[str, tuple[Box, ...]]:
    """The boxes (xmin, ymin, xmax, ymax) of each file name, in the order of the file.

    Raises:
        SourceError: the file cannot be read, or a line is not a box; names the line.
    """
    boxes: defaultdict[str, list[Box]] = defaultdict(list)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, line in enumerate(csv.reader(file), start=1):
                name, box = _parse(line, f"{path}: line {number}")
                boxes[name].append(box)
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"--bbox_csv {path}: {error}") from error
    return {name: tuple(found) for name, found in boxes.items()}


def _parse(line: list[str], where: str) -> tuple[str, Box]:
    try:
        left, top, right, bottom = (float(text) for text in line[1:])
    except ValueError:
        left, top, right, bottom = 1.0, 1.0, 0.0, 0.0
    if not (0 <= left <= right <= 1 and 0 <= top <= bottom <= 1):
        raise SourceError(
            f"{where}: expected 'file name,xmin,ymin,xmax,ymax' with fractions of the image's "
            f"size, found {','.join(line)!r}"
        )
    return line[0], (left, top, right, bottom)
