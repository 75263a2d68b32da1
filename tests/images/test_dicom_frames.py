"""DICOM of several frames: each is what pydicom has, and what a file of it alone would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from pydicom import dcmread
from pydicom.data import get_testdata_file
from pydicom.uid import MPEG2MPML

from dataprep.errors import ImageError
from dataprep.images import Recipe, prepare
from dataprep.images.dicom import header_of
from tests.images.dicom_files import LOSSLESS, PLAIN, dataset, file, several
from tests.images.test_dicom import DEEP, PNG, _renamed, levels

RANDOM = np.random.default_rng(12)
GREY = RANDOM.integers(0, 1 << 12, (4, 24, 40)).astype(np.uint16)
COLOUR = RANDOM.integers(0, 256, (3, 8, 10, 3)).astype(np.uint8)
WINDOWS = [(center, 300 + center) for center in (40, 900, 2000, 3000)]


def _group(center: int, width: int) -> dict[str, Any]:
    return {
        "FrameVOILUTSequence": {"WindowCenter": str(center), "WindowWidth": str(width)},
        "PixelMeasuresSequence": {"PixelSpacing": [str(center / 100), "0.25"]},
    }


def taken(data: bytes, frame: tuple[int, int], recipe: Recipe = DEEP) -> Any:
    return imagecodecs.png_decode(prepare(data, recipe, frame).data)


@pytest.mark.parametrize("syntax", LOSSLESS, ids=lambda syntax: syntax.name)
def test_a_frame_is_what_a_file_of_it_would_be(syntax: Any) -> None:
    shared = {"PixelValueTransformationSequence": {"RescaleSlope": "2", "RescaleIntercept": "-9"}}
    data = file(several(GREY, 12, shared, [_group(*window) for window in WINDOWS]), syntax)
    for number, (center, width) in enumerate(WINDOWS, start=1):
        top = {"RescaleSlope": "2", "RescaleIntercept": "-9"}
        alone = dataset(GREY[number - 1], 12, **top, WindowCenter=center, WindowWidth=width)
        assert np.array_equal(taken(data, (number, 4)), levels(file(alone)))


@pytest.mark.parametrize("syntax", LOSSLESS, ids=lambda syntax: syntax.name)
@pytest.mark.parametrize("frames", [GREY.astype(np.uint8), COLOUR], ids=["grey", "colour"])
def test_a_frame_is_what_pydicom_has(syntax: Any, frames: Any) -> None:
    if syntax.name.startswith("JPEG-LS") and frames.ndim == 4:
        pytest.skip("JPEG-LS of colour is not read")
    kind = "RGB" if frames.ndim == 4 else "MONOCHROME2"
    data = file(several(frames, kind=kind), syntax)
    found = [taken(data, (at, len(frames)), Recipe(passes=("PNG",))) for at in (3, 1, 2)]
    assert np.array_equal(found, frames[[2, 0, 1]])


def test_a_film_of_ultrasound_is_what_pydicom_has() -> None:
    """30 frames of YBR_FULL_422, JPEG baseline."""
    place = get_testdata_file("examples_ybr_color.dcm", download=False)
    data = Path(str(place)).read_bytes()
    every = dcmread(str(place)).pixel_array
    for number in (1, 2, 16, 30):
        assert np.array_equal(taken(data, (number, 30), PNG), every[number - 1])


def test_what_headers_say_of_frames() -> None:
    shared = {"FrameAnatomySequence": {"FrameLaterality": "L"}}
    data = file(several(GREY, 12, shared, [_group(*window) for window in WINDOWS]))
    tags = ["PixelSpacing", "ImageLaterality"]
    found = header_of(data, tags, "all")
    assert found == [
        ((at, 4), {"PixelSpacing": f"{center / 100}\\0.25", "ImageLaterality": "L"})
        for at, (center, _) in enumerate(WINDOWS, start=1)
    ]
    assert header_of(data, tags, "first") == found[:1]
    assert header_of(data, tags, "middle") == found[1:2]
    assert header_of(data, tags, "") == [((), found[0][1])]
    assert header_of(file(dataset(GREY[0], 12)), [], "all") == [((), {})]
    with pytest.raises(ImageError, match="broken DICOM: 70000 frames"):
        header_of(file(dataset(GREY[0], 12, NumberOfFrames=70_000)), [], "all")


def test_what_is_no_such_frame_is_refused() -> None:
    groups = [_group(*window) for window in WINDOWS]
    with pytest.raises(ImageError, match="expected an image of one; --frames first, middle or all"):
        prepare(file(several(GREY, 12)), PNG)
    with pytest.raises(ImageError, match="DICOM of 4 frames, expected 5: the file changed"):
        prepare(file(several(GREY, 12)), PNG, (5, 5))
    with pytest.raises(ImageError, match="functional groups of 3 of 4 frames"):
        prepare(file(several(GREY, 12, {}, groups[:3])), PNG, (1, 4))
    with pytest.raises(ImageError, match=r"^ambiguous DICOM: WindowCenter differs in functional"):
        prepare(file(several(GREY, 12, groups[0], groups)), PNG, (2, 4))
    with pytest.raises(ImageError, match=r"^broken DICOM"):
        prepare(file(several(GREY[:2], 12, NumberOfFrames=4)), PNG, (4, 4))
    data = _renamed(file(several(COLOUR, kind="RGB"), PLAIN), str(MPEG2MPML))
    with pytest.raises(ImageError, match=r"^(unsupported|broken) DICOM"):
        prepare(data, PNG, (1, 3))
