"""Which PNG files stay byte for byte, what becomes of the others, and what is rejected."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import ImageError
from dataprep.images import Note, Recipe, Resize, prepare
from dataprep.recipe import Form
from tests.images.png_files import (
    GREY,
    GREY_ALPHA,
    PALETTE,
    RGB,
    RGBA,
    chunk,
    join,
    png,
    scanlines,
    split,
)

BOTH: tuple[Form, ...] = ("JPEG", "PNG")
CHECKS: tuple[Any, ...] = ("header", "bitstream", "pixels")
KEEP = Recipe(passes=BOTH)
ROWS = np.arange(35).reshape(5, 7)
COLOURS = np.arange(105).reshape(5, 7, 3)
PLAIN = png(ROWS)
HEADER, (_, PACKED), END = split(PLAIN)
LINES = scanlines(ROWS[..., np.newaxis], 8)
GAMMA = (b"gAMA", struct.pack(">I", 45455))
PLTE = chunk(b"PLTE", bytes(range(48)))
TURN = b"MM\0*\0\0\0\10\0\1\x01\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"  # EXIF orientation 6


def _with_data(*pieces: bytes) -> bytes:
    return join([HEADER, *((b"IDAT", piece) for piece in pieces), END])


def _with_header(**fields: int) -> bytes:
    names = ("width", "height", "depth", "color", "method", "filter", "interlace")
    found = {**dict(zip(names, struct.unpack(">IIBBBBB", HEADER[1]), strict=True)), **fields}
    return join([(b"IHDR", struct.pack(">IIBBBBB", *found.values())), *split(PLAIN)[1:]])


def _noise(shape: tuple[int, ...], depth: int) -> Any:
    return np.random.default_rng(3).integers(0, 1 << depth, shape)


# --- what passes


@given(
    sides=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    color=st.sampled_from([GREY, RGB]),
    interlaced=st.booleans(),
    check=st.sampled_from(CHECKS),
    pieces=st.integers(1, 5),
)
def test_plain_png_is_the_very_object(
    sides: tuple[int, int], color: int, interlaced: bool, check: Any, pieces: int
) -> None:
    samples = _noise((*sides, 1 if color == GREY else 3), 8)
    data = png(samples, color, interlaced=interlaced, pieces=pieces)
    done = prepare(data, Recipe(check=check, passes=BOTH))
    assert done.data is data
    assert (done.format, done.height, done.width, done.notes) == ("PNG", *sides, ())
    assert done.channels == samples.shape[2]
    raw = prepare(data, Recipe(passes=BOTH, encoding="raw"))
    assert raw.data == samples.astype(np.uint8).tobytes()


METADATA = {
    "gamma": chunk(*GAMMA),
    "profile": chunk(b"iCCP", b"name\0\0" + zlib.compress(b"profile")),
    "text": chunk(b"tEXt", b"Comment\0hello"),
    "transparent level": chunk(b"tRNS", b"\0\7"),
    "private": chunk(b"prVt", b"whatever"),
    "EXIF": chunk(b"eXIf", TURN),
}


@pytest.mark.parametrize("name", METADATA)
def test_metadata_passes(name: str) -> None:
    for place in ("before", "after"):
        options: dict[str, Any] = {place: METADATA[name]}
        data = png(ROWS, **options) + b"trailing bytes"
        for check in CHECKS:
            assert prepare(data, Recipe(check=check, passes=BOTH)).data is data


@pytest.mark.parametrize(
    "data",
    [
        _with_data(zlib.compress(LINES + b"\0")),
        _with_data(zlib.compress(LINES), b"behind it"),
        _with_data(zlib.compress(LINES + bytes(50_000_000), 1)),
        png(COLOURS, RGB, before=chunk(b"PLTE", bytes(6))),
        *(
            _with_data(*(PACKED[a:b] for a, b in pairwise((0, *cuts, len(PACKED)))))
            for cuts in ((0, 0), (1, 2, 3))
        ),
    ],
    ids=["longer", "tail", "bomb", "suggested palette", "empty pieces", "small pieces"],
)
def test_what_every_reader_ignores_passes(data: bytes) -> None:
    assert prepare(data, KEEP).data is data


# --- what is rejected


def test_truncation_and_flipped_bits_never_pass() -> None:
    for recipe in (Recipe(), KEEP, Recipe(check="pixels", passes=("PNG",), color="rgb")):
        for end in range(8, len(PLAIN)):
            with pytest.raises(ImageError, match=r"(truncated|broken) PNG"):
                prepare(PLAIN[:end], recipe)
        for at in range(8, len(PLAIN)):
            data = bytearray(PLAIN)
            data[at] ^= 1 << at % 8
            with pytest.raises(ImageError):
                prepare(bytes(data), recipe)
    for end in range(8, len(PLAIN)):
        with pytest.raises(ImageError):
            prepare(PLAIN[:end], Recipe(check="header", passes=("PNG",)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (PLAIN[:-12], f"truncated PNG: {len(PLAIN) - 12} bytes without an end chunk"),
        (PLAIN[:-2] + b"xx", "without an end chunk"),
        (PLAIN[:8], "do not begin with a header"),
        (join([(b"junk", HEADER[1]), *split(PLAIN)]), "do not begin with a header"),
        (join([HEADER, END]), "it has no image data"),
        (_with_header(depth=3), "broken PNG"),
        (_with_header(color=5), "its header has the fields 08 05"),
        (_with_header(color=2, depth=4), "broken PNG"),
        (_with_header(method=1), "its header has the fields 08 00 01"),
        (_with_header(interlace=2), "its header has the fields 08 00 00 00 02"),
        (_with_header(width=0), "empty image"),
        (_with_header(width=70_000, height=70_000), "decompression bomb"),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_broken_structure_is_rejected(data: bytes, reason: str, check: Any) -> None:
    for passes in (("PNG",), ("JPEG",)):
        with pytest.raises(ImageError, match=reason):
            prepare(data, Recipe(check=check, passes=passes))


@pytest.mark.parametrize(
    "data",
    [
        _with_header(color=2),
        _with_data(zlib.compress(LINES)[:-4] + b"sum!"),
        _with_data(PACKED[:-9]),
        _with_data(b"", b""),
        _with_data(b"not zlib"),
        _with_data(zlib.compress(b"\5" + LINES[1:])),
    ],
    ids=["short", "checksum", "cut", "nothing", "not zlib", "unknown filter"],
)
def test_broken_image_data_is_rejected_unless_only_the_header_is_checked(data: bytes) -> None:
    with pytest.raises(ImageError, match="broken PNG"):
        prepare(data, KEEP)
    assert prepare(data, Recipe(check="header", passes=("PNG",))).data is data


# --- what is re-encoded


@pytest.mark.parametrize(
    ("data", "flaw"),
    [
        (join([HEADER, *split(PLAIN)]), "unusual chunks"),
        (png(ROWS, before=chunk(b"ABCD")), "unusual chunks"),
        (png(ROWS, after=chunk(b"PLTE", bytes(6))), "unusual chunks"),
        (png(ROWS, before=chunk(b"acTL", struct.pack(">II", 2, 0))), "an animation"),
        (png(ROWS, before=chunk(b"gAMA")), "something that Pillow refuses"),
        (PLAIN[:33] + chunk(*GAMMA)[:-1] + b"x" + PLAIN[33:], "something that Pillow refuses"),
        (
            png(ROWS, before=chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(9_000_000), 1))),
            "something that Pillow refuses",
        ),
    ],
)
@pytest.mark.parametrize("check", CHECKS)
def test_good_pixels_among_bad_chunks_are_re_encoded(data: bytes, flaw: str, check: Any) -> None:
    done = prepare(data, Recipe(check=check, passes=("PNG",)))
    assert done.notes == (Note("repaired", f"grey PNG with {flaw}: re-encoded as grey PNG"),)
    assert done.data == prepare(PLAIN, Recipe(encoding="png")).data


UNUSUAL = [
    ("RGBA", png(_noise((5, 7, 4), 8), RGBA), 3),
    ("grey+alpha", png(_noise((5, 7, 2), 8), GREY_ALPHA), 1),
    ("palette", png(_noise((5, 7), 4), PALETTE, 4, before=PLTE), 3),
    ("1-bit grey", png(_noise((5, 7), 1), GREY, 1), 1),
    ("4-bit grey", png(_noise((5, 7), 4), GREY, 4), 1),
    ("16-bit grey", png(_noise((5, 7), 16), GREY, 16), 1),
    ("16-bit grey+alpha", png(_noise((5, 7, 2), 16), GREY_ALPHA, 16), 1),
    ("16-bit RGBA", png(_noise((5, 7, 4), 16), RGBA, 16), 3),
]


@pytest.mark.parametrize(("name", "data", "channels"), UNUSUAL, ids=[one[0] for one in UNUSUAL])
@pytest.mark.parametrize(
    ("encoding", "color", "form"),
    [
        ("keep", "keep", "re-encoded as {} PNG"),
        ("png", "rgb", "re-encoded as {} PNG"),
        ("jpeg", "gray", "re-encoded as {} JPEG, quality 95"),
        ("raw", "keep", "stored as {} pixels"),
    ],
)
def test_unusual_png_is_converted_and_noted(
    name: str, data: bytes, channels: int, encoding: Any, color: Any, form: str
) -> None:
    channels = {"keep": channels, "rgb": 3, "gray": 1}[color]
    words = ("8-bit " if name.startswith("16") else "") + ("grey" if channels == 1 else "RGB")
    note = Note("repaired", f"{name} PNG: {form.format(words)}")
    for resize in (None, Resize(4)):
        done = prepare(data, Recipe(passes=BOTH, resize=resize, encoding=encoding, color=color))
        assert (done.channels, done.notes) == (channels, (note,))
        if encoding == "keep":
            assert prepare(done.data, KEEP).data is done.data
