"""Parts of JPEGs decoded alone: the pixels of the whole, in each way that colour is stored."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import simplejpeg  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFile

from dataprep.errors import ImageError
from dataprep.images import crops, jpeg, part
from dataprep.images.crops import Crop, place
from dataprep.images.part import Scale, decode_part

needs_turbojpeg = pytest.mark.skipif(
    part._library() is None, reason="needs TurboJPEG 3: make readers, Python 3.11"
)
SUBSAMPLINGS = ("4:4:4", "4:2:2", "4:2:0", "4:1:1", "4:4:0", "grey")


def noise(width: int, height: int, seed: int, stored: str, progressive: bool = False) -> bytes:
    """A picture no two blocks of which are alike, in colours."""
    shape = (height, width, 1 if stored == "grey" else 3)
    pixels = np.random.default_rng(seed).integers(0, 256, shape, np.uint8)
    if stored in ("4:1:1", "4:4:0"):  # which Pillow does not write
        return bytes(simplejpeg.encode_jpeg(pixels, 80, "RGB", stored.replace(":", "")))
    picture = Image.fromarray(pixels[:, :, 0] if stored == "grey" else pixels)
    subsampling: dict[str, Any] = {} if stored == "grey" else {"subsampling": stored}
    file = io.BytesIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageFile, "MAXBLOCK", 1 << 20)  # of progressive ones: a byte a pixel, else
        picture.save(file, "JPEG", quality=80, progressive=progressive, **subsampling)
    return file.getvalue()


def placed(data: bytes, crop: Crop, drawn: list[float], channels: int) -> np.ndarray:
    target = np.zeros((*crop.size, channels)[: 3 if channels == 3 else 2], np.uint8)
    place(data, crop, drawn, target)
    return target


@needs_turbojpeg
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from(SUBSAMPLINGS),
    st.booleans(),
    st.sampled_from((8, 16, 33, 64)),
    st.sampled_from(("random", "center")),
    st.integers(0, 2**32 - 1),
)
def test_a_part_has_the_pixels_of_the_whole(
    width: int, height: int, stored: str, progressive: bool, side: int, kind: Any, seed: int
) -> None:
    data = noise(width, height, seed, stored, progressive)
    crop = Crop((side, side), kind, flip=True)
    draw = random.Random(seed)
    drawn = [draw.random() for _ in range(crop.draws)]
    channels = 1 if stored == "grey" else 3
    alone = placed(data, crop, drawn, channels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crops, "decode_part", lambda *_: None)
        assert np.array_equal(alone, placed(data, crop, drawn, channels))


@needs_turbojpeg
@pytest.mark.parametrize("scale", [1, 2, 4, 8])
@pytest.mark.parametrize("stored", SUBSAMPLINGS)
def test_no_more_is_decoded_than_blocks_need(stored: str, scale: Scale) -> None:
    data = noise(320, 240, 1, stored)
    across, down = (30 // scale, 30 // scale)
    left, top = 160 // scale, 96 // scale
    space: Any = "GRAY" if stored == "grey" else "RGB"
    found = decode_part(data, space, scale, (left, top, left + across, top + down))
    assert found is not None
    pixels, (x, y) = found
    assert y == top
    assert left - 32 // scale - 2 <= x <= left
    assert pixels.shape[:2] == (down, left + across + 2 - x)


@needs_turbojpeg
def test_damage_is_found_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    data = noise(256, 256, 3, "4:2:0")
    cut = data[: len(data) // 2]
    assert decode_part(cut, "RGB", 1, (0, 0, 64, 64)) is not None
    with pytest.raises(ValueError, match="damaged"):
        decode_part(cut, "RGB", 1, (0, 0, 64, 250))
    with pytest.raises(ValueError, match="header"):
        decode_part(data[:40], "RGB", 1, (0, 0, 64, 64))
    assert decode_part(data, "RGB", 1, (0, 0, 64, 64)) is not None, "the next one is not damaged"
    # What TurboJPEG complains of is Pillow's to decide, as without it.
    monkeypatch.setattr(jpeg, "plain_space", lambda *_: "RGB")
    with pytest.raises(ImageError, match="cannot be decoded"):
        placed(data[:40], Crop((32, 32), "center"), [], 3)


def test_without_the_library_whole_pictures_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "_library", lambda: None)
    data = noise(100, 80, 5, "4:2:0")
    assert decode_part(data, "RGB", 1, (0, 0, 10, 10)) is None
    assert placed(data, Crop((32, 32), "center"), [], 3).any()


@needs_turbojpeg
def test_each_thread_has_a_decompressor_of_its_own() -> None:
    script = """
import threading, sys
from dataprep.images.part import decode_part
data = bytes.fromhex(sys.argv[1])
once = lambda: decode_part(data, "GRAY", 1, (0, 0, 8, 8))[0].tolist()
whole, found = once(), []
work = lambda: found.extend(once() == whole for _ in range(50))
for _ in range(20):
    threads = [threading.Thread(target=work) for _ in range(4)]
    [it.start() for it in threads], [it.join() for it in threads]
print(len(found), all(found))
"""
    data = noise(16, 16, 2, "grey").hex()
    done = subprocess.run([sys.executable, "-c", script, data], capture_output=True, text=True)
    assert done.stdout == "4000 True\n", done.stderr
