"""What the user wants done to every image, checked before the first one is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from msgspec.structs import replace

from dataprep.errors import UsageError
from dataprep.options import option, options_of, written
from dataprep_schemas.manifest import ImageRecipe

Check: TypeAlias = Literal["header", "bitstream", "pixels"]
Form: TypeAlias = Literal["JPEG", "PNG"]
Color: TypeAlias = Literal["keep", "rgb", "gray"]
Depth: TypeAlias = Literal["8", "keep"]
Encoding: TypeAlias = Literal["keep", "jpeg", "png", "raw"]
Exif: TypeAlias = Literal["auto", "apply", "ignore"]
Filter: TypeAlias = Literal["box", "bilinear", "bicubic", "lanczos"]
Measuring: TypeAlias = Literal["off", "on"]

# libjpeg's JPEG_MAX_DIMENSION: no JPEG encoder here writes a longer side.
MAX_SIDE = 65_500

# Pillow's own limit, Image.MAX_IMAGE_PIXELS: a quarter of a GiB in RGB.
MAX_PIXELS = 89_478_485

# Three bytes for each of those pixels: more than any image file needs.
MAX_IMAGE_BYTES = 256 << 20

# What re-encoding does with the colour planes: halved as every JPEG writer does by
# default, but kept in full where a repair should lose as little as possible.
CHROMA = "420"
REPAIR_CHROMA = "444"
REPAIR_QUALITY = 100


@dataclass(frozen=True, slots=True)
class Resize:
    """The size to scale to: the shorter side, or an exact width and height."""

    width: int  # pixels of the shorter side if `height` is None, else of the width
    height: int | None = None  # pixels of the height, or None to keep the aspect ratio

    def __post_init__(self) -> None:
        for side in (self.width, self.height):
            if side is not None and not 1 <= side <= MAX_SIDE:
                raise ValueError(f"{side} is not between 1 and {MAX_SIDE}")

    @classmethod
    def parse(cls, value: int | str) -> Resize:
        """Read ``256`` (shorter side) or ``320x256`` (exactly WIDTHxHEIGHT).

        Raises:
            ValueError: it is neither, or a side is out of range.
        """
        match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", str(value).strip())
        if match is None:
            raise ValueError(
                f"{value!r} is neither a shorter side such as 256 nor WIDTHxHEIGHT such as 320x256"
            )
        width, height = match.groups()
        return cls(int(width), None if height is None else int(height))

    def __str__(self) -> str:
        return str(self.width) if self.height is None else f"{self.width}x{self.height}"

    @property
    def shortest(self) -> int:
        """The shorter side, in pixels, of every image after the resize."""
        return self.width if self.height is None else min(self.width, self.height)


def parse_window(text: str) -> tuple[float, float] | None:
    """Centre and width of a window, ``CENTER,WIDTH``; None of ``file`` and ``full``.

    Raises:
        ValueError: it is none of these.
    """
    if text in ("file", "full"):
        return None
    number = r"[0-9]{1,9}(?:\.[0-9]{1,9})?"
    found = re.fullmatch(f"(-?{number}),({number})", str(text))
    if found is None or float(found[2]) < 1:
        raise ValueError(
            f"{text!r} is not file, full, or CENTER,WIDTH such as 40,400, of a width from 1 on"
        )
    return float(found[1]), float(found[2])


def _window(value: str) -> str:
    parse_window(value)
    return value


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to do with every image; the defaults keep good JPEG files byte for byte.

    Attributes:
        center_crop: an image smaller than it is rejected, never padded or enlarged.
        filter: the default comes 3 dB closer to the band-limited ideal than ``bilinear`` on
            ImageNet photos at 256 pixels.
        quality: repairs that change neither size nor encoding use 100.
        encoding: ``keep`` leaves the formats of `passes` as they are, byte for byte where
            nothing changes, and turns the rest into PNG if that is one of them, else JPEG;
            ``jpeg`` and ``png`` re-encode every image, good files included; ``raw`` stores
            uint8 pixels in (height, width, channel) order, whatever came in.
        check: ``header`` reads sizes and looks for the end marker; ``bitstream`` runs the whole
            entropy decoder at 1/8 scale; ``pixels`` also decodes at full scale with Pillow.
        passes: the formats that ``encoding="keep"`` keeps, in any order. Of PNG, 8-bit grey
            and RGB pass byte for byte; the rest is re-encoded as such.
        max_pixels: reject images that declare, or would become, more pixels than this;
            the default is Pillow's own limit.
    """

    section: ClassVar = "Images"

    resize: Resize | None = option(
        "256: the shorter side; 320x256: exactly WIDTHxHEIGHT.", None, metavar="SIZE"
    )
    center_crop: int | None = option(
        "After resizing, crop a centred square.", None, metavar="SIDE", least=1, most=MAX_SIDE
    )
    quality: int = option("JPEG quality for re-encoded images.", 95, metavar="N", least=1, most=100)
    encoding: Encoding = option(
        "keep: valid images byte for byte. raw: pixels, for formats that store them.", "keep"
    )
    color: Color = option("keep: grey images stay grey.", "keep")
    check: Check = option("How far to decode images that are stored unchanged.", "bitstream")
    filter: Filter = option("Antialiasing filter for --resize.", "bicubic", rare=True)
    depth: Depth = option(
        "Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG of 16.",
        "8",
        rare=True,
    )
    dicom_window: str = option(
        "Of DICOM. file: the window or table it names, and all values without one; full: all "
        "values; or CENTER,WIDTH.",
        "file",
        metavar="WINDOW",
        parse=_window,
        rare=True,
    )
    max_image_bytes: int = option(
        "Reject image files that are larger, unread.",
        MAX_IMAGE_BYTES,
        metavar="BYTES",
        least=1,
        most=1 << 40,
        rare=True,
    )
    exif: Exif = option(
        "auto: turn images upright where they are re-encoded. apply: re-encode images that are "
        "not upright. ignore: leave them as they are.",
        "auto",
        rare=True,
    )
    strip_metadata: bool = option(
        "Take away what images have beside pixels, such as names, places, comments and "
        "thumbnails; colour profiles and the orientation stay.",
        False,
    )
    stats: Measuring = option(
        "Write image statistics into the manifest: sizes, formats and, where pixels are decoded "
        "anyway, channel means.",
        "off",
        bare="on",
    )
    passes: tuple[Form, ...] = ("JPEG",)
    max_pixels: int = MAX_PIXELS

    def __post_init__(self) -> None:
        for each in options_of(Recipe):
            if (value := getattr(self, each.field)) != each.default:
                each.read(value)
        if not self.passes or not {*self.passes} <= {*get_args(Form)} or self.max_pixels < 1:
            raise UsageError(f"passes={self.passes!r}, max_pixels={self.max_pixels!r}")
        object.__setattr__(self, "passes", tuple(sorted({*self.passes})))
        holds_png = self.encoding == "png" or (self.encoding == "keep" and "PNG" in self.passes)
        if self.depth == "keep" and not holds_png:
            raise UsageError(
                "--depth keep: JPEG and arrays of pixels have 8 bits a sample; use --encoding png "
                "in a format that holds image files, or --depth 8"
            )
        if self.resize and self.center_crop and self.center_crop > self.resize.shortest:
            raise UsageError(
                f"--center_crop: {self.center_crop} is larger than the {self.resize.shortest} "
                f"pixels that --resize {self.resize} leaves on the shorter side"
            )

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """(height, width) in pixels of every stored image if that is known in advance."""
        if self.center_crop is not None:
            return self.center_crop, self.center_crop
        if self.resize is not None and self.resize.height is not None:
            return self.resize.height, self.resize.width
        return None

    @property
    def keeps_bytes(self) -> bool:
        """Whether good images of the formats that pass are stored as they are found."""
        unchanged = (None, None, "keep", "keep")
        asked = (self.resize, self.center_crop, self.encoding, self.color)
        return asked == unchanged and not self.strip_metadata

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

    def config(self) -> ImageRecipe:
        """Everything of the recipe that can change a result, for manifests and resuming.

        ``max_image_bytes`` only where it is not the default: no image file reaches that.
        """
        said = {each.name: getattr(self, each.field) for each in options_of(Recipe)}
        if self.max_image_bytes == MAX_IMAGE_BYTES:
            del said["max_image_bytes"]
        return ImageRecipe(
            options={name: written(value) for name, value in said.items() if value is not None},
            passes=self.passes,
            max_pixels=self.max_pixels,
            chroma=CHROMA,
            repair_chroma=REPAIR_CHROMA,
            repair_quality=REPAIR_QUALITY,
        )


def changed_recipe(made: ImageRecipe, **options: str) -> ImageRecipe:
    """What a manifest says of images, with other values of options."""
    return replace(made, options={**made.options, **options})
