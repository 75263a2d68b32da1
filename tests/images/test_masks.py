"""Masks: which pictures are some, what scaling makes of them, and what outlines and runs draw."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dataprep.errors import ImageError
from dataprep.images import masks
from dataprep.images.prepare import prepare
from dataprep.recipe import Recipe, Resize

LEVELS = np.array([[0, 1, 2], [255, 13, 7]], np.uint8)
SIDE = st.integers(1, 40)


def saved(picture: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def indexed(levels: Any) -> Image.Image:
    """With a palette that turns the numbers round."""
    picture = Image.fromarray(255 - levels).convert("L")
    picture = Image.frombytes("P", picture.size, levels.tobytes())
    picture.putpalette([channel for number in range(256) for channel in (255 - number,) * 3])
    return picture


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (saved(Image.fromarray(LEVELS)), LEVELS),
        (saved(indexed(LEVELS)), LEVELS),
        (saved(indexed(LEVELS), "BMP"), LEVELS),
        (saved(Image.fromarray(LEVELS), "TIFF"), LEVELS),
        (saved(Image.fromarray(LEVELS.astype(np.uint16))), LEVELS),
        (saved(Image.fromarray(LEVELS.astype(np.int32)), "TIFF"), LEVELS),
        (saved(Image.fromarray(np.stack([LEVELS] * 3, 2))), LEVELS),
        (saved(Image.fromarray(LEVELS > 1)), LEVELS > 1),
        (masks.encode(LEVELS), LEVELS),
    ],
)
def test_a_mask_is_its_numbers_whatever_picture_has_them(data: bytes, expected: Any) -> None:
    found = masks.read(data, 6)
    assert found.dtype == np.uint8
    assert found.tolist() == expected.astype(int).tolist()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (saved(Image.new("RGB", (2, 2), (1, 2, 3))), "has colours (RGB)"),
        (saved(Image.new("RGBA", (2, 2), (1, 1, 1, 7))), "has colours (RGBA)"),
        (saved(Image.new("I;16", (2, 2), 256)), "numbers from 256 to 256, expected 0 to 255"),
        (saved(Image.new("F", (2, 2)), "TIFF"), "of mode F"),
        (saved(Image.new("L", (2, 2)), "JPEG"), "a JPEG, expected PNG, TIFF, BMP"),
        (saved(indexed(LEVELS), "GIF"), "a GIF, expected PNG, TIFF, BMP"),
        (saved(Image.new("L", (3, 3))), "3x3 = 9 pixels, at most 6 allowed"),
        (saved(Image.fromarray(LEVELS))[:-30], "broken mask, a PNG"),
        (b"", "empty file"),
        (b"text", "not a JPEG"),
    ],
)
def test_what_is_no_mask_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(ImageError) as refused:
        masks.read(data, 6)
    assert told in str(refused.value)


@given(SIDE, SIDE, SIDE, SIDE)
def test_scaling_takes_the_nearest_number_as_pillow_does(
    height: int, width: int, high: int, wide: int
) -> None:
    levels = np.arange(height * width, dtype=np.uint32).astype(np.uint8).reshape(height, width)
    expected = Image.fromarray(levels).resize((wide, high), Image.Resampling.NEAREST)
    same = masks.fitted(levels, 1, (high, wide)) == np.asarray(expected)
    # Where two are as near, Pillow's sums of fractions decide.
    for axis, (length, made) in enumerate(((height, high), (width, wide))):
        tied = (2 * np.arange(made) + 1) * length % (2 * made) == 0
        same |= tied[:, None] if axis == 0 else tied
    assert same.all()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    "changes",
    [
        {"exif": "apply", "encoding": "png"},
        {"exif": "apply", "encoding": "png", "resize": Resize(width=12, height=20)},
        {"exif": "apply", "encoding": "png", "resize": Resize(width=20), "center_crop": 15},
        {"exif": "ignore", "encoding": "png", "center_crop": 9},
        {},
    ],
)
def test_a_mask_stays_on_its_image(orientation: int, changes: Any) -> None:
    levels = np.repeat(np.repeat(np.arange(12, dtype=np.uint8).reshape(3, 4), 10, 0), 10, 1)
    exif = Image.Exif()
    exif[0x0112] = orientation
    image = saved(Image.fromarray(levels * 20), "JPEG", quality=100, exif=exif)
    made = prepare(image, Recipe(**changes))
    mask = masks.read(made.mask(levels), 10**6)
    stored = np.asarray(Image.open(io.BytesIO(made.data)).convert("L"))
    assert mask.shape == stored.shape == (made.height, made.width)
    apart = np.abs(mask.astype(int) * 20 - stored) > 10
    assert apart.mean() < 0.2  # what is scaled smoothly differs at the edges
    if not changes.get("resize"):
        assert not apart.any()


def test_runs_are_counted_along_rows_or_down_columns() -> None:
    runs = [(1, "1 2 7 1"), (2, ""), (3, "3 1 7 2")]
    along = [[1, 1, 3, 0], [0, 0, 255, 3], [0, 0, 0, 0]]
    assert masks.of_runs(runs, (3, 4), down=False).tolist() == along
    assert masks.of_runs(runs, (4, 3), down=True).T.tolist() == along


@pytest.mark.parametrize("text", ["1", "0 1", "1 -1", "12 2", "a b", "1.5 2", "9" * 30 + " 1"])
def test_runs_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ImageError, match="its mask has"):
        masks.of_runs([(1, text)], (3, 4), down=False)


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_runs_of_coco_are_what_pycocotools_decodes(pixels: list[bool]) -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    flat = np.array(pixels, np.uint8).reshape(3, 4)
    packed = coco.encode(np.asfortranarray(flat))
    text = {"size": [3, 4], "counts": packed["counts"].decode()}
    assert masks.of_outlines([(1, text)], (3, 4)).tolist() == flat.tolist()
    counts: list[int] = [0]
    for pixel in flat.T.ravel():
        if pixel != (len(counts) + 1) % 2:
            counts.append(0)
        counts[-1] += 1
    plain = {"size": [3, 4], "counts": counts}
    assert masks.of_outlines([(1, plain)], (3, 4)).tolist() == flat.tolist()


def test_long_runs_are_decoded_as_pycocotools_has_written_them() -> None:
    coco = pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    flat = np.zeros((300, 400), np.uint8)
    flat[20:280, 35:390:7] = 1
    flat[3:290, 5] = 1
    packed = coco.encode(np.asfortranarray(flat))
    shape = {"size": [300, 400], "counts": packed["counts"].decode()}
    assert (masks.of_outlines([(1, shape)], (300, 400)) == flat).all()


def test_outlines_are_filled_and_different_ones_exclude_each_other() -> None:
    pytest.importorskip("pycocotools.mask", reason="needs pycocotools")
    square, right = [[0, 0, 6, 0, 6, 6, 0, 6]], [[4, 0, 10, 0, 10, 6, 4, 6]]
    found = masks.of_outlines([(7, square), (7, square), (9, right)], (8, 10))
    assert found[:6].tolist() == [[7] * 4 + [255] * 2 + [9] * 4] * 6
    assert not found[6:].any()


@pytest.mark.parametrize(
    "shape",
    [
        [[1, 2, 3, 4]],
        [[1, 2, 3, 4, 5]],
        [[0, 0, 1, 0, 1, "1"]],
        [[0, 0, 1, 0, 1, 10**9]],
        [[0, 0, 1, 0, 1, float("nan")]],
        {"size": [3, 4], "counts": [5]},
        {"size": [4, 3], "counts": [12]},
        {"size": [3, 4], "counts": [13, -1]},
        {"size": [3, 4], "counts": "zz"},
        {"size": [3, 4]},
        7,
    ],
)
def test_outlines_that_are_none_are_refused(shape: Any) -> None:
    with pytest.raises(ImageError, match="its mask has"):
        masks.of_outlines([(1, shape)], (3, 4))


def test_numbers_become_others_all_at_once() -> None:
    found = masks.renumbered(LEVELS, ((0, 255), (255, 0), (13, 1)))
    assert found.tolist() == [[255, 1, 2], [0, 1, 7]]
