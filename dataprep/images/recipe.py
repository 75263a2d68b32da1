"""What the user wants done to every image, checked before the first one is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Literal, TypeAlias, get_args

from dataprep.errors import UsageError

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
Check: TypeAlias = Literal["header", "bitstream", "pixels"]
Form: TypeAlias = Literal["JPEG", "PNG"]
Color: TypeAlias = Literal["keep", "rgb", "gray"]
Depth: TypeAlias = Literal["8", "keep"]
Encoding: TypeAlias = Literal["keep", "jpeg", "png", "raw"]
Exif: TypeAlias = Literal["ignore", "apply"]
Filter: TypeAlias = Literal["box", "bilinear", "bicubic", "mitchell", "lanczos"]
Measuring: TypeAlias = Literal["off", "on", "mean"]

# libjpeg's JPEG_MAX_DIMENSION: no JPEG encoder here writes a longer side.
MAX_SIDE = 65_500

# Pillow's own limit, Image.MAX_IMAGE_PIXELS: a quarter of a GiB in RGB.
MAX_PIXELS = 89_478_485

# What re-encoding does with the colour planes: halved as every JPEG writer does by
# default, but kept in full where a repair should lose as little as possible.
CHROMA = "420"
REPAIR_CHROMA = "444"
REPAIR_QUALITY = 100


@dataclass(frozen=True, slots=True)
class Resize:
    """The size to scale to: the shorter side, or an exact width and height.

    Attributes:
        width: pixels of the shorter side if `height` is None, else of the width.
        height: pixels of the height, or None to keep the aspect ratio.
    """

    width: int
    height: int | None = None

    def __post_init__(self) -> None:
        for side in (self.width, self.width if self.height is None else self.height):
            if not 1 <= side <= MAX_SIDE:
                raise UsageError(f"--resize: {side} pixels; a side has 1 to {MAX_SIDE} pixels")

    @classmethod
    def parse(cls, text: str) -> Resize:
        """Read ``256`` (shorter side) or ``320x256`` (exactly WIDTHxHEIGHT).

        Raises:
            UsageError: the text is neither, or a side is out of range.
        """
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", text.strip())
        if match is None:
            raise UsageError(
                f"--resize: {text!r} is neither a shorter side such as 256 "
                "nor WIDTHxHEIGHT such as 320x256"
            )
        width, height = match.groups()
        return cls(int(width), None if height is None else int(height))

    def __str__(self) -> str:
        return str(self.width) if self.height is None else f"{self.width}x{self.height}"

    @property
    def shortest(self) -> int:
        """The shorter side, in pixels, of every image after the resize."""
        return self.width if self.height is None else min(self.width, self.height)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to do with every image; the defaults keep good JPEG files byte for byte.

    Attributes:
        check: how closely an image that passes through is looked at. ``header`` reads
            sizes and looks for the end marker; ``bitstream`` runs the whole entropy
            decoder at 1/8 scale; ``pixels`` also decodes at full scale with Pillow.
        resize: the size to scale to, up as well as down; None keeps the size.
        center_crop: side, in pixels, of the square cut from the middle after the resize;
            an image smaller than it is rejected, never padded or enlarged.
        filter: the resampling filter, all of them antialiased. The default comes 3 dB closer
            to the band-limited ideal than ``bilinear`` on ImageNet photos at 256 pixels.
        quality: JPEG quality, 1 to 100, of what is re-encoded on request. Repairs that
            change neither size nor encoding use 100.
        encoding: ``keep`` leaves the formats of `passes` as they are, byte for byte where
            nothing changes, and turns the rest into PNG if that is one of them, else JPEG;
            ``jpeg`` and ``png`` re-encode every image, good files included; ``raw`` stores
            uint8 pixels in (height, width, channel) order, whatever came in.
        passes: the formats that ``encoding="keep"`` keeps, in any order. Of PNG, 8-bit grey
            and RGB pass byte for byte; the rest is re-encoded as such.
        depth: ``8`` keeps the high byte of 16-bit samples; ``keep`` leaves 16-bit grey PNG as
            it is, or changes its size in 16 bits, and lets 16-bit RGB PNG pass if nothing
            changes. Whatever becomes RGB by `color`, or is changed and not grey, gets 8 bits.
        color: number of channels to store: 3 (``rgb``), 1 (``gray``) or as found.
        exif: ``apply`` turns images upright by their EXIF orientation.
        max_pixels: reject images that declare, or would become, more pixels than this;
            the default is Pillow's own limit.
        statistics: ``on`` measures every stored image; ``mean`` also hands over its pixels,
            for a mean image.
    """

    check: Check = "bitstream"
    resize: Resize | None = None
    center_crop: int | None = None
    filter: Filter = "bicubic"
    quality: int = 95
    encoding: Encoding = "keep"
    passes: tuple[Form, ...] = ("JPEG",)
    depth: Depth = "8"
    color: Color = "keep"
    exif: Exif = "ignore"
    max_pixels: int = MAX_PIXELS
    statistics: Measuring = "off"

    def __post_init__(self) -> None:
        _choose("check", self.check, get_args(Check))
        _check_filter(self.filter)
        _choose("encoding", self.encoding, get_args(Encoding))
        _choose("depth", self.depth, get_args(Depth))
        _choose("color", self.color, get_args(Color))
        _choose("exif", self.exif, get_args(Exif))
        _choose("statistics", self.statistics, get_args(Measuring))
        for form in self.passes:
            _choose("passes", form, get_args(Form))
        if not self.passes:
            raise UsageError(f"--passes: none, expected one of {', '.join(get_args(Form))} or both")
        object.__setattr__(self, "passes", tuple(sorted({*self.passes})))
        if self.depth == "keep":
            _check_deep(self.encoding, self.passes)
        if not 1 <= self.quality <= 100:
            raise UsageError(f"--quality: {self.quality} is not between 1 and 100")
        if self.max_pixels < 1:
            raise UsageError(f"--max_pixels: {self.max_pixels} is not a positive number of pixels")
        if self.center_crop is not None:
            _check_crop(self.center_crop, self.resize)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) in pixels of every stored image if that is known in advance."""
        if self.center_crop is not None:
            return self.center_crop, self.center_crop
        if self.resize is not None and self.resize.height is not None:
            return self.resize.height, self.resize.width
        return None

    def target(self, kind: str) -> Literal["JPEG", "PNG", "RAW"]:
        """The format in which an image is stored that came as a `kind` (``JPEG``, ``GIF``...)."""
        if self.encoding == "raw":
            return "RAW"
        if self.encoding == "keep":
            kept = kind == "JPEG" and "JPEG" in self.passes
            return "PNG" if "PNG" in self.passes and not kept else "JPEG"
        return "PNG" if self.encoding == "png" else "JPEG"

    @property
    def decodes(self) -> bool:
        """Whether every image is decoded at full scale, so that its pixels can be measured.

        Images that are only repaired do not count: a mean of nothing but those would mislead.
        """
        return (
            self.resize is not None
            or self.center_crop is not None
            or self.encoding != "keep"
            or self.check == "pixels"
        )

    def config(self) -> dict[str, JSON]:
        """Everything of the recipe that can change a result, for manifests and resuming."""
        return {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "resize": None if self.resize is None else str(self.resize),
            "passes": [*self.passes],
            "chroma": CHROMA,
            "repair_chroma": REPAIR_CHROMA,
            "repair_quality": REPAIR_QUALITY,
        }


def _choose(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"--{name}: {value!r} is not one of {', '.join(choices)}")


def _check_filter(name: str) -> None:
    _choose("filter", name, get_args(Filter))
    if name == "mitchell" and find_spec("cykooz_resizer") is None:
        raise UsageError(
            "--filter: mitchell needs cykooz_resizer, which is not installed; "
            "install it, or use bicubic"
        )


def _check_deep(encoding: Encoding, passes: tuple[Form, ...]) -> None:
    what = {
        "jpeg": "JPEG (--encoding jpeg)",
        "raw": "an array of pixels (--encoding raw)",
        "png": None,
        "keep": None if "PNG" in passes else "JPEG, which --encoding keep turns PNG into here,",
    }[encoding]
    if what is not None:
        raise UsageError(
            f"--depth keep: {what} has 8 bits a sample; use --encoding png in a format that holds "
            "image files, or --depth 8"
        )


def _check_crop(crop: int, resize: Resize | None) -> None:
    if not 1 <= crop <= MAX_SIDE:
        raise UsageError(f"--center_crop: {crop} pixels; a side has 1 to {MAX_SIDE} pixels")
    if resize is not None and crop > resize.shortest:
        raise UsageError(
            f"--center_crop: {crop} is larger than the {resize.shortest} pixels "
            f"that --resize {resize} leaves on the shorter side"
        )
