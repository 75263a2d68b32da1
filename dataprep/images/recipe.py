"""What the user wants done to every image, checked before the first one is read."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any, Final, Literal, TypeAlias, get_args

from dataprep.errors import UsageError
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

_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "check": get_args(Check),
    "filter": get_args(Filter),
    "encoding": get_args(Encoding),
    "depth": get_args(Depth),
    "color": get_args(Color),
    "exif": get_args(Exif),
    "statistics": get_args(Measuring),
    "passes": get_args(Form),
}
_MOST: Final = {
    "quality": 100,
    "center_crop": MAX_SIDE,
    "max_pixels": 1 << 40,
    "max_image_bytes": 1 << 40,
}


@dataclass(frozen=True, slots=True)
class Resize:
    """The size to scale to: the shorter side, or an exact width and height."""

    width: int  # pixels of the shorter side if `height` is None, else of the width
    height: int | None = None  # pixels of the height, or None to keep the aspect ratio

    def __post_init__(self) -> None:
        for side in (self.width, self.height):
            if side is not None and not 1 <= side <= MAX_SIDE:
                raise UsageError(f"--resize: {side} is not between 1 and {MAX_SIDE}")

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
        raise ValueError("is not file, full, or CENTER,WIDTH such as 40,400, of a width from 1 on")
    return float(found[1]), float(found[2])


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
        depth: ``8`` keeps the high byte of 16-bit samples; ``keep`` leaves 16-bit PNG as it is,
            or changes it in 16 bits.
        color: number of channels to store: 3 (``rgb``), 1 (``gray``) or as found.
        exif: ``auto`` turns images upright by their EXIF orientation where they are encoded anew,
            which loses the tag; those that pass keep it. ``apply`` encodes all anew that are not
            upright; ``ignore`` turns none.
        strip_metadata: take away what JPEG and PNG that pass have beside pixels, but for colour
            profiles and the orientation; what is encoded anew has nothing of the kind anyway.
        dicom_window: what of a DICOM image's values is shown, from black to white: ``file``, its
            own window or table, and the full range without one; ``full``; or ``CENTER,WIDTH``.
        max_pixels: reject images that declare, or would become, more pixels than this;
            the default is Pillow's own limit.
        max_image_bytes: reject image files that have more bytes than this, in an archive or out
            of it, unread.
        statistics: ``on`` measures every stored image.
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
    exif: Exif = "auto"
    strip_metadata: bool = False
    dicom_window: str = "file"
    max_pixels: int = MAX_PIXELS
    max_image_bytes: int = MAX_IMAGE_BYTES
    statistics: Measuring = "off"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if not value or not {*(value if name == "passes" else [value])} <= {*choices}:
                raise UsageError(f"--{name}: {value!r} is not one of {', '.join(choices)}")
        object.__setattr__(self, "passes", tuple(sorted({*self.passes})))
        holds_png = self.encoding == "png" or (self.encoding == "keep" and "PNG" in self.passes)
        if self.depth == "keep" and not holds_png:
            raise UsageError(
                "--depth keep: JPEG and arrays of pixels have 8 bits a sample; use --encoding png "
                "in a format that holds image files, or --depth 8"
            )
        try:
            parse_window(self.dicom_window)
        except ValueError as error:
            raise UsageError(f"--dicom_window: {self.dicom_window!r} {error}") from error
        for name, most in _MOST.items():
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise UsageError(f"--{name}: {value} is not between 1 and {most}")
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
        said: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        said["resize"] = None if self.resize is None else str(self.resize)
        if self.max_image_bytes == MAX_IMAGE_BYTES:
            del said["max_image_bytes"]
        return ImageRecipe(
            **said, chroma=CHROMA, repair_chroma=REPAIR_CHROMA, repair_quality=REPAIR_QUALITY
        )
