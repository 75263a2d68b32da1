"""Thumbnails of stored images, with what is known of each drawn in."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from dataprep.sinks.example import Example

_SIDE: Final = 112  # pixels of the longer side
_QUALITY: Final = 70
_BOX: Final = (255, 64, 64)


def small_picture(example: Example, shape: tuple[int, int] = (_SIDE, _SIDE)) -> Image.Image:
    """An image that fits into so many pixels, with its bounding boxes drawn in."""
    small = example.image().convert("RGB")
    small.thumbnail(shape)
    draw = ImageDraw.Draw(small)
    width, height = small.size
    for left, top, right, bottom in example.boxes:
        corners = (left * width, top * height, right * width - 1, bottom * height - 1)
        draw.rectangle(corners, outline=_BOX)
    return small


def thumbnail(example: Example) -> str:
    """A small picture as a ``data:`` address that a page can show without a network.

    The same image is always the same address.
    """
    buffer = io.BytesIO()
    small_picture(example).save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
