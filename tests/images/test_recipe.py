from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dataprep.errors import UsageError
from dataprep.images import Recipe, Resize
from dataprep_schemas.manifest import ImageRecipe


@pytest.mark.parametrize(
    ("text", "expected"),
    [("256", Resize(256)), (" 64 ", Resize(64)), ("320x256", Resize(320, 256))],
)
def test_resize_reads_a_shorter_side_or_width_by_height(text: str, expected: Resize) -> None:
    assert Resize.parse(text) == expected
    assert str(expected) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "x", "256x", "x256", "-1", "0", "0x5", "5x0", "1e3", "256X256", "65501", "9" * 30]
)
def test_resize_refuses_anything_else_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match=r"--resize: .+") as caught:
        Resize.parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quality": 0}, "--quality: 0 is not between 1 and 100"),
        ({"quality": 101}, "--quality: 101"),
        ({"center_crop": 0}, "--center_crop: 0 is not"),
        ({"center_crop": 257, "resize": Resize(256)}, "257 is larger than the 256"),
        ({"center_crop": 200, "resize": Resize(300, 199)}, "200 is larger than the 199"),
        ({"max_pixels": 0}, "--max_pixels: 0"),
        ({"check": "none"}, "--check: 'none' is not one of header, bitstream, pixels"),
        ({"filter": "nearest"}, "--filter: 'nearest'"),
        ({"encoding": "gif"}, "--encoding: 'gif'"),
        ({"color": "cmyk"}, "--color: 'cmyk'"),
        ({"exif": "maybe"}, "--exif: 'maybe'"),
        ({"passes": ("GIF",)}, r"--passes: \('GIF',\) is not one of JPEG, PNG"),
        ({"passes": ()}, r"--passes: \(\) is not one of"),
        ({"depth": "16"}, "--depth: '16' is not one of 8, keep"),
        ({"depth": "keep", "encoding": "jpeg"}, "--depth keep: JPEG .* use --encoding png .* or"),
        ({"depth": "keep"}, "--depth keep: JPEG and arrays of pixels .*--depth 8"),
        ({"statistics": "median"}, "--statistics: 'median' is not one of off, on"),
    ],
)
def test_impossible_recipes_are_refused_with_their_values(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        Recipe(**options)


@pytest.mark.parametrize(
    ("encoding", "passes", "targets"),
    [
        ("keep", ("JPEG",), ("JPEG", "JPEG", "JPEG")),
        ("keep", ("JPEG", "PNG"), ("JPEG", "PNG", "PNG")),
        ("keep", ("PNG",), ("PNG", "PNG", "PNG")),
        ("jpeg", ("JPEG", "PNG"), ("JPEG", "JPEG", "JPEG")),
        ("png", ("JPEG",), ("PNG", "PNG", "PNG")),
        ("raw", ("JPEG", "PNG"), ("RAW", "RAW", "RAW")),
    ],
)
def test_target_follows_encoding_and_what_passes(
    encoding: Any, passes: Any, targets: tuple[str, ...]
) -> None:
    recipe = Recipe(encoding=encoding, passes=passes)
    assert tuple(map(recipe.target, ("JPEG", "PNG", "GIF"))) == targets


def test_config_is_what_manifests_hold() -> None:
    config = Recipe(resize=Resize(320, 256), max_image_bytes=9).config()
    assert msgspec.json.decode(msgspec.json.encode(config), type=ImageRecipe) == config
    assert (config.resize, config.max_image_bytes, config.quality) == ("320x256", 9, 95)
    assert Recipe().config().max_image_bytes is None  # 256 MiB unless said


@pytest.mark.parametrize(
    ("options", "decodes"),
    [
        ({}, False),
        ({"check": "header"}, False),
        ({"color": "rgb", "exif": "apply"}, False),  # some images only
        ({"check": "pixels"}, True),
        ({"resize": Resize(9)}, True),
        ({"center_crop": 9}, True),
        ({"encoding": "jpeg"}, True),
        ({"encoding": "raw"}, True),
        ({"passes": ("JPEG", "PNG")}, False),
    ],
)
def test_recipe_knows_whether_it_decodes_every_image(
    options: dict[str, Any], decodes: bool
) -> None:
    assert Recipe(**options).decodes is decodes
