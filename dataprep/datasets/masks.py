"""Reads one image's mask from wherever the index says it is.

The index has a text for each image with a mask, in JSON: the columns of its place; or what is to
be drawn, runs of pixels or outlines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from dataprep.datasets.reading import read_image
from dataprep.errors import ImageError, SourceError
from dataprep.images import masks
from dataprep.images.pixels import Pixels, require_size
from dataprep.system.messages import printable

_DRAWN: Final = ('{"order"', '{"outlines"')


class _Drawn(msgspec.Struct, frozen=True):
    """Runs of pixels, in an order, or outlines on a picture of a size (height, width)."""

    runs: tuple[tuple[int, str], ...] = ()
    order: Literal["rows", "columns", ""] = ""
    outlines: tuple[tuple[int, Any], ...] = ()
    of: tuple[int, int] = (0, 0)


def outlines_of(outlines: list[tuple[int, msgspec.Raw]], size: tuple[int, int]) -> str:
    """What the index says of outlines of COCO's annotations, each with its number.

    Args:
        size: height and width of the picture that they are of.
    """
    return msgspec.json.encode({"outlines": outlines, "of": size}).decode()


def read_mask(
    raw: Path,
    text: str,
    index: Path | None,
    *,
    size: tuple[int, int],
    most: int | None,
    max_pixels: int,
) -> Pixels:
    """The numbers of a mask, (height, width).

    Args:
        text: what the index says of it.
        index: the directory of the index.
        size: height and width of its image, as it came.
        most: bytes that its file may have; None: any number.
        max_pixels: that it may have.

    Raises:
        ImageError: it is no mask, or too large.
        SourceError: its file cannot be read, or changed since it was indexed; or the text is what
            no scan writes.
    """
    from dataprep.tables.arrow import placed_row  # late: most data sets have no masks

    try:
        if text.startswith(_DRAWN):
            drawn = msgspec.json.decode(text, type=_Drawn)
            if drawn.order:
                return masks.of_runs(drawn.runs, size, down=drawn.order == "columns")
            require_size(*drawn.of[::-1], max_pixels)
            return masks.of_outlines(drawn.outlines, drawn.of)
        row = placed_row(msgspec.json.decode(text, type=dict[str, str | int | None]))
    except msgspec.MsgspecError as error:
        raise SourceError(f"the index has a mask {printable(text)[:80]}: {error}") from error
    try:
        return masks.read(read_image(raw, row, index, most=most), max_pixels)
    except ImageError as error:
        raise ImageError(f"{printable(row.key)}: {error}") from error
