"""16-bit samples: cut to 8 bits, or kept."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.images import Note, Recipe, Resize, prepare
from dataprep.images.pixels import eight_bits, resized
from dataprep.tables.records import SHALLOWER
from tests.conftest import Cli
from tests.images.files import pixels_of
from tests.images.png_files import GREY, RGB, RGBA, png

KEEP = Recipe(passes=("JPEG", "PNG"), depth="keep")
CUT = Recipe(passes=("JPEG", "PNG"))
NOISE = np.random.default_rng(5).integers(0, 1 << 16, (9, 11, 4))
DEEP = {
    "grey": png(NOISE[..., :1], GREY, 16),
    "interlaced grey": png(NOISE[..., :1], GREY, 16, interlaced=True),
    "RGB": png(NOISE[..., :3], RGB, 16),
    "RGBA": png(NOISE, RGBA, 16),
}
GREYS = [name for name in DEEP if "grey" in name]


def _samples(data: bytes) -> Any:
    """The samples of a stored 16-bit grey PNG, by Pillow."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode.startswith("I")
        return np.asarray(image).astype(np.int64)


@pytest.mark.parametrize("name", ["grey", "interlaced grey", "RGB"])
@pytest.mark.parametrize("check", ["header", "bitstream", "pixels"])
def test_deep_image_passes_untouched(name: str, check: Any) -> None:
    data = DEEP[name]
    done = prepare(data, Recipe(check=check, passes=("PNG",), depth="keep"))
    assert done.data is data
    assert (done.channels, done.notes) == (3 if name == "RGB" else 1, ())


@pytest.mark.parametrize("name", GREYS)
def test_grey_keeps_every_bit_or_its_high_byte(name: str) -> None:
    kind = name.removeprefix("interlaced ")
    done = prepare(DEEP[name], Recipe(encoding="png", depth="keep"))
    assert np.array_equal(_samples(done.data), NOISE[..., 0])
    assert done.notes == ()
    assert prepare(done.data, KEEP).data is done.data
    done = prepare(DEEP[name], CUT)
    assert np.array_equal(pixels_of(done.data), NOISE[..., 0] >> 8)
    assert done.notes == (Note("repaired", f"16-bit {kind} PNG: re-encoded as 8-bit grey PNG"),)
    done = prepare(DEEP[name], Recipe(passes=("PNG",), depth="keep", color="rgb"))
    assert np.array_equal(pixels_of(done.data), np.stack([NOISE[..., 0] >> 8] * 3, axis=-1))
    assert [note.text.split(": ")[1] for note in done.notes] == ["re-encoded as 8-bit RGB PNG"]


@pytest.mark.parametrize("name", ["RGB", "RGBA"])
@pytest.mark.parametrize(
    ("options", "form"),
    [({"color": "gray"}, "grey"), ({"resize": Resize(5)}, "RGB"), ({"encoding": "png"}, "RGB")],
)
def test_deep_colour_that_changes_gets_8_bits(
    name: str, options: dict[str, Any], form: str
) -> None:
    done = prepare(DEEP[name], Recipe(passes=("PNG",), depth="keep", **options))
    text = f"16-bit {name} PNG: re-encoded as 8-bit {form} PNG"
    assert done.notes == (Note("repaired", text),)
    assert done.data == prepare(DEEP[name], Recipe(passes=("PNG",), **options)).data


@pytest.mark.parametrize("name", ["box", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(23, 17), (160, 120)])
def test_resize_in_16_bits_is_that_in_8_bits_but_finer(name: Any, size: tuple[int, int]) -> None:
    y, x = np.mgrid[:70, :90]
    smooth = (y * 300 + x * 400 + (x > 45) * 5000).astype(np.uint16)
    deep, flat = resized(smooth, size, name), resized(eight_bits(smooth), size, name)
    assert deep.dtype == np.uint16
    assert np.abs(deep / 256 - 0.5 - flat.astype(np.float64)).max() < 2.5
    recipe = Recipe(passes=("PNG",), depth="keep", resize=Resize(*size), filter=name)
    stored = prepare(png(smooth, GREY, 16), recipe)
    assert np.array_equal(_samples(stored.data), deep)
    assert stored.notes == ()
    for pair, expected in (((0, 1), 1), ((1, 2), 2), ((65534, 65535), 65535), ((2, 4), 3)):
        assert resized(np.array([pair], np.uint16), (1, 1), "box").tolist() == [[expected]]


@pytest.mark.parametrize(
    ("recipe", "form"),
    [
        (Recipe(encoding="png"), "16-bit grey PNG: re-encoded as 8-bit grey PNG"),
        (CUT, "16-bit grey PNG: re-encoded as 8-bit grey PNG"),
        (Recipe(), "16-bit grey PNG, not JPEG: re-encoded as 8-bit grey JPEG, quality 100"),
        (Recipe(encoding="raw"), "16-bit grey PNG, not JPEG: stored as 8-bit grey pixels"),
    ],
)
def test_bits_are_never_lost_without_a_word(recipe: Recipe, form: str) -> None:
    assert prepare(DEEP["grey"], recipe).notes == (Note("repaired", form),)
    assert re.search(SHALLOWER, form)
    eight = png(NOISE[..., :1] >> 8, GREY, 8)
    assert not any(re.search(SHALLOWER, note.text) for note in prepare(eight, recipe).notes)


def test_a_run_says_first_and_last_what_loses_bits(tmp_path: Path, cli: Cli) -> None:
    place = tmp_path / "raw/train/a"
    place.mkdir(parents=True)
    for number in range(9):
        (place / f"{number}.png").write_bytes(DEEP["grey"])
    (place / "9.png").write_bytes(png(NOISE[..., :1] >> 8, GREY, 8))
    words = ("folder", "--raw", tmp_path / "raw", "--shuffle", "none", "--workers", 1, "--out")
    lines = cli(*words, tmp_path / "out").out.splitlines()
    said = [line for line in lines if "--depth keep" in line]
    assert said[0].startswith("8 of the first 8 PNGs of 16 bits a sample: stored with 8 (")
    assert said[1].startswith("9 images of 16 bits a sample: stored with 8 (")
    assert lines.index(said[1]) < len(lines) - 1  # the last one says that it is sealed
    (found,) = dataprep.lint(tmp_path / "out", rules=["repaired"]).rules
    assert found.count == 9
    assert "--depth keep" not in cli(*words, tmp_path / "deep", "--depth", "keep").out
