"""Resampling: against float64, on every CPU, in whatever memory, and where Pillow serves."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.images import codec_versions
from dataprep.images.pixels import center_cropped, packed, padded, resized
from dataprep.recipe import Filter

FILTERS: tuple[Filter, ...] = get_args(Filter)
SIDES = st.integers(1, 150)
KINDS = st.sampled_from([(np.uint8, ()), (np.uint8, (3,)), (np.uint16, ())])
SEEDS = st.integers(0, 2**32 - 1)

# SHA-256 of `made` resized to 61 x 47, 8-bit RGB and then 16-bit grey, by cykooz_resizer 4.0.1
# (fast_image_resize 6.1.0) on an AMD EPYC: without extensions, with SSE4.1 and with AVX2.
GOLDEN = {
    "box": "7473f8cf97d91bb89baed00fe264c51c6dad9ee0fb8e093d16f744a745777f34",
    "bilinear": "87417b1d989ec9fb2fa599a2d2cbc18cf973b048e12bf625fed106cffda564ef",
    "bicubic": "48d23d961790f4d313537b53a9d92c14b8c3b8f7982628c5dc818f7e072e1172",
    "lanczos": "f9165e35eb2f3f2e5716c4b723b673bfd35b7d8eb045d8811101ae71a2a913b1",
}


def made(kind: Any) -> Any:
    """A 97 x 83 picture of whole-number arithmetic: slopes, edges and a fine pattern."""
    y, x = np.mgrid[:83, :97]
    planes = [(x * 600 + y * 37) % 65536, (x * y * 11) % 65536, (x // 9 + y // 7) % 2 * 65535]
    return planes[1].astype(kind) if kind == np.uint16 else (np.dstack(planes) >> 8).astype(kind)


def weigh(name: Filter, x: Any) -> Any:
    """A filter's weights at distances `x`, from its definition."""
    if name == "box":
        return ((x > -0.5) & (x <= 0.5)).astype(float)
    x = np.abs(x)
    if name == "bilinear":
        return np.clip(1 - x, 0, None)
    if name == "lanczos":
        return np.where(x < 3, np.sinc(x) * np.sinc(x / 3), 0)
    near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2  # Catmull-Rom
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def ideal(found: Any, size: tuple[int, int], name: Filter) -> Any:
    """Both passes in float64, neither rounded nor clipped; a side that stays needs none."""
    for axis, new in ((0, size[1]), (1, size[0])):
        if new == found.shape[axis]:
            continue
        scale = found.shape[axis] / new
        centres = (np.arange(new) + 0.5) * scale - 0.5
        distances = np.arange(found.shape[axis]) - centres[:, np.newaxis]
        weights = weigh(name, distances * (1 / max(scale, 1)))
        weights /= weights.sum(1, keepdims=True)
        found = np.moveaxis(np.tensordot(weights, found.astype(float), (1, axis)), 0, axis)
    return found


@given(kind=KINDS, sides=st.tuples(SIDES, SIDES, SIDES, SIDES), seed=SEEDS)
@pytest.mark.parametrize("name", FILTERS)
def test_resized_is_the_filter_rounded_after_each_pass(
    name: Filter, kind: tuple[Any, tuple[int, ...]], sides: tuple[int, int, int, int], seed: int
) -> None:
    height, width, *size = sides
    dtype, channels = kind
    most = np.iinfo(dtype).max
    noise = np.random.default_rng(seed).random((height, width, *channels))
    # In the middle third nothing overshoots the range, so that nothing is clipped between passes.
    found = (most * (1 + noise) / 3).astype(dtype)
    scaled = resized(found, (size[0], size[1]), name)
    assert scaled.dtype == dtype
    expected = ideal(found, (size[0], size[1]), name)
    assert scaled.shape == expected.shape
    # Half a level for each pass, the first one's times the sum of the second's weights (|w| < 1.5).
    assert np.abs(scaled - expected).max() < 1.3


@pytest.fixture(scope="module", params=["none", "sse4_1", "avx2"])
def extension(request: pytest.FixtureRequest) -> Any:
    """Each of the CPU's extensions that the resampler can use."""
    fast = pytest.importorskip("cykooz_resizer")
    if request.param != "none" and f" {request.param} " not in Path("/proc/cpuinfo").read_text():
        pytest.skip(f"this CPU has no {request.param}")
    return fast.CpuExtensions[request.param]


@contextmanager
def using(extension: Any) -> Iterator[None]:
    """Makes resizers that use one extension."""
    import cykooz_resizer as fast  # which pixels have, too

    make = fast.Resizer

    def resizer() -> Any:
        found = make()
        found.cpu_extensions = extension
        assert found.cpu_extensions is extension
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "Resizer", resizer)
        yield


@pytest.mark.parametrize("name", FILTERS)
def test_golden_bytes_on_every_cpu(extension: Any, name: Filter) -> None:
    digest = hashlib.sha256()
    with using(extension):
        for kind in (np.uint8, np.uint16):
            digest.update(packed(resized(made(kind), (61, 47), name)).tobytes())
    assert digest.hexdigest() == GOLDEN[name]


@given(sides=st.tuples(SIDES, SIDES, SIDES, SIDES), side=SIDES, seed=SEEDS)
def test_spare_bytes_change_nothing(sides: tuple[int, int, int, int], side: int, seed: int) -> None:
    whole = np.random.default_rng(seed).integers(0, 256, (*sides[:2], 4), np.uint8)
    view, copy = whole[:, :, :3], whole[:, :, :3].copy()
    assert padded(view) is whole
    assert padded(copy) is None
    assert padded(whole[:, :, 0]) is None
    assert padded(view[::-1]) is None
    assert np.array_equal(packed(view), copy)
    assert packed(view).flags.c_contiguous
    scaled = resized(view, sides[2:], "bicubic")
    assert np.array_equal(scaled, resized(copy, sides[2:], "bicubic"))
    if side <= min(sides[:2]):
        assert np.array_equal(center_cropped(view, side)[0], center_cropped(copy, side)[0])


_WITHOUT = """
import sys
sys.modules["cykooz_resizer"] = None
import numpy as np
from dataprep.images import codec_versions
from dataprep.images.pixels import resized
print(codec_versions()["resampler"])
found = np.load(sys.argv[1])
np.save(sys.argv[2], np.stack([resized(found, (61, 47), n) for n in ("bicubic", "lanczos")]))
"""


def test_where_there_is_none_pillow_serves_under_its_own_name(tmp_path: Path) -> None:
    before, after = tmp_path / "before.npy", tmp_path / "after.npy"
    picture = (made(np.uint8) // 3 + 85)[:, :, 0]  # so that nothing is clipped
    np.save(before, picture)
    command = [sys.executable, "-c", _WITHOUT, str(before), str(after)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    versions = codec_versions()
    assert said == f"pillow {versions['pillow']}" != versions["resampler"]
    names: tuple[Filter, ...] = ("bicubic", "lanczos")
    for found, name in zip(np.load(after), names, strict=True):
        assert np.abs(found - ideal(picture, (61, 47), name)).max() < 1.3
