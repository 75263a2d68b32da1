"""Thumbnails of stored images, with what is known of each drawn in: for a page, for a terminal."""

from __future__ import annotations

import base64
import io
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, ImageColor, ImageDraw

from dataprep.errors import DataprepError, DatasetError, UsageError
from dataprep.formats.example import Example
from dataprep.images.masks import NOTHING, fitted
from dataprep.images.pixels import eight_bits, upright
from dataprep.review.facts import rows_of, sample
from dataprep.review.findings import opened
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.sealed.split import FinishedSplit
from dataprep.system.messages import printable
from dataprep.tables.records import NAME
from dataprep_schemas.fields import CAPTIONS, MASK

_SIDE: Final = 112  # pixels of the longer side
_QUALITY: Final = 70
_BOX: Final = (255, 64, 64)
# By number, far apart for numbers that are near: the steps of the golden angle round the hues.
_COLOURS: Final = np.array(
    [ImageColor.getrgb(f"hsv({137 * number % 360}, 80%, 100%)") for number in range(256)], np.uint8
)
_LONGEST: Final = 120  # characters of a name
# In a terminal:
_CELLS: Final = 18  # of its width, a picture with the gap behind it
_SHAPE: Final = (120, 90)  # pixels of a picture
_GAP: Final = 8


@dataclass(frozen=True, slots=True)
class Picture:
    """A thumbnail, if there is one, what it shows, and where it is from."""

    address: str | None
    class_name: str
    place: str
    text: str = ""

    @property
    def caption(self) -> str:
        """All that is said of it, in a line."""
        return ": ".join(filter(None, (self.place, self.class_name, self.text)))


class Album:
    """Thumbnails of the images of a data set; of what cannot be read, only captions.

    Args:
        rows: of stored images by (split, key), in the table of records.
    """

    def __init__(self, sealed: SealedSet, rows: Mapping[tuple[str, str], int]) -> None:
        self._sealed, self._rows = sealed, rows
        self._first = {name: start for name, (start, *_) in first_rows(sealed.manifest).items()}

    def pictures(self, images: Sequence[tuple[str, str]]) -> list[Picture]:
        """Thumbnails of these images (split, key), in this order."""
        found = self._stored(images)
        return [found.get(image) or Picture(None, "", short("/".join(image))) for image in images]

    def _stored(self, images: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Picture]:
        found = {}
        wanted = sorted((self._rows[image], image) for image in {*images} & self._rows.keys())
        for split in {split for _, (split, _) in wanted}:
            finished = FinishedSplit(self._sealed, split)
            for row, (of, key) in wanted:
                if of == split:
                    found[of, key] = _stored(finished, row - self._first[split], key)
            finished.close()
        return found


def short(name: str, most: int = _LONGEST) -> str:
    """A name for a page, printable, cut where it is very long."""
    name = printable(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def small_picture(
    example: Example, shape: tuple[int, int] = (_SIDE, _SIDE), *, quick: bool = False
) -> Image.Image:
    """An image that fits into so many pixels, with its mask and its bounding boxes drawn in.

    Args:
        quick: decode JPEGs only as large as needed, and take 16-bit grey down to 8: other pixels.
    """
    small = _reduced(example, shape) if quick else example.image().convert("RGB")
    small.thumbnail(shape)
    if MASK.name in example.fields:
        small = _masked(small, example)
    draw = ImageDraw.Draw(small)
    width, height = small.size
    for left, top, right, bottom in example.upright_boxes:
        corners = (left * width, top * height, right * width - 1, bottom * height - 1)
        draw.rectangle(corners, outline=_BOX)
    return small


def _masked(small: Image.Image, example: Example) -> Image.Image:
    """With the pixels of every number but 0 and 255 in the number's colour, half of them."""
    levels = fitted(example.mask(), 1, (small.height, small.width))
    seen = np.asarray(small)
    shown = ((levels != 0) & (levels != NOTHING))[:, :, None]
    return Image.fromarray(np.where(shown, (seen // 2 + _COLOURS[levels] // 2), seen))


def _reduced(example: Example, shape: tuple[int, int]) -> Image.Image:
    if example.format != "JPEG":
        return Image.fromarray(eight_bits(example.array())).convert("RGB")
    with Image.open(io.BytesIO(example.encoded)) as picture:
        picture.draft("RGB", (2 * shape[0], 2 * shape[1]))  # of twice the size, so that it is fine
        found = picture.convert("RGB")
    return Image.fromarray(upright(np.asarray(found), example.orientation))


def _address(example: Example) -> str:
    """A small picture as a ``data:`` address, for which a page needs no network."""
    buffer = io.BytesIO()
    small_picture(example).save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def _stored(finished: FinishedSplit, number: int, key: str) -> Picture:
    place = short(f"{finished.split}/{key}")
    try:
        example = _example(finished, number, key)
        text = short("".join(example.fields.get(CAPTIONS.name, ())[:1]))
        return Picture(_address(example), short(example.class_name), place, text)
    except (LookupError, DataprepError, OSError):  # a damaged shard, or one that is not there
        return Picture(None, "", place)


def _example(finished: FinishedSplit, number: int, key: str) -> Example:
    example = finished[number]
    if example.key != key:
        raise DatasetError(
            f"{finished.out / NAME} does not say where {printable(key)} is; `dataprep verify` "
            "names bad files"
        )
    return example


def preview(out: Path, *, split: str | None, images: int, seed: int) -> None:
    """Draw some images of a data set, of as many classes as there is room for.

    Args:
        split: of the images; None for train, or the first.

    Raises:
        DatasetError: it is not a finished data set, damaged, or a part.
        UsageError: stdout is no terminal, what draws there is not installed, or no such split.
    """
    console, drawn = _terminal(out)
    sealed = SealedSet.read(out)
    splits = [*sealed.splits] if split is None else [sealed.split_called(split)]
    with opened(sealed) as (database, _):
        chosen = sample(database, splits, images=images, seed=seed)
        found = rows_of(database, [(split, key) for _, split, key in chosen])
    if not chosen:
        return
    finished = FinishedSplit(sealed, chosen[0][1])
    first = first_rows(sealed.manifest)[finished.split][0]
    shown = [
        (_example(finished, found[split, key] - first, key), finished.info.classes[label])
        for label, split, key in chosen
    ]
    columns = max(console.width // _CELLS, 1)
    for start in range(0, len(shown), columns):
        row = shown[start : start + columns]
        strip = _strip([example for example, _ in row])
        console.print(drawn(strip, width=_CELLS * len(row)), end="")
        names = (printable(name or identifier) for _, (identifier, name) in row)
        captions = (name[: _CELLS - 2].ljust(_CELLS) for name in names)
        console.print("".join(captions).rstrip(), markup=False, highlight=False)


def _terminal(out: Path) -> tuple[Any, Any]:
    """The terminal, and what draws a picture in it."""
    page, command = out / "report.html", f"dataprep report {shlex.quote(printable(str(out)))}"
    where = f"{page} has the pictures" if page.exists() else f"`{command}` makes a page"
    if not sys.stdout.isatty():
        raise UsageError(f"a preview is drawn in a terminal, and stdout is none; {where}")
    if 0 in os.get_terminal_size(sys.stdout.fileno()):
        raise UsageError(f"this terminal has no columns or rows (stty sets them); {where}")
    try:
        from rich.console import Console
        from textual_image.renderable import Image as Drawn  # asks the terminal what it can
    except ModuleNotFoundError as error:
        raise UsageError(
            f"a preview needs textual-image; install dataprep-shards[report]; or else: {where}"
        ) from error
    return Console(), Drawn


def _strip(examples: Sequence[Example]) -> Image.Image:
    """Pictures side by side, each in the middle of its place."""
    width, height = _SHAPE
    strip = Image.new("RGB", ((width + _GAP) * len(examples), height))
    for place, example in enumerate(examples):
        picture = small_picture(example, _SHAPE)
        left = place * (width + _GAP) + (width - picture.width) // 2
        strip.paste(picture, (left, (height - picture.height) // 2))
    return strip
