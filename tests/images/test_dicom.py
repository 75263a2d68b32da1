"""DICOM images, against the formulas of PS3.3 C.11 written down once more."""

from __future__ import annotations

import io
import math
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    HTJ2K,
    MPEG2MPML,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLSLossless,
    JPEGLSNearLossless,
)

from dataprep.errors import ImageError, UsageError
from dataprep.images import Note, Recipe, prepare
from tests.images.dicom_files import CODED, LOSSLESS, NATIVE, PLAIN, dataset, file, grouped, table

PNG = Recipe(passes=("PNG",))
DEEP = Recipe(passes=("PNG",), depth="keep")
RANDOM = np.random.default_rng(11)
BYTES = RANDOM.integers(0, 256, (24, 40)).astype(np.uint8)
TWELVE = RANDOM.integers(0, 1 << 12, (24, 40)).astype(np.uint16)
SIXTEEN = RANDOM.integers(0, 1 << 16, (24, 40)).astype(np.uint16)
SIGNED = RANDOM.integers(-(1 << 12), 1 << 12, (24, 40)).astype(np.int16)  # 13 bits


def levels(data: bytes, recipe: Recipe = DEEP) -> Any:
    """What is stored."""
    return imagecodecs.png_decode(prepare(data, recipe).data)


def scaled(value: float, low: float, high: float, top: int) -> int:
    """From 0 to the highest level, halves up."""
    share = min(max((value - low) / (high - low), 0), 1)
    return math.floor(share * top + 0.5)


def each(rule: Any, pixels: NDArray[Any]) -> NDArray[Any]:
    return np.array([[rule(int(value)) for value in row] for row in pixels])


def _linear(value: float, center: float, width: float) -> float:
    """C.11.2.1.2.1, with ymin 0 and ymax 1."""
    if value <= center - 0.5 - (width - 1) / 2:
        return 0
    if value > center - 0.5 + (width - 1) / 2:
        return 1
    return ((value - (center - 0.5)) / (width - 1)) + 0.5


def _exact(value: float, center: float, width: float) -> float:
    """C.11.2.1.3.2."""
    if value <= center - width / 2:
        return 0
    if value > center + width / 2:
        return 1
    return (value - center) / width + 0.5


def _sigmoid(value: float, center: float, width: float) -> float:
    """C.11.2.1.3.1."""
    return 1 / (1 + math.exp(min(-4 * (value - center) / width, 500)))


KINDS: dict[str, tuple[Any, int]] = {
    "8": (BYTES, 8),
    "12": (TWELVE, 12),
    "16": (SIXTEEN, 16),
    "13 signed": (SIGNED, 13),
}


@pytest.mark.parametrize("syntax", LOSSLESS, ids=lambda syntax: syntax.name)
@pytest.mark.parametrize("name", KINDS)
def test_every_lossless_coding_gives_the_stored_values(name: str, syntax: Any) -> None:
    pixels, bits = KINDS[name]
    low = -(1 << bits - 1) if pixels.dtype.kind == "i" else 0
    for kind in ("MONOCHROME2", "MONOCHROME1"):
        data = file(dataset(pixels, bits, kind), syntax)
        for recipe, top in ((DEEP, 65535 if bits > 8 else 255), (PNG, 255)):
            high = low + (1 << bits) - 1
            expected = each(lambda value: scaled(value, low, high, top), pixels)  # noqa: B023
            if kind == "MONOCHROME1":
                ends = (high, low)
                expected = each(lambda value: scaled(value, *ends, top), pixels)  # noqa: B023
            assert np.array_equal(levels(data, recipe), expected)


def test_lossy_codings_are_near() -> None:
    smooth = np.add.outer(np.arange(24), np.arange(40)).astype(np.uint8) * 4
    for syntax in (JPEGBaseline8Bit, JPEGExtended12Bit):
        bits = 12 if syntax == JPEGExtended12Bit else 8
        pixels = smooth.astype(np.uint16) * 16 if bits == 12 else smooth
        found = levels(file(dataset(pixels, bits), syntax), PNG).astype(int)
        assert np.abs(found - smooth).max() <= 2


@pytest.mark.parametrize("deep", [True, False])
@pytest.mark.parametrize(
    ("function", "rule"), [("LINEAR", _linear), ("LINEAR_EXACT", _exact), ("SIGMOID", _sigmoid)]
)
@pytest.mark.parametrize(("center", "width"), [(40, 400), (-600.5, 1500.25), (100, 1)])
def test_windows_are_those_of_the_standard(
    function: str,
    rule: Callable[[float, float, float], float],
    center: float,
    width: float,
    *,
    deep: bool,
) -> None:
    if function == "LINEAR" and width == 1:
        rule = _step
    slope, intercept = 1.5, -1024
    top = 65535 if deep else 255
    for kind in ("MONOCHROME2", "MONOCHROME1"):
        image = dataset(TWELVE, 12, kind, RescaleSlope=slope, RescaleIntercept=intercept)
        image.WindowCenter, image.WindowWidth = [center, 1], [width, 2]
        image.VOILUTFunction = function

        def shown(value: int) -> int:
            share = rule(value * slope + intercept, center, width)
            return math.floor((1 - share if kind == "MONOCHROME1" else share) * top + 0.5)  # noqa: B023

        assert np.array_equal(levels(file(image), DEEP if deep else PNG), each(shown, TWELVE))


def _step(value: float, center: float, _: float) -> float:
    return float(value > center - 0.5)


def test_the_recipe_sets_another_window_or_none() -> None:
    image = dataset(TWELVE, 12, WindowCenter=2000, WindowWidth=100, RescaleSlope=2)
    image.RescaleIntercept = -1000
    given = Recipe(passes=("PNG",), depth="keep", dicom_window="-20.5,500")

    def shown(value: int) -> int:
        return math.floor(_linear(value * 2 - 1000, -20.5, 500) * 65535 + 0.5)

    assert np.array_equal(levels(file(image), given), each(shown, TWELVE))
    full = Recipe(passes=("PNG",), depth="keep", dicom_window="full")
    plain = each(lambda value: scaled(value, 0, 4095, 65535), TWELVE)
    assert np.array_equal(levels(file(image), full), plain)


RESCALE = {"PixelValueTransformationSequence": {"RescaleSlope": "1.5", "RescaleIntercept": "-1024"}}
WINDOW = {"FrameVOILUTSequence": {"WindowCenter": ["40", "1"], "WindowWidth": ["400", "2"]}}
SPACED = {"PixelMeasuresSequence": {"PixelSpacing": ["0.5", "0.25"]}}
LEFT = {"FrameAnatomySequence": {"FrameLaterality": "L"}}


@pytest.mark.parametrize("syntax", [*NATIVE, JPEG2000Lossless], ids=lambda syntax: syntax.name)
def test_functional_groups_say_what_others_say_at_the_top(syntax: Any) -> None:
    top = {"RescaleSlope": "1.50", "RescaleIntercept": "-1024.0"}
    expected = levels(file(dataset(TWELVE, 12, **top, WindowCenter=40, WindowWidth=400)))
    for shared, each, more in (
        ({**RESCALE, **WINDOW}, {}, {}),
        ({}, {**RESCALE, **WINDOW}, {"NumberOfFrames": 1}),
        (RESCALE, WINDOW, {"RescaleSlope": "", "WindowCenter": None}),
        ({**RESCALE, **WINDOW, **LEFT}, RESCALE, {**top, "WindowCenter": "40.0"}),
    ):
        image = grouped(dataset(TWELVE, 12, **more), shared, each)
        assert np.array_equal(levels(file(image, syntax)), expected)
    image = grouped(dataset(TWELVE, 12), RESCALE, WINDOW)
    image.PerFrameFunctionalGroupsSequence[0].FrameVOILUTSequence[0].VOILUTFunction = "SIGMOID"
    plain = dataset(TWELVE, 12, **top, WindowCenter=40, WindowWidth=400, VOILUTFunction="SIGMOID")
    assert np.array_equal(levels(file(image)), levels(file(plain)))
    lut = np.arange(4096)[::-1].tolist()
    image = grouped(
        dataset(TWELVE, 12), {}, {"FrameVOILUTSequence": {"VOILUTSequence": [table(lut)]}}
    )
    assert np.array_equal(
        levels(file(image)), levels(file(dataset(TWELVE, 12, VOILUTSequence=[table(lut)])))
    )


@pytest.mark.parametrize(
    ("name", "shared", "each", "top"),
    [
        ("RescaleSlope", RESCALE, {}, {"RescaleSlope": "2"}),
        ("WindowWidth", {}, WINDOW, {"WindowCenter": "40", "WindowWidth": "401"}),
        (
            "RescaleIntercept",
            RESCALE,
            {"PixelValueTransformationSequence": {"RescaleIntercept": "0"}},
            {},
        ),
        ("PixelSpacing", SPACED, {}, {"PixelSpacing": ["0.5", "0.26"]}),
        ("Laterality", LEFT, {}, {"Laterality": "R"}),
    ],
)
def test_groups_that_contradict_each_other_or_the_top_are_refused(
    name: str, shared: dict[str, Any], each: dict[str, Any], top: dict[str, Any]
) -> None:
    data = file(grouped(dataset(TWELVE, 12, **top), shared, each))
    with pytest.raises(ImageError, match=f"^ambiguous DICOM: {name} differs in functional"):
        prepare(data, PNG)
    if name == "WindowWidth":  # of which nobody asks then
        assert levels(data, Recipe(passes=("PNG",), dicom_window="40,400")).shape == (24, 40)


def test_a_window_function_in_another_case_or_twice() -> None:
    window: dict[str, Any] = {"WindowCenter": [2000, 7], "WindowWidth": [300, 9]}
    for usual in ("LINEAR", "LINEAR_EXACT", "SIGMOID"):
        expected = levels(file(dataset(TWELVE, 12, **window, VOILUTFunction=usual)))
        for said in (usual.lower(), [usual, usual], [usual.title(), usual]):
            data = file(dataset(TWELVE, 12, **window)).replace(
                *_function(dataset(TWELVE, 12, **window), said)
            )
            assert np.array_equal(levels(data), expected)
    for said in ("CUBIC", ["LINEAR", "SIGMOID"]):
        data = file(dataset(TWELVE, 12, **window))
        data = data.replace(*_function(dataset(TWELVE, 12, **window), said))
        with pytest.raises(ImageError, match=r"^unsupported DICOM: VOILUTFunction .* --dicom_w"):
            prepare(data, PNG)
        assert levels(data, Recipe(passes=("PNG",), dicom_window="full")).shape == (24, 40)


def _function(image: Dataset, said: Any) -> tuple[bytes, bytes]:
    """What to replace so that a file has this function; pydicom would warn of small letters."""
    text = (said if isinstance(said, str) else "\\".join(said)).encode()
    text += b" " * (len(text) % 2)
    width = b"\x28\0\x51\x10DS"
    data = file(image)
    at = data.index(width)
    end = at + 8 + struct.unpack("<H", data[at + 6 : at + 8])[0]
    more = b"\x28\0\x56\x10CS" + struct.pack("<H", len(text)) + text
    return data[at:end], data[at:end] + more


def test_what_another_decoder_reads_is_not_broken() -> None:
    # A picture of GDCM's: its tiles have six parts, of which it counts five, and Pillow reads none.
    place = get_testdata_file("GDCMJ2K_TextGBR.dcm", download=False)
    if place is not None:
        whole = Path(str(place)).read_bytes()
        expected = imagecodecs.jpeg2k_decode(whole[whole.index(b"\xff\x4f\xff\x51") :])
        assert np.array_equal(levels(whole, PNG), expected)
    tiles = Image.fromarray(BYTES)
    stream = io.BytesIO()  # an image that does not start where the grid of its tiles does
    options = {"offset": (3, 5), "tile_size": (16, 16), "no_jp2": True}
    tiles.save(stream, "JPEG2000", irreversible=False, **options)
    image = dataset(BYTES)
    image.PixelData = encapsulate([stream.getvalue()])
    assert np.array_equal(levels(_coded(image), PNG), BYTES)
    image.PixelData = encapsulate([stream.getvalue()[:-400]])
    data = _coded(image)
    with pytest.raises(ImageError, match=r"^broken DICOM"):
        prepare(data, PNG)


def _coded(image: Dataset) -> bytes:
    """A file of what is JPEG 2000 already."""
    stream = io.BytesIO()
    image["PixelData"].VR = "OB"
    image["PixelData"].is_undefined_length = True
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = JPEG2000Lossless
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    image.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


@pytest.mark.parametrize("text", ["", "wide", "40", "40,0", "40,0.5", "nan,4", "1,2,3", "1e9,1"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--dicom_window': .* is not file, full, or CENTER"):
        Recipe(dicom_window=text)


@pytest.mark.parametrize("syntax", NATIVE, ids=lambda syntax: syntax.name)
def test_tables_lead_from_values_to_values_and_levels(syntax: Any) -> None:
    modality = (np.arange(300) * 7 % 1000).astype(int).tolist()
    voi = (np.arange(600) ** 2 % 1024).astype(int).tolist()
    image = dataset(TWELVE, 12, ModalityLUTSequence=[table(modality, 1000)])
    image.VOILUTSequence = [table(voi, 200, 10)]
    image.WindowCenter, image.WindowWidth = 3, 4  # a table comes first
    if not syntax.is_little_endian:
        for item in (image.ModalityLUTSequence[0], image.VOILUTSequence[0]):
            item.LUTData = np.frombuffer(item.LUTData, "<u2").astype(">u2").tobytes()

    def shown(value: int) -> int:
        value = modality[min(max(value - 1000, 0), 299)]
        return scaled(voi[min(max(value - 200, 0), 599)], 0, 1023, 65535)

    assert np.array_equal(levels(file(image, syntax)), each(shown, TWELVE))


def test_a_table_may_start_below_zero_and_have_entries_of_8_bits() -> None:
    voi = np.arange(255, -1, -1).tolist()
    image = dataset(SIGNED, 13, VOILUTSequence=[table(voi, -100, 8)])
    expected = each(lambda value: voi[min(max(value + 100, 0), 255)], SIGNED)
    assert np.array_equal(levels(file(image), PNG), expected)
    image.VOILUTSequence[0].LUTData = bytes(voi)  # a byte an entry, as some write it
    assert np.array_equal(levels(file(image), PNG), expected)


def test_bits_beside_those_stored_are_no_values() -> None:
    overlay = TWELVE | 0xF000
    plain = levels(file(dataset(TWELVE, 12)))
    assert np.array_equal(levels(file(dataset(overlay, 12))), plain)


@pytest.mark.parametrize("syntax", LOSSLESS, ids=lambda syntax: syntax.name)
def test_colour_is_rgb_of_8_bits(syntax: Any) -> None:
    rgb = RANDOM.integers(0, 256, (24, 40, 3)).astype(np.uint8)
    if syntax == JPEGLSLossless:
        with pytest.raises(ImageError, match="unsupported DICOM: RGB of transfer syntax JPEG-LS"):
            prepare(file(dataset(rgb, kind="RGB"), syntax), PNG)
        return
    assert np.array_equal(levels(file(dataset(rgb, kind="RGB"), syntax)), rgb)


def test_ybr_becomes_rgb() -> None:
    rgb = np.zeros((24, 40, 3), np.uint8) + np.array([200, 60, 90], np.uint8)
    found = levels(file(dataset(rgb, kind="YBR_FULL"), JPEGBaseline8Bit))
    assert np.abs(found.astype(int) - rgb).max() <= 2


def test_what_is_said_of_it() -> None:
    data = file(dataset(TWELVE, 12))
    (note,) = prepare(data, Recipe(passes=("JPEG", "PNG"))).notes
    assert note == Note("repaired", "DICOM, not JPEG or PNG: re-encoded as grey PNG")
    (note,) = prepare(data, DEEP).notes
    assert note.text == "DICOM, not PNG: re-encoded as 16-bit grey PNG"
    burned = file(dataset(TWELVE, 12, BurnedInAnnotation="YES"))
    assert prepare(burned, PNG).notes[1] == Note("warned", "BurnedInAnnotation is YES")


def _refused() -> dict[str, tuple[Dataset, Any]]:
    deep = RANDOM.integers(0, 1 << 16, (4, 4, 3)).astype(np.uint16)
    bare = dataset(TWELVE)
    del bare.PixelData
    floating = dataset(TWELVE)
    del floating.PixelData
    floating.FloatPixelData = bytes(4 * TWELVE.size)
    wide = dataset(TWELVE.astype(np.uint32))
    return {
        "DICOM of 2 frames, expected an image of one": (dataset(BYTES, NumberOfFrames=2), PLAIN),
        "DICOM without pixels": (bare, PLAIN),
        "unsupported DICOM: pixels of floating point; expected grey": (floating, PLAIN),
        "unsupported DICOM: MONOCHROME2 of 1 x 32 bits": (wide, PLAIN),
        "unsupported DICOM: RGB of 3 x 16 bits": (dataset(deep, kind="RGB"), PLAIN),
        "unsupported DICOM: PALETTE COLOR": (dataset(BYTES, kind="PALETTE COLOR"), PLAIN),
        "unsupported DICOM: HighBit 15 of 12 bits stored, expected 11": (
            dataset(TWELVE, 12, HighBit=15),
            PLAIN,
        ),
        "unsupported DICOM: a LINEAR window of centre 5 and width 0; --dicom_window": (
            dataset(BYTES, WindowCenter=5, WindowWidth=0),
            PLAIN,
        ),
        "values from 5 to 5": (dataset(BYTES, RescaleSlope=0, RescaleIntercept=5), PLAIN),
        "a table of 3 of 9 entries": (_short_table(), PLAIN),
        "unsupported DICOM: MONOCHROME2 of transfer syntax MPEG2": (dataset(BYTES), MPEG2MPML),
        "unsupported DICOM: MONOCHROME2 of transfer syntax High-T": (dataset(BYTES), HTJ2K),
        "of transfer syntax JPEG-LS Lossy": (dataset(BYTES), JPEGLSNearLossless),
        "unsupported DICOM: deflated as a whole": (dataset(BYTES), "1.2.840.10008.1.2.1.99"),
    }


def test_lossy_jpeg_ls_is_told_by_its_header() -> None:
    data = file(dataset(BYTES), JPEGLSLossless)
    scan = data.index(b"\xff\xda\0\x08")
    with pytest.raises(ImageError, match="unsupported DICOM: lossy JPEG-LS"):
        prepare(data[: scan + 7] + b"\2" + data[scan + 8 :], PNG)


def _short_table() -> Dataset:
    item = table([1, 2, 3])
    item.LUTDescriptor = [9, 0, 16]
    return dataset(BYTES, VOILUTSequence=[item])


@pytest.mark.parametrize("reason", _refused())
def test_what_is_no_image_of_one_frame_is_named(reason: str) -> None:
    image, syntax = _refused()[reason]
    data = file(image) if syntax == PLAIN else _renamed(file(image), str(syntax))
    with pytest.raises(ImageError, match=reason):
        prepare(data, PNG)


def _renamed(data: bytes, syntax: str) -> bytes:
    """With another transfer syntax in its meta information."""
    old = b"\x02\0\x10\0UI\x14\0" + b"1.2.840.10008.1.2.1\0"
    name = syntax.encode() + b"\0" * (len(syntax) % 2)
    more = len(name) - 20
    (length,) = struct.unpack("<I", data[140:144])
    data = data[:140] + struct.pack("<I", length + more) + data[144:]
    assert old in data
    return data.replace(old, b"\x02\0\x10\0UI" + struct.pack("<H", len(name)) + name)


@pytest.mark.parametrize("syntax", [PLAIN, *CODED], ids=lambda syntax: syntax.name)
def test_bombs_are_refused_by_the_size_they_declare(syntax: Any) -> None:
    data = file(dataset(BYTES, Rows=24), syntax)
    with pytest.raises(ImageError, match="decompression bomb"):
        prepare(data, Recipe(max_pixels=500))
    image = dataset(BYTES)
    if syntax != PLAIN:
        bomb = file(image, syntax)
        rows = b"\x28\0\x10\0US\x02\0"
        bomb = bomb.replace(rows + b"\x18\0", rows + b"\x02\0")
        with pytest.raises(ImageError, match=r"40x24x1 .* coded, 40x2x1 declared|bytes of RLE"):
            prepare(bomb, PNG)


@pytest.mark.parametrize("syntax", LOSSLESS, ids=lambda syntax: syntax.name)
def test_truncation_is_an_image_error(syntax: Any) -> None:
    data = file(dataset(TWELVE, 12), syntax)
    for end in range(0, len(data) * 3 // 4, max(1, len(data) // 60)):
        with pytest.raises(ImageError):
            prepare(data[:end], PNG)


def test_without_the_package_its_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(file(dataset(BYTES)))
    program = (
        "import sys; sys.modules['pydicom'] = None\n"
        "from pathlib import Path; from dataprep.images import Recipe, prepare\n"
        "prepare(Path(sys.argv[1]).read_bytes(), Recipe())"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "image")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "pip install 'dataprep-shards[dicom]'" in done.stderr.splitlines()[-1]
