"""16-bit samples: cut to 8 bits, or kept."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest

import dataprep
from dataprep.images import Note, Recipe, Resize, pixels, prepare
from dataprep.images.pixels import eight_bits, resized
from dataprep.tables.records import SHALLOWER
from tests.conftest import Cli
from tests.images.files import deep_tiff, pixels_of
from tests.images.png_files import GREY, RGB, RGBA, png

KEEP = Recipe(passes=("JPEG", "PNG"), depth="keep")
CUT = Recipe(passes=("JPEG", "PNG"))
NOISE = np.random.default_rng(5).integers(0, 1 << 16, (9, 11, 4))
DEEP = {
    "grey": png(NOISE[..., :1], GREY, 16),
    "interlaced grey": png(NOISE[..., :1], GREY, 16, interlaced=True),
    "RGB": png(NOISE[..., :3], RGB, 16),
    "interlaced RGB": png(NOISE[..., :3], RGB, 16, interlaced=True),
    "RGBA": png(NOISE, RGBA, 16),
    "TIFF": deep_tiff(NOISE[..., :3].astype(np.uint16)),
}
GREYS = [name for name in DEEP if "grey" in name]


def _samples(data: bytes) -> Any:
    """The samples of a stored 16-bit PNG."""
    found = imagecodecs.png_decode(data)
    assert found.dtype == np.uint16
    return found.astype(np.int64)


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
    assert np.array_equal(_samples(done.data), np.stack([NOISE[..., 0]] * 3, axis=-1))
    assert done.notes == ()


@pytest.mark.parametrize("name", ["RGB", "interlaced RGB", "RGBA", "TIFF"])
def test_colour_keeps_every_bit_or_its_high_byte(name: str) -> None:
    data, rgb = DEEP[name], NOISE[..., :3]
    kind = "TIFF, not JPEG or PNG" if name == "TIFF" else f"{name.split()[-1]} PNG"
    text = f"16-bit {kind}: re-encoded as %s PNG"
    done = prepare(data, Recipe(passes=("JPEG", "PNG"), depth="keep", center_crop=8))
    assert np.array_equal(_samples(done.data), rgb[:8, 1:9])
    repaired = (Note("repaired", text % "16-bit RGB"),) if name in ("RGBA", "TIFF") else ()
    assert done.notes == repaired
    done = prepare(data, Recipe(passes=("JPEG", "PNG"), depth="keep", color="gray"))
    luma = (rgb @ np.array([19595, 38470, 7471]) + 32768) // 65536
    assert np.array_equal(_samples(done.data), luma)
    done = prepare(data, CUT)
    assert np.array_equal(pixels_of(done.data), rgb >> 8)
    assert done.notes == (Note("repaired", text % "8-bit RGB"),)


@pytest.mark.parametrize("resampler", ["fast", "pillow"])
def test_colour_is_resized_channel_by_channel(
    resampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if resampler == "pillow":
        monkeypatch.setattr(pixels, "fast", None)
    done = prepare(DEEP["RGB"], Recipe(passes=("PNG",), depth="keep", resize=Resize(23, 17)))
    greys = [resized(NOISE[..., at].astype(np.uint16), (23, 17), "bicubic") for at in range(3)]
    assert np.array_equal(_samples(done.data), np.stack(greys, axis=-1))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("deflated", [False, True])
@pytest.mark.parametrize("planar", [False, True])
def test_deep_tiff_is_decoded_whole_or_to_8_bits(
    order: str, *, deflated: bool, planar: bool
) -> None:
    colour = NOISE[..., :3].astype(np.uint16)
    data = deep_tiff(colour, order, deflated=deflated, planar=planar)
    kept = prepare(data, Recipe(encoding="png", depth="keep"))
    if planar:  # which Pillow decodes to 8 bits
        assert kept.notes[0].text == "TIFF, not JPEG: re-encoded as RGB PNG"
    else:
        assert np.array_equal(_samples(kept.data), colour)


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
