"""One image in, one checked and stored image out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dataprep.images import decoders, encode, foreign, jpeg, orientation, pixels
from dataprep.images.jpeg import Frame
from dataprep.images.pixels import Pixels
from dataprep.images.recipe import CHROMA, REPAIR_CHROMA, REPAIR_QUALITY, Recipe
from dataprep.images.statistics import Measured, as_channels, histogram_of

Format: TypeAlias = Literal["JPEG", "PNG", "RAW"]


@dataclass(frozen=True, slots=True)
class Note:
    """Something about one image that its owner should know.

    Attributes:
        kind: ``repaired`` if the image was stored in another form than it came in because
            readers could not have used it; ``warned`` if the decoder found damage that
            TensorFlow and Pillow live with.
        text: one line.
    """

    kind: Literal["repaired", "warned"]
    text: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """An image as it will be stored.

    Attributes:
        data: the encoded image; the very object that came in if it passed through. If `format`
            is ``RAW``, uint8 pixels in (height, width, channel) order.
        format: what `data` is.
        height: in pixels, as stored, EXIF orientation not considered.
        width: in pixels, likewise.
        channels: of the stored image, 1 or 3.
        notes: what happened to it, if anything did that was not asked for.
        measured: for the data set's statistics; None unless the recipe asks for them.
    """

    data: bytes
    format: Format
    height: int
    width: int
    channels: int
    notes: tuple[Note, ...] = ()
    measured: Measured | None = field(default=None, compare=False)


def prepare(data: bytes, recipe: Recipe) -> Prepared:
    """Check one image and bring it into the form the recipe asks for.

    A good JPEG of 1 or 3 components passes through byte for byte, metadata included, unless
    the recipe changes its pixels or encoding. Anything re-encoded loses its metadata. CMYK
    JPEG, PNG, GIF, BMP and WebP are recognised by content and become JPEG, or whatever else
    the recipe's encoding is. The result depends on the arguments and `codec_versions` only;
    threads may call this at once.

    Args:
        data: the bytes of the file.
        recipe: what to do.

    Raises:
        dataprep.errors.ImageError: the image cannot be used; the message is the reason.
    """
    if data.startswith(jpeg.MAGIC):
        return _prepare_jpeg(data, recipe)
    kind = foreign.kind_of(data)
    found, exif = foreign.decode(data, kind, recipe.max_pixels)
    turn = orientation.of_tiff(exif) if recipe.exif == "apply" else 1
    original = "" if kind == "PNG" and recipe.encoding == "png" else f"{kind}, not JPEG"
    return _store(found, recipe, turn, original, None)


def _prepare_jpeg(data: bytes, recipe: Recipe) -> Prepared:
    frame = jpeg.read_frame(data)
    pixels.require_size(frame.width, frame.height, recipe.max_pixels)
    turn = orientation.of_jpeg(data) if recipe.exif == "apply" else 1
    if _passes(frame, recipe, turn):
        return _pass(data, frame, recipe)
    if recipe.check == "pixels":
        decoders.decode_with_pillow(data, frame)
    grey = recipe.color == "gray"
    found, warning = decoders.decode(data, frame, grey=grey)
    original = "JPEG of 4 components (CMYK or YCCK)" if frame.components == 4 else ""
    return _store(found, recipe, turn, original, warning)


def _passes(frame: Frame, recipe: Recipe, turn: int) -> bool:
    """Whether a JPEG is already what the recipe wants."""
    wanted = {"keep": (1, 3), "rgb": (3,), "gray": (1,)}[recipe.color]
    return (
        frame.components in wanted
        and turn == 1
        and recipe.resize is None
        and recipe.center_crop is None
        and recipe.encoding == "keep"
    )


def _pass(data: bytes, frame: Frame, recipe: Recipe) -> Prepared:
    """Check a JPEG that is already what the recipe wants, and leave it as it is."""
    seen = decoders.decode_with_pillow(data, frame) if recipe.check == "pixels" else None
    warning = None if recipe.check == "header" else decoders.check_bitstream(data, frame)
    height, width = frame.height, frame.width
    measured = _measured(data, "JPEG", height, width, seen, recipe)
    notes = _notes("", warning)
    return Prepared(data, "JPEG", height, width, frame.components, notes, measured)


def _store(
    found: Pixels, recipe: Recipe, turn: int, original: str, warning: str | None
) -> Prepared:
    """Shape and encode decoded pixels; `original` says what had to be repaired, if anything."""
    shaped = _shaped(found, recipe, turn)
    height, width = shaped.shape[:2]
    channels = 1 if shaped.ndim == 2 else 3
    color = "grey" if channels == 1 else "RGB"
    stored, format_, form = _encoded(shaped, recipe, repair=bool(original))
    notes = _notes(original and f"{original}: {form.format(color=color)}", warning)
    measured = _measured(stored, format_, height, width, shaped, recipe)
    return Prepared(stored, format_, height, width, channels, notes, measured)


def _encoded(shaped: Pixels, recipe: Recipe, *, repair: bool) -> tuple[bytes, Format, str]:
    """The bytes to store, their format, and words for it with a place for the ``{color}``."""
    if recipe.encoding == "raw":
        return shaped.tobytes(), "RAW", "stored as {color} pixels"
    if recipe.encoding == "png":
        return encode.to_png(shaped), "PNG", "re-encoded as {color} PNG"
    changed = recipe.resize is not None or recipe.center_crop is not None
    mere = repair and not changed and recipe.encoding == "keep"
    quality, chroma = (REPAIR_QUALITY, REPAIR_CHROMA) if mere else (recipe.quality, CHROMA)
    stored = encode.to_jpeg(shaped, quality, chroma)
    return stored, "JPEG", f"re-encoded as {{color}} JPEG, quality {quality}"


def _measured(
    stored: bytes, form: Format, height: int, width: int, found: Pixels | None, recipe: Recipe
) -> Measured | None:
    """Measure a stored image; its pixels only if the recipe decodes every image's."""
    if recipe.statistics == "off":
        return None
    if found is None or not recipe.decodes:
        return Measured(len(stored), form, height, width)
    channels = 1 if recipe.color == "gray" else 3  # what readers decode to
    histogram = histogram_of(found, channels)
    kept = as_channels(found, channels) if recipe.statistics == "mean" else None
    return Measured(len(stored), form, height, width, histogram, kept)


def _shaped(found: Pixels, recipe: Recipe, turn: int) -> Pixels:
    """Turn, resize, crop and recolour, each if asked for, in that order."""
    shaped = orientation.upright(found, turn)
    if recipe.color == "gray":  # before the resize: a third of the work
        shaped = pixels.recolored(shaped, "gray")
    if recipe.resize is not None:
        height, width = shaped.shape[:2]
        size = pixels.target_size(width, height, recipe.resize)
        pixels.require_size(*size, recipe.max_pixels)
        shaped = pixels.resized(shaped, size, recipe.filter)
    if recipe.center_crop is not None:
        shaped = pixels.center_cropped(shaped, recipe.center_crop)
    return pixels.recolored(shaped, recipe.color)


def _notes(repaired: str, warning: str | None) -> tuple[Note, ...]:
    notes = []
    if repaired:
        notes.append(Note("repaired", repaired))
    if warning is not None:
        notes.append(Note("warned", warning))
    return tuple(notes)
