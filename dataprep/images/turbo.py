"""The simplejpeg calls this package makes, with the types simplejpeg does not declare."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np

# It ships stubs for its extension module but no py.typed, so type checkers may not use them.
import simplejpeg  # type: ignore[import-untyped]

from dataprep.images.pixels import Pixels, padded


def decode(data: bytes, space: Literal["GRAY", "RGB"]) -> Pixels:
    """Decode at full scale with libjpeg's accurate DCT and smooth chroma upsampling.

    Args:
        data: the whole file.
        space: what to decode to; colour to ``GRAY`` gives luma.

    Returns:
        The pixels; RGB is `padded`.

    Raises:
        ValueError: the data is damaged, or the decoder warns; its first words.
    """
    decoded = simplejpeg.decode_jpeg(data, "GRAY" if space == "GRAY" else "RGBX", strict=True)
    return cast(Pixels, decoded[:, :, 0] if space == "GRAY" else decoded[:, :, :3])


def scan(data: bytes) -> None:
    """Run the whole entropy decoder, making a 1/8-scale grey image that nobody keeps.

    The parts that cost the most, full inverse DCT, upsampling and colour conversion, are
    all left out. Errors are those of `decode`.
    """
    simplejpeg.decode_jpeg(
        data,
        "GRAY",
        fastdct=True,
        fastupsample=True,
        min_height=1,
        min_width=1,
        strict=True,
    )


def encode(pixels: Pixels, quality: int, chroma: str) -> bytes:
    """Encode as baseline JPEG without metadata; grey stays one component.

    Args:
        pixels: uint8, (height, width) or (height, width, 3), no side over 65,500.
        quality: 1 to 100.
        chroma: subsampling of the colour planes of RGB, ``420`` or ``444``.
    """
    whole, space = padded(pixels), "RGBX"
    if whole is None:
        whole, space = np.ascontiguousarray(pixels), "RGB"
    if pixels.ndim == 2:
        whole, space, chroma = whole[:, :, np.newaxis], "GRAY", "Gray"
    return cast(bytes, simplejpeg.encode_jpeg(whole, quality, space, chroma))
