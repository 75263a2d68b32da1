from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.errors import UsageError
from dataprep.images import Recipe, Resize
from dataprep.options import Option, options_of
from dataprep_schemas.manifest import ImageRecipe

SIDES = st.integers(1, 65_500)


@given(SIDES, st.none() | SIDES)
def test_resize_is_a_shorter_side_or_width_by_height(width: int, height: int | None) -> None:
    resize = Resize(width, height)
    assert Resize.parse(f" {resize} ") == resize
    assert str(resize) == (str(width) if height is None else f"{width}x{height}")


@pytest.mark.parametrize(
    "text", ["", "256x", "x256", "-1", "0", "5x0", "1e3", "256X256", "65501", "9" * 30]
)
def test_resize_refuses_anything_else_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$"):
        Resize.parse(text)


@pytest.mark.parametrize("option", options_of(Recipe), ids=lambda option: option.name)
def test_a_value_that_an_option_cannot_have_is_refused(option: Option) -> None:
    wrong: Any = {option.field: -1}
    with pytest.raises(UsageError, match=f"^'--{option.name}': -?'?-1"):
        Recipe(**wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quality": 101}, "'--quality': 101 is not in the range 1<=x<=100"),
        ({"center_crop": 257, "resize": Resize(256)}, "257 is larger than the 256"),
        ({"center_crop": 200, "resize": Resize(300, 199)}, "200 is larger than the 199"),
        ({"passes": ()}, r"passes=\(\)"),
        ({"depth": "keep", "encoding": "jpeg"}, "--depth keep: JPEG .* use --encoding png .* or"),
        ({"depth": "keep"}, "--depth keep: JPEG and arrays of pixels .*--depth 8"),
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
    assert tuple(map(recipe.target, ("JPEG", "PNG", "TIFF"))) == targets


def test_config_is_what_manifests_hold() -> None:
    config = Recipe(resize=Resize(320, 256), max_image_bytes=9).config()
    assert msgspec.json.decode(msgspec.json.encode(config), type=ImageRecipe) == config
    said = [config.options[name] for name in ("resize", "max_image_bytes", "quality")]
    assert said == ["320x256", "9", "95"]
    assert "max_image_bytes" not in Recipe().config().options  # 256 MiB unless said
