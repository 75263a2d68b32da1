"""Thumbnails of stored images, with what is known of each drawn in."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Final

from PIL import ImageDraw

if TYPE_CHECKING:
    from dataprep.sinks.example import Example

_SIDE: Final = 112  # pixels of the longer side
_QUALITY: Final = 70
_BOX: Final = (255, 64, 64)


def thumbnail(example: Example) -> str:
    """An image as a ``data:`` address that a page can show without a network.

    Bounding boxes are drawn in. The same image is always the same address.
    """
    small = example.image().convert("RGB")
    small.thumbnail((_SIDE, _SIDE))
    draw = ImageDraw.Draw(small)
    width, height = small.size
    for left, top, right, bottom in example.boxes:
        corners = (left * width, top * height, right * width - 1, bottom * height - 1)
        draw.rectangle(corners, outline=_BOX)
    buffer = io.BytesIO()
    small.save(buffer, "JPEG", quality=_QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
