"""What makes readers stumble over a PNG file whose pixels are fine: it is re-encoded then."""

from __future__ import annotations

import io

from PIL.PngImagePlugin import PngImageFile

from dataprep.images.decoders import PILLOW_ERRORS
from dataprep.images.png import RGB, Chunk, Header, intact

_ANIMATION = (b"acTL", b"fcTL", b"fdAT")
_MOST_FRAMES = 1 << 31


def find_flaw(data: bytes, header: Header, chunks: list[Chunk]) -> str | None:
    """Say why readers might stumble over a grey or RGB file though its pixels are fine.

    Text, profiles, gamma, a transparent colour and an animation are no flaws. Readers of 1 or 3
    channels ignore them all.

    Args:
        data: the whole file.
        header: its header.
        chunks: what `check_structure` gave.

    Returns:
        What the file has that it should not have, or None.
    """
    others = [chunk for chunk in chunks if chunk.name not in (b"IHDR", b"IDAT", b"IEND")]
    palettes = [chunk for chunk in others if chunk.name == b"PLTE"]
    data_at = next(chunk.start for chunk in chunks if chunk.name == b"IDAT")
    for chunk in others:
        name = chunk.name.decode()
        if chunk.name == b"PLTE":
            sound = header.color == RGB and len(palettes) == 1 and chunk.end < data_at
            if not sound or chunk.end - chunk.start not in range(3, 769, 3):
                return "a misplaced palette"
        elif not chunk.name[0] & 0x20:
            return f"a critical chunk {name} that is unknown"
        elif not intact(data, chunk):
            return f"a damaged {name} chunk"
    if not _animation_sound(data, others, data_at):
        return "a broken animation"
    if others and not _pillow_accepts(data, header, others, data_at):
        return "metadata that Pillow refuses"
    return None


def _animation_sound(data: bytes, others: list[Chunk], data_at: int) -> bool:
    """Whether readers of animations (APNG) find in the file what it promises.

    Those read an image whose one frame is its only one, or one with a control chunk (fcTL) before
    each further frame; frame data (fdAT) without one would be taken for the image's own.
    """
    before = [chunk for chunk in others if chunk.name in _ANIMATION and chunk.start < data_at]
    after = [chunk.name for chunk in others if chunk.name in _ANIMATION and chunk.start > data_at]
    if not before:
        return not after
    control, names = before[0], [chunk.name for chunk in before]
    if names not in ([b"acTL"], [b"acTL", b"fcTL"]) or control.end - control.start != 8:
        return False
    frames = int.from_bytes(data[control.start : control.start + 4], "big")
    return after[:1] == [b"fcTL"] * (frames > 1) and 1 <= frames < _MOST_FRAMES


def _pillow_accepts(data: bytes, header: Header, others: list[Chunk], data_at: int) -> bool:
    """Let Pillow read a file of these chunks and no image data, as it reads the whole file's.

    It keeps texts under their keywords among its own notes: one called ``bbox`` makes it fail.
    """
    kept = [c for c in others if c.start < data_at or c.name not in _ANIMATION]
    parts = [data[:33], *(data[c.start - 8 : c.end + 4] for c in kept), b"\0\0\0\0IDAT"]
    try:
        with PngImageFile(io.BytesIO(b"".join(parts))) as image:
            return (
                [tile[1] for tile in image.tile] == [(0, 0, header.width, header.height)]
                and bool(image.info.get("interlace")) == header.interlaced
                and not isinstance(image.info.get("transparency"), str)
            )
    except PILLOW_ERRORS:
        return False
