"""The box list of ChestX-ray14: where radiologists marked a finding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dataprep.errors import SourceError
from dataprep.index import Box
from dataprep.sources.chestxray14.files import ListFile, csv_rows
from dataprep.sources.chestxray14.labels import FINDINGS
from dataprep.wording import printable

GRID: Final = 1024
"""The width and height, in pixels, of the published images, on which boxes are given."""

_HEADER: Final = ("Image Index", "Finding Label")
_COORDINATES: Final = "Bbox [x"  # commas in the header are not quoted
_RENAMED: Final = {"Infiltrate": "Infiltration"}


@dataclass(frozen=True, slots=True)
class MarkedFinding:
    """One box.

    Attributes:
        finding: what it shows, one of `FINDINGS`.
        box: where, within the image.
        clipped: whether the list has it reach beyond the image.
    """

    finding: str
    box: Box
    clipped: bool


@lru_cache(maxsize=1)
def load_boxes(file: ListFile) -> Mapping[str, tuple[MarkedFinding, ...]]:
    """Read a box list: the boxes of each image that has some, in the order of the list.

    Raises:
        SourceError: the file cannot be read, is not the box list, or has a row that does not fit;
            the row's line is named.
    """
    lines = csv_rows(file)
    _check_header(file, next(lines, (1, [])))
    boxes: dict[str, list[MarkedFinding]] = {}
    for number, fields in lines:
        try:
            name, marked = _parse(fields)
        except ValueError as error:
            raise SourceError(
                f"line {number} of {printable(file.place)} {error}; correct it or download the "
                "list again"
            ) from None
        boxes.setdefault(name, []).append(marked)
    return {name: tuple(marked) for name, marked in boxes.items()}


def _check_header(file: ListFile, line: tuple[int, list[str]]) -> None:
    number, fields = line
    header = tuple(field.strip() for field in fields)
    if header[:2] != _HEADER or not any(field.startswith(_COORDINATES) for field in header[2:3]):
        raise SourceError(
            f"line {number} of {printable(file.place)} is "
            f"{printable(','.join(header)[:100])!r}; expected the header "
            f"{','.join(_HEADER)},{_COORDINATES},y,w,h] of the NIH's box list; name the right "
            "file with --bbox_csv"
        )


def _parse(fields: Sequence[str]) -> tuple[str, MarkedFinding]:
    name, label, *texts = map(str.strip, fields)
    while len(texts) > 4 and not texts[-1]:
        texts.pop()
    finding = _RENAMED.get(label, label)
    if finding not in FINDINGS:
        raise ValueError(f"has the finding {printable(label)!r}; expected {', '.join(FINDINGS)}")
    try:
        x, y, width, height = map(float, texts)
    except ValueError:
        x = y = width = height = math.nan
    # Comparisons with a NaN fail, and so does an infinite corner.
    if not (x < GRID and y < GRID and 0 < x + width < math.inf and 0 < y + height < math.inf):
        width = math.nan
    if not (width > 0 and height > 0):
        raise ValueError(
            f"has the box {printable(','.join(texts))!r}; expected x, y, width and height in "
            f"pixels of an image of {GRID} x {GRID}"
        )
    corners = (x / GRID, y / GRID, (x + width) / GRID, (y + height) / GRID)
    box = (max(corners[0], 0.0), max(corners[1], 0.0), min(corners[2], 1.0), min(corners[3], 1.0))
    return name, MarkedFinding(finding, box, clipped=box != corners)
