"""A contact sheet in a terminal: rows of pictures, each over the name of its class."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from PIL import Image

from dataprep.errors import UsageError
from dataprep.review.facts import sample
from dataprep.review.findings import opened
from dataprep.review.pictures import small_picture
from dataprep.sealed.records import Records
from dataprep.sealed.set import SealedSet
from dataprep.sinks.example import Example
from dataprep.system.messages import printable

_CELLS: Final = 18  # of the terminal's width, a picture with the gap behind it
_SHAPE: Final = (120, 90)  # pixels of a picture
_GAP: Final = 8


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
    if not chosen:
        return
    with Records(sealed, chosen[0][1]) as records:
        shown = [(records.by_key(key), records.classes[label]) for label, _, key in chosen]
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
