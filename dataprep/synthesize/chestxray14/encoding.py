"""Radiographs as files: grey PNGs, and the odd ones found among them."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

RadiographKind = Literal["grey", "rgba", "palette", "sixteen_bit"]


def encode_radiograph(pixels: NDArray[np.uint8], kind: RadiographKind) -> bytes:
    """Write a picture as a PNG.

    Args:
        pixels: grey levels, size x size.
        kind: ``grey`` has 8 bits; ``rgba`` has the grey three times and is opaque;
            ``palette`` has indices that grow as the grey falls, so that who takes them for
            greys sees a negative; ``sixteen_bit`` has the grey in the high byte and the
            other bits differ too, so that 8 bits lose something.

    Returns:
        The bytes of the file; all but the last kind show exactly the pixels.
    """
    buffer = io.BytesIO()
    _image(pixels, kind).save(buffer, "PNG")
    return buffer.getvalue()


def _image(pixels: NDArray[np.uint8], kind: RadiographKind) -> Image.Image:
    if kind == "rgba":
        opaque = np.full_like(pixels, 255)
        return Image.fromarray(np.stack([pixels, pixels, pixels, opaque], axis=2))
    if kind == "palette":
        image = Image.fromarray(255 - pixels)
        image.putpalette([255 - index for index in range(256) for _ in range(3)])
        return image
    if kind == "sixteen_bit":
        low = np.add.outer(np.arange(pixels.shape[0]), np.arange(pixels.shape[1])) % 256
        return Image.fromarray(pixels.astype(np.uint16) * 256 + low.astype(np.uint16))
    return Image.fromarray(pixels)
