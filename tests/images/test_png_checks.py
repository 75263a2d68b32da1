"""What a PNG must be to pass; whatever passes, Pillow decodes."""

from __future__ import annotations

import io
import struct
import warnings
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, prepare
from tests.images.png_files import GREY, MAGIC, RGB, chunk, join, png, scanlines, split

CHECKS: tuple[Any, ...] = ("header", "bitstream", "pixels")
KEEP = Recipe(passes=("JPEG", "PNG"))
ROWS = np.arange(35).reshape(5, 7)
PLAIN = png(ROWS)
HEADER, (_, PACKED), END = split(PLAIN)
LINES = scanlines(ROWS[..., np.newaxis], 8)
GAMMA = (b"gAMA", struct.pack(">I", 45455))
FRAME = struct.pack(">IIIIIHHBB", 0, 7, 5, 0, 0, 1, 1, 0, 0)


def _with_data(*pieces: bytes) -> bytes:
    return join([HEADER, *((b"IDAT", piece) for piece in pieces), END])


def _with_header(**fields: int) -> bytes:
    names = ("width", "height", "depth", "color", "method", "filter", "interlace")
    found = dict(zip(names, struct.unpack(">IIBBBBB", HEADER[1]), strict=True))
    return join(
        [(b"IHDR", struct.pack(">IIBBBBB", *{**found, **fields}.values())), *split(PLAIN)[1:]]
    )


def _interlaced(lines: bytes) -> bytes:
    header = (b"IHDR", HEADER[1][:-1] + b"\1")
    return join([header, (b"IDAT", zlib.compress(lines)), END])


def test_truncation_is_rejected_wherever_it_is() -> None:
    for check in CHECKS:
        for end in range(8, len(PLAIN)):
            with pytest.raises(ImageError, match=r"truncated PNG|empty image|broken PNG"):
                prepare(PLAIN[:end], Recipe(check=check, passes=("PNG",)))


@pytest.mark.parametrize("check", ["bitstream", "pixels"])
def test_a_flipped_bit_never_passes(check: Any) -> None:
    for at in range(8, len(PLAIN)):
        data = bytearray(PLAIN)
        data[at] ^= 1 << at % 8
        with pytest.raises(ImageError):
            prepare(bytes(data), Recipe(check=check, passes=("PNG",)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (PLAIN[:-12], f"truncated PNG: {len(PLAIN) - 12} bytes without an end chunk"),
        (join([(b"junk", HEADER[1]), *split(PLAIN)]), "does not begin with its one header"),
        (join([HEADER, *split(PLAIN)]), "does not begin with its one header"),
        (join([(b"IHDR", HEADER[1] + b"\0"), *split(PLAIN)[1:]]), "does not begin with its one"),
        (join([HEADER, END]), "it has no image data"),
        (join([HEADER, (b"IDAT", PACKED[:9]), GAMMA, (b"IDAT", PACKED[9:]), END]), "in two places"),
        (join([HEADER, (b"IDAT", PACKED), (b"no 1", b""), END]), "a chunk named b'no 1' at byte"),
        (_with_header(depth=3), "its header has the fields 03 00 00 00 00"),
        (_with_header(color=5), "its header has the fields 08 05"),
        (_with_header(color=2, depth=4), "its header has the fields 04 02"),
        (_with_header(method=1), "its header has the fields 08 00 01"),
        (_with_header(filter=1), "its header has the fields 08 00 00 01"),
        (_with_header(interlace=2), "its header has the fields 08 00 00 00 02"),
        (PLAIN[:-2] + b"xx", "wrong checksum of the IEND chunk at byte"),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_broken_structure_is_rejected(data: bytes, reason: str, check: Any) -> None:
    with pytest.raises(ImageError, match=reason):
        prepare(data, Recipe(check=check, passes=("PNG",)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (_with_header(height=6), "truncated PNG: its image data ends 8 bytes early"),
        (_with_header(color=2), "truncated PNG: its image data ends 70 bytes early"),
        (_interlaced(bytes(40)), "truncated PNG: its image data ends 6 bytes early"),
        (_with_data(PACKED[:-1]), "truncated PNG: its image data has no end"),
        (_with_data(PACKED[:-5]), "truncated PNG"),
        (_with_data(zlib.compress(LINES)[:-4] + b"sum!"), "incorrect data check"),
        (_with_data(b"", b""), "truncated PNG: its image data ends 40 bytes early"),
        (_with_data(b"not zlib"), "broken PNG: Error -3"),
        (_with_data(zlib.compress(b"\5" + LINES[1:])), "a row with an unknown filter"),
        (
            _with_data(zlib.compress(LINES[:32] + b"\7" + LINES[33:])),
            "a row with an unknown filter",
        ),
    ],
)
def test_broken_image_data_is_rejected(data: bytes, reason: str) -> None:
    with pytest.raises(ImageError, match=reason):
        prepare(data, KEEP)
    assert prepare(data, Recipe(check="header", passes=("PNG",))).data is data


@pytest.mark.parametrize(
    "data",
    [
        _with_data(zlib.compress(LINES + b"\0")),
        _with_data(zlib.compress(LINES) + b"behind it"),
        _with_data(zlib.compress(LINES), b"behind it"),
        _with_data(zlib.compress(LINES + bytes(50_000_000), 1)),
    ],
    ids=["longer", "tail", "another chunk", "bomb"],
)
def test_surplus_image_data_is_left_out(data: bytes) -> None:
    done = prepare(data, KEEP)
    text = "grey PNG with more image data than its size needs: re-encoded as grey PNG"
    assert done.notes == (Note("repaired", text),)
    assert done.data == prepare(PLAIN, Recipe(encoding="png")).data


@pytest.mark.parametrize("cuts", [(), (0, 0), (1, 2, 3), (5, 5, 20)])
def test_image_data_may_be_cut_anywhere(cuts: tuple[int, ...]) -> None:
    ends = [0, *cuts, len(PACKED)]
    data = _with_data(*(PACKED[a:b] for a, b in pairwise(ends)))
    assert prepare(data, KEEP).data is data


@pytest.mark.parametrize(("width", "height"), [(3000, 400), (1, 1_100_000), (1_200_000, 2)])
def test_large_images_pass_block_by_block(
    encoded: Callable[..., bytes], width: int, height: int
) -> None:
    pixels = (np.arange(width * height) * 7919 >> 5).astype(np.uint8).reshape(height, width)
    data = encoded(Image.fromarray(pixels), "PNG", compress_level=1)
    assert prepare(data, KEEP).data is data


def _animated(before: list[Any], after: list[Any], *, frames: int = 2) -> bytes:
    control = (b"acTL", struct.pack(">II", frames, 0))
    return join([HEADER, control, *before, (b"IDAT", PACKED), *after, END])


FLAWS = {
    "a damaged gAMA chunk": PLAIN[:33] + chunk(*GAMMA)[:-1] + b"x" + PLAIN[33:],
    "a critical chunk ABCD that is unknown": png(ROWS, before=chunk(b"ABCD")),
    "a misplaced palette": png(ROWS, before=chunk(b"PLTE", bytes(3))),
}
REFUSED = {
    "text bomb": png(ROWS, before=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(9_000_000), 1))),
    "text bomb at the end": png(ROWS, after=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(9**7)))),
    "profile bomb": png(ROWS, before=chunk(b"iCCP", b"k\0\0" + zlib.compress(bytes(9**7)))),
    "short gamma": png(ROWS, before=chunk(b"gAMA", b"")),
    "short density": png(ROWS, after=chunk(b"pHYs", b"123")),
    "short transparency": png(ROWS, before=chunk(b"tRNS", b"")),
    "text that Pillow takes for its tile": png(ROWS, before=chunk(b"tEXt", b"bbox\0x")),
    "text that Pillow takes for Adam7": png(ROWS, before=chunk(b"tEXt", b"interlace\0x")),
    "text that Pillow takes for tRNS": png(ROWS, before=chunk(b"tEXt", b"transparency\0x")),
}
ANIMATIONS = {
    "no frames": _animated([], [], frames=0),
    "too many frames": _animated([], [(b"fcTL", FRAME)], frames=2**31 + 1),
    "second frame in the image data": _animated([], [(b"fdAT", b"\0\0\0\0" + PACKED)]),
    "no control": join([HEADER, (b"IDAT", PACKED), (b"fcTL", FRAME), END]),
    "two controls": _animated([(b"acTL", bytes(8))], []),
    "one frame and more": _animated([(b"fcTL", FRAME)], [(b"fcTL", FRAME)], frames=1),
}


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        *((data, name) for name, data in FLAWS.items()),
        *((data, "metadata that Pillow refuses") for data in REFUSED.values()),
        *((data, "a broken animation") for data in ANIMATIONS.values()),
    ],
    ids=[*FLAWS, *REFUSED, *ANIMATIONS],
)
@pytest.mark.parametrize("check", CHECKS)
def test_good_pixels_among_bad_chunks_are_re_encoded(data: bytes, flaw: str, check: Any) -> None:
    done = prepare(data, Recipe(check=check, passes=("PNG",)))
    assert done.notes == (Note("repaired", f"grey PNG with {flaw}: re-encoded as grey PNG"),)
    assert done.data == prepare(PLAIN, Recipe(encoding="png")).data


def test_palette_is_a_suggestion_in_rgb() -> None:
    colours = np.arange(105).reshape(5, 7, 3)
    one = chunk(b"PLTE", bytes(6))
    data = png(colours, RGB, before=one)
    assert prepare(data, KEEP).data is data
    for options in ({"before": one + one}, {"after": one}, {"before": chunk(b"PLTE", bytes(4))}):
        (note,) = prepare(png(colours, RGB, **options), KEEP).notes
        assert note.text.startswith("RGB PNG with a misplaced palette")


CHUNKS = [
    *((name, b"") for name in (b"IHDR", b"IDAT", b"IEND", b"fdAT", b"ABCD", b"DDAT", b"prVt")),
    *((b"tEXt", key + b"\0x") for key in (b"bbox", b"interlace", b"transparency", b"gamma", b"k")),
    *((b"acTL", struct.pack(">II", frames, 0)) for frames in (0, 1, 2, 2**31)),
    (b"fcTL", FRAME),
    (b"fcTL", b"\0\0\0\1" + FRAME[4:]),
    (b"fcTL", FRAME[:7] + b"\1" + FRAME[8:]),
    (b"fdAT", b"\0\0\0\1" + PACKED),
    (b"zTXt", b"k\0\1x"),
    (b"zTXt", b"k\0\0" + zlib.compress(bytes(2_000_000))),
    (b"iTXt", b"k\0\1\0\0\0\xff"),
    (b"iCCP", b"no profile"),
    (b"PLTE", bytes(6)),
    (b"tRNS", bytes(6)),
    (b"sRGB", b""),
    (b"cHRM", bytes(31)),
    (b"pHYs", bytes(9)),
    GAMMA,
]
BASES = [
    png(ROWS, before=chunk(*GAMMA), after=chunk(b"tIME", bytes(7)), pieces=2),
    png(ROWS, interlaced=True, before=chunk(b"tEXt", b"k\0v")),
    png(np.arange(105).reshape(5, 7, 3), RGB, interlaced=True),
    png(ROWS * 1800, GREY, 16, before=chunk(b"tRNS", b"\0\7")),
    _animated([(b"fcTL", FRAME)], [(b"fcTL", b"\0\0\0\1" + FRAME[4:])]),
]


@st.composite
def _mutated(draw: st.DrawFn) -> bytes:
    """A file with a few bytes changed, or a few chunks, their checksums right."""
    base = draw(st.sampled_from(BASES))
    if draw(st.booleans()):
        data = bytearray(base)
        for _ in range(draw(st.integers(1, 3))):
            data[draw(st.integers(8, len(data) - 1))] = draw(st.integers(0, 255))
        return bytes(data)
    chunks = split(base)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(chunks) - 1))
        name, body = chunks[at]
        change = draw(
            st.sampled_from(["insert", "insert", "drop", "move", "cut", "edit", "deflate"])
        )
        if change == "insert":
            chunks.insert(at, draw(st.sampled_from(CHUNKS)))
        elif change == "move":
            chunks.insert(draw(st.integers(0, len(chunks) - 1)), chunks.pop(at))
        elif change == "cut":
            chunks[at] = (name, body[: draw(st.integers(0, len(body)))])
        elif change == "edit" and body:
            place = draw(st.integers(0, len(body) - 1))
            value = bytes([draw(st.integers(0, 255))])
            chunks[at] = (name, body[:place] + value + body[place + 1 :])
        elif change == "deflate":
            lines = draw(st.binary(min_size=35, max_size=60)).replace(b"\xff", b"\0")
            chunks[at] = (b"IDAT", zlib.compress(lines))
        elif len(chunks) > 1:
            del chunks[at]
    return join(chunks)


@settings(max_examples=400)
@given(data=_mutated(), check=st.sampled_from(["bitstream", "pixels"]))
def test_whatever_passes_is_decoded_by_pillow(data: bytes, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            done = prepare(data, Recipe(check=check, passes=("JPEG", "PNG"), depth="keep"))
        except ImageError:
            return
        with Image.open(io.BytesIO(done.data)) as image:
            assert image.size == (done.width, done.height)
            image.convert("RGB")
    if done.data is not data:
        assert [note.kind for note in done.notes] == ["repaired"]


def test_magic_alone_is_empty() -> None:
    with pytest.raises(ImageError, match="empty image: 0x0"):
        prepare(MAGIC, KEEP)
