"""Images that EXIF says are to be turned: what is stored, and what readers give."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.formats.example import Example
from dataprep.review.pictures import small_picture
from tests.conftest import Cli, Raw, write_tiny_raw

STORED = (0.1, 0.2, 0.4, 0.6)  # of the pixels in the file; orientation 6 is a quarter turn
UPRIGHT = (0.4, 0.1, 0.8, 0.4)


def tagged(mode: str = "RGB") -> Image.Image:
    """40 x 20 pixels, black but for the box."""
    pixels = np.zeros((20, 40), np.uint8)
    pixels[4:12, 4:16] = 255
    return Image.fromarray(pixels).convert(mode)


def encoded(kind: str, mode: str = "RGB") -> bytes:
    exif, buffer = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    tagged(mode).save(buffer, kind, exif=exif)
    return buffer.getvalue()


@pytest.fixture
def raw(tmp_path: Path) -> Raw:
    write_tiny_raw(tmp_path / "raw", classes=1, images=3, validation=1)
    (image,) = (tmp_path / "raw/train").glob("*/*_0.JPEG")
    image.write_bytes(encoded("JPEG"))
    name, box = image.name, ",".join(map(str, STORED))
    (tmp_path / "boxes.csv").write_text(f"{name},{box}\n")
    options = ("--bbox_csv", str(tmp_path / "boxes.csv"), "--num_shards", "1", "--workers", "1")
    return Raw(tmp_path / "raw", options)


def with_box(out: Path) -> Example:
    return next(example for example in dataprep.open(out, "train") if "boxes" in example.fields)


def bright(pixels: Any) -> tuple[float, ...]:
    """The box in which pixels are bright, as fractions."""
    rows, columns = (np.flatnonzero((pixels[..., 0] > 127).any(axis=axis)) for axis in (1, 0))
    height, width = pixels.shape[:2]
    left, top = columns[0] / width, rows[0] / height
    return left, top, (columns[-1] + 1) / width, (rows[-1] + 1) / height


def test_what_passes_keeps_its_tag_and_whatever_decodes_turns(raw: Raw, cli: Cli) -> None:
    out = raw.path.parent / "out"
    assert cli(*raw.command(out)).code == 0
    example = with_box(out)
    assert example.encoded == encoded("JPEG")
    assert example.fields["boxes"][0] == pytest.approx(STORED)
    assert example.array().shape == (40, 20, 3)
    assert np.array_equal(example.array(), np.asarray(example.image()))
    assert example.upright_boxes[0] == pytest.approx(UPRIGHT)
    assert bright(example.array()) == pytest.approx(UPRIGHT)
    # The report's and the preview's: the box that is drawn is round what is bright.
    drawn = np.asarray(small_picture(example)).astype(int)
    red = (drawn[..., :1] - drawn[..., 1:2]).clip(0, 255) * 255
    assert bright(red) == pytest.approx(UPRIGHT, abs=0.06)  # it is cut to whole pixels


@pytest.mark.parametrize(
    ("options", "conversion"),
    [(("--resize", 20), ()), (("--exif", "apply"), ()), ((), ("--quality", 90))],
)
def test_what_is_encoded_anew_is_turned_with_its_boxes(
    raw: Raw, cli: Cli, options: tuple[object, ...], conversion: tuple[object, ...]
) -> None:
    out, other = raw.path.parent / "out", raw.path.parent / "other"
    assert cli(*raw.command(out, *options)).code == 0
    if conversion:
        words = ("convert", out, "--to", other, "--sink", "tfrecord", "--workers", 1, *conversion)
        assert cli(*words).code == 0
        out = other
    example = with_box(out)
    assert (example.orientation, example.height, example.width) == (1, 40, 20)
    assert example.fields["boxes"] == example.upright_boxes
    assert example.fields["boxes"][0] == pytest.approx(UPRIGHT)
    assert bright(example.array()) == pytest.approx(UPRIGHT, abs=0.03)


def test_a_set_of_other_rules_is_not_added_to(raw: Raw, cli: Cli) -> None:
    out = raw.path.parent / "out"
    assert cli(*raw.command(out, "--exif", "ignore")).code == 0
    result = cli(*raw.command(out, "--append")[:5], *raw.options[:2], "--append")
    assert result.code != 0
    assert "was made with --exif ignore, now auto; --append needs" in result.error


@pytest.mark.parametrize("mode", ["L", "RGB", "I;16"])
def test_pngs_turn_too(mode: str) -> None:
    data = encoded("PNG", mode)
    grey = "RGB" if mode == "RGB" else "Grayscale"
    example = Example("a", data, "PNG", 20, 40, grey, (0,), "", "", {"boxes": ((0, 0, 1, 1),)})
    assert example.orientation == 6
    expected = np.asarray(tagged(mode)).swapaxes(0, 1)[:, ::-1]
    assert np.array_equal(example.array(), expected)
    assert np.array_equal(np.asarray(example.image()), expected)
