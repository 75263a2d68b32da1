"""One image in, one checked and stored image out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray
from PIL import features

from dataprep.images import dicom, exif, jpeg, masks, pillow, pixels, png
from dataprep.images.decode import orientation_of
from dataprep.images.fingerprint import small_grey
from dataprep.images.pixels import Dtype, Pixels
from dataprep.images.png import Header
from dataprep.images.statistics import Measured, histogram_of
from dataprep.recipe import CHROMA, REPAIR_CHROMA, REPAIR_QUALITY, Recipe
from dataprep_schemas.fields import WHOLE, Box, Fields, Value, moved, present

Format: TypeAlias = Literal["JPEG", "PNG", "RAW"]

_OF_PILLOW = {"webp": "webp", "openjpeg": "jpg_2000", "avif": "avif"}
# Distributions that may be missing: what images of a kind become depends on them, there or not.
EXTRAS = {"HEIC": ("pi-heif",), "JPEG XL": ("imagecodecs",), "DICOM": ("pydicom", "imagecodecs")}
_CHANNELS = {"keep": (1, 3), "rgb": (3,), "gray": (1,)}


@dataclass(frozen=True, slots=True)
class Note:
    """Something about one image that its owner should know, in a line.

    It was ``repaired`` if it was stored in another form than it came in, because not every reader
    takes that as it is; ``warned`` of is damage that TensorFlow and Pillow live with.
    """

    kind: Literal["repaired", "warned"]
    text: str


class Prepared(msgspec.Struct, frozen=True):
    """An image as it will be stored."""

    # The encoded image; the very object that came in if it passed through whole. If the format is
    # ``RAW``, uint8 pixels in (height, width, channel) order.
    data: bytes
    format: Format  # a PNG has 16 bits a sample only with ``depth="keep"``
    height: int  # in pixels, as stored, EXIF orientation not considered
    width: int  # likewise
    channels: int  # of the stored image, 1 or 3
    notes: tuple[Note, ...] = ()  # what happened to it that was not asked for
    measured: Measured | None = None  # for the data set's statistics, if the recipe asks for them
    part: Box = WHOLE  # of the picture that is left, (xmin, ymin, xmax, ymax) as fractions
    grey: Pixels | None = None  # a small grey version of what was decoded, if anything was
    turn: int = 1  # the orientation, 1 to 8, by which it was turned upright before that
    came: tuple[int, int, int] = (0, 0, 1)  # width and height before all that, EXIF orientation
    back: int = 1  # the orientation that turns what was drawn on it as it came

    def moved(self, values: Mapping[str, Value], fields: Fields) -> Mapping[str, Value]:
        """What is said of the image that came in, as it is of this one.

        Masks are of the pixels as they came.
        """
        found = moved(moved(values, fields, self.back), fields, self.turn, self.part)
        pictured = [it.name for it in fields if it.rules.pictured and it.name in values]
        size = self.width, self.height
        if not pictured or (self.turn, self.part, size) == (1, WHOLE, self.came[:2]):
            return found
        most = self.came[0] * self.came[1]
        fitted = {  # of what is only counted, nobody knows what it became
            name: self.mask(masks.read(mask, most)) if isinstance(mask, bytes) else None
            for name, mask in ((name, values[name]) for name in pictured)
        }
        return present({**found, **fitted})

    def mask(self, levels: Pixels) -> bytes:
        """A mask of the pixels as they came, as it is stored with this image."""
        size = self.height, self.width
        return masks.encode(masks.fitted(levels, self.turn, size, self.part))


def prepare(data: bytes, recipe: Recipe, frame: tuple[int, ...] = ()) -> Prepared:
    """Check one image and bring it into the form the recipe asks for.

    A good JPEG of 1 or 3 components passes through byte for byte, metadata included, unless
    the recipe changes its pixels or encoding; so does a grey or RGB PNG if the recipe's `passes`
    has PNG. Anything re-encoded is turned upright, and loses its metadata. CMYK JPEG, PNG, GIF,
    BMP, TIFF, WebP, AVIF, HEIC, JPEG 2000, JPEG XL and DICOM are recognised by content and become
    what `Recipe.target` says. The result depends on the arguments and `codec_versions` only;
    threads may call this at once.

    Args:
        frame: which of how many frames of a DICOM, from 1; empty: its only one.

    Raises:
        dataprep.errors.ImageError: the image cannot be used; the message is the reason.
    """
    kind = kind_of(data)
    if kind == "DICOM":
        return _prepare_dicom(data, recipe, frame)
    special = {"JPEG": _prepare_jpeg, "PNG": _prepare_png}.get(kind)
    return special(data, recipe) if special else _prepare_other(data, kind, recipe)


def kind_of(data: bytes) -> str:
    """Name the format by the file's first bytes.

    Raises:
        dataprep.errors.ImageError: it is none that is supported, or nothing at all.
    """
    if data.startswith(jpeg.MAGIC):
        return "JPEG"
    if data.startswith(png.MAGIC):
        return "PNG"
    return "DICOM" if dicom.is_dicom(data) else pillow.kind_of(data)


def _prepare_jpeg(data: bytes, recipe: Recipe) -> Prepared:
    frame = jpeg.read_frame(data)
    pixels.require_size(frame.width, frame.height, recipe.max_pixels)
    # Most have none, and a search is quicker than a walk through the header.
    has_exif = data.find(exif.HEAD, 0, frame.scan) > 0
    orientation = orientation_of(data) if has_exif else 1
    seen = jpeg.decode_with_pillow(data, frame) if recipe.check == "pixels" else None
    if frame.components != 4 and _passes("JPEG", frame.components, recipe, orientation):
        warning = grey = None
        if recipe.check != "header":
            grey, warning = jpeg.check_bitstream(data, frame)
        size = (frame.height, frame.width, frame.components)
        if recipe.strip_metadata:
            data = jpeg.stripped(data, orientation)
        came = (frame.width, frame.height, orientation)
        return _prepared(data, "JPEG", size, seen, recipe, came, grey=grey, warning=warning)
    found, warning = jpeg.decode(data, frame, grey=recipe.color == "gray")
    original, target = "", recipe.target("JPEG")
    if frame.components == 4:
        original = "JPEG of 4 components (CMYK or YCCK)"
    elif recipe.encoding == "keep" and target != "JPEG":
        original = _misplaced("JPEG", recipe)
    return _store(found, recipe, target, orientation, original, warning)


def _prepare_png(data: bytes, recipe: Recipe) -> Prepared:
    header = png.read_header(data)
    pixels.require_size(header.width, header.height, recipe.max_pixels)
    chunks = png.split(data)
    orientation = exif.orientation_of(chunks.exif)
    channels = 1 if header.grey else 3
    kept = header.depth == 16 and recipe.depth == "keep"
    plain = header.opaque and (header.depth == 8 or kept)
    original = _unusual(header, recipe, plain=plain)
    if plain and _passes("PNG", channels, recipe, orientation):
        flaw, levels = png.find_flaw(data, header, chunks, decoded=recipe.check != "header")
        if flaw is None:
            seen = None if levels is None else pixels.eight_bits(levels)
            grey = None if seen is None else small_grey(seen)
            size = (header.height, header.width, channels)
            if recipe.strip_metadata:
                data = png.stripped(data, orientation)
            came = (header.width, header.height, orientation)
            return _prepared(data, "PNG", size, seen, recipe, came, grey=grey)
        original = f"{header.name} PNG with {flaw}"
    found = png.decode(header, chunks)
    levels = found if kept else pixels.eight_bits(found)
    return _store(levels, recipe, recipe.target("PNG"), orientation, original)


def _unusual(header: Header, recipe: Recipe, *, plain: bool) -> str:
    """What a PNG is that its owner should know of; empty for one that was only asked to change."""
    if "PNG" in recipe.passes or recipe.depth == "keep":
        return "" if plain else f"{header.name} PNG"
    target, deep = recipe.target("PNG"), header.depth == 16
    kind = f"{header.name} PNG" if deep else "PNG"
    if target == "PNG":
        return kind if deep else ""
    return "" if target == "RAW" and plain else _misplaced(kind, recipe)


def _prepare_dicom(data: bytes, recipe: Recipe, frame: tuple[int, ...]) -> Prepared:
    window, most, deep = recipe.dicom_window, recipe.max_pixels, recipe.depth == "keep"
    found, burned = dicom.decode(data, window, most, deep=deep, frame=frame)
    warning = dicom.BURNED_IN if burned else None
    return _store(found, recipe, recipe.target("DICOM"), 1, _misplaced("DICOM", recipe), warning)


def _prepare_other(data: bytes, kind: str, recipe: Recipe) -> Prepared:
    found, orientation, several = pillow.decode(data, kind, recipe.max_pixels)
    deep = found.dtype == np.uint16
    words = ("16-bit " if deep else "") + kind + (" (its first image)" if several else "")
    levels = found if recipe.depth == "keep" else pixels.eight_bits(found)
    return _store(levels, recipe, recipe.target(kind), orientation, _misplaced(words, recipe))


def _misplaced(kind: str, recipe: Recipe) -> str:
    return f"{kind}, not {' or '.join(recipe.passes)}"


def _passes(kind: Format, channels: int, recipe: Recipe, orientation: int) -> bool:
    """Whether a good image is already what the recipe wants."""
    wanted = _CHANNELS[recipe.color]
    return (
        kind in recipe.passes
        and channels in wanted
        and (orientation == 1 or recipe.exif != "apply")
        and recipe.resize is None
        and recipe.center_crop is None
        and recipe.encoding == "keep"
    )


def _store(
    found: NDArray[Dtype],
    recipe: Recipe,
    target: Format,
    orientation: int,
    original: str,
    warning: str | None = None,
) -> Prepared:
    """Shape and encode decoded pixels; `original` says what had to be repaired, if anything."""
    turn = 1 if recipe.exif == "ignore" else orientation
    shaped, part = _shaped(found, recipe, turn)
    seen = pixels.eight_bits(shaped)
    channels = 1 if shaped.ndim == 2 else 3
    color = "grey" if channels == 1 else "RGB"
    if original.startswith("16-bit") or shaped.dtype == np.uint16:
        color = f"{8 * shaped.itemsize}-bit {color}"
    if target == "RAW":
        stored, form = pixels.packed(seen).tobytes(), f"stored as {color} pixels"
    elif target == "PNG":
        stored, form = png.encode(shaped), f"re-encoded as {color} PNG"
    else:
        # The best quality where nobody asked for the image to be changed.
        changed = recipe.resize or recipe.center_crop or recipe.encoding != "keep"
        best = (REPAIR_QUALITY, REPAIR_CHROMA)
        quality, chroma = best if original and not changed else (recipe.quality, CHROMA)
        stored = jpeg.encode(seen, quality, chroma)
        form = f"re-encoded as {color} JPEG, quality {quality}"
    repaired = original and f"{original}: {form}"
    size = (seen.shape[0], seen.shape[1], channels)
    grey = small_grey(seen)
    came = (found.shape[1], found.shape[0], orientation)
    made = _prepared(
        stored, target, size, seen, recipe, came, grey=grey, repaired=repaired, warning=warning
    )
    return msgspec.structs.replace(made, part=part, turn=turn)


def _prepared(
    stored: bytes,
    form: Format,
    size: tuple[int, int, int],
    seen: Pixels | None,
    recipe: Recipe,
    came: tuple[int, int, int],
    *,
    grey: Pixels | None = None,
    repaired: str = "",
    warning: str | None = None,
) -> Prepared:
    """The image as it will be stored, with its notes, and measured if the recipe asks for that."""
    notes = [Note("repaired", repaired)] if repaired else []
    notes += [Note("warned", warning)] if warning is not None else []
    measured = None
    if recipe.stats != "off":
        measured = Measured(len(stored), form, *size[:2])
        if seen is not None and recipe.decodes:
            channels = 1 if recipe.color == "gray" else 3  # what readers decode to
            measured.histogram = histogram_of(pixels.packed(seen), channels)
    return Prepared(stored, form, *size, tuple(notes), measured, grey=grey, came=came)


def _shaped(found: NDArray[Dtype], recipe: Recipe, turn: int) -> tuple[NDArray[Dtype], Box]:
    """Turn, resize, crop and recolour, each if asked for, in that order; and what is left."""
    part = WHOLE
    shaped = pixels.upright(found, turn)
    if recipe.color == "gray":  # before the resize: a third of the work
        shaped = pixels.recolored(shaped, "gray")
    if recipe.resize is not None:
        height, width = shaped.shape[:2]
        size = pixels.target_size(width, height, recipe.resize)
        pixels.require_size(*size, recipe.max_pixels)
        shaped = pixels.resized(shaped, size, recipe.filter)
    if recipe.center_crop is not None:
        shaped, part = pixels.center_cropped(shaped, recipe.center_crop)
    return pixels.recolored(shaped, recipe.color), part


def codec_versions() -> dict[str, str]:
    """Versions of everything that can change re-encoded bytes.

    simplejpeg carries a libjpeg-turbo of its own, fixed by simplejpeg's version;
    ``libjpeg`` is the one that Pillow decodes CMYK images with.
    """
    # Asking Pillow for a feature it does not know is a warning; older ones know no zlib-ng.
    zlib_ng = features.version("zlib_ng") if "zlib_ng" in features.features else None
    turbo = features.version("libjpeg_turbo")
    found = {
        "pillow": version("pillow"),
        "libjpeg": f"libjpeg-turbo {turbo}" if turbo else f"libjpeg {features.version('jpg')}",
        "simplejpeg": version("simplejpeg"),
        "zlib": f"zlib-ng {zlib_ng}" if zlib_ng else f"zlib {features.version('zlib')}",
        "resampler": pixels.resampler(),
        "python_zlib": zlib.ZLIB_RUNTIME_VERSION,  # of 16-bit RGB PNG
    }
    for name, feature in _OF_PILLOW.items():  # which may be older, or built without
        known = feature in features.modules or feature in features.codecs
        if known and (of := features.version(feature)):
            found[name] = of
    for name in sorted({*chain(*EXTRAS.values())}):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
