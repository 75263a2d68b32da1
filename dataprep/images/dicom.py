"""DICOM images, a frame at a time, and the few things of their headers that tell of no person.

pydicom (the extra ``dicom``) takes files apart and decodes; what leads from stored values to grey
levels (PS3.3, C.11) is done here, on a table of all values that a sample may have.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dataprep.errors import ImageError
from dataprep.images.pixels import Levels, require_size
from dataprep.recipe import parse_window
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from pydicom import Dataset

_MAGIC: Final = b"DICM"
_ENDS: Final = 128 + len(_MAGIC)
# Who decodes what, by transfer syntax, since lossy decoders differ by some levels: pydicom, with a
# plugin for what is coded, or a function of imagecodecs. gdcm crashes on damaged files; of
# High-Throughput JPEG 2000 imagecodecs ignores errors; CharLS takes seconds for a damaged file of
# lossy JPEG-LS or of several samples a pixel.
_BY_PYDICOM: Final = {
    "1.2.840.10008.1.2": "",
    "1.2.840.10008.1.2.1": "",
    "1.2.840.10008.1.2.2": "",
    "1.2.840.10008.1.2.5": "pydicom",  # RLE
    "1.2.840.10008.1.2.4.50": "pillow",  # JPEG baseline
    "1.2.840.10008.1.2.4.90": "pillow",  # JPEG 2000
    "1.2.840.10008.1.2.4.91": "pillow",
}
_BY_IMAGECODECS: Final = {
    "1.2.840.10008.1.2.4.51": "jpeg8_decode",  # JPEG of 12 bits
    "1.2.840.10008.1.2.4.57": "jpeg8_decode",  # lossless JPEG
    "1.2.840.10008.1.2.4.70": "jpeg8_decode",
    "1.2.840.10008.1.2.4.80": "jpegls_decode",  # lossless
}
_LAST_TAG: Final = "BitsAllocated"  # which every image has, behind what is asked for
_DEFLATED: Final = b"1.2.840.10008.1.2.1.99"
_IMAGE_TAGS: Final = [
    *("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
    *("SamplesPerPixel", "PhotometricInterpretation", "PlanarConfiguration", "NumberOfFrames"),
    *("BurnedInAnnotation", "PixelData", "FloatPixelData", "DoubleFloatPixelData"),
]
_WINDOW: Final = ("VOILUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction")
_VALUES: Final = (
    *("ModalityLUTSequence", "RescaleSlope", "RescaleIntercept"),
    *("PixelSpacing", "ImagerPixelSpacing", "ImageLaterality", "Laterality"),
)
# Enhanced objects say these things of frames: of all, or of each (PS3.3, C.7.6.16.2).
_GROUPS: Final = ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence")
_MACROS: Final = {
    "PixelValueTransformationSequence": ("RescaleSlope", "RescaleIntercept"),
    "FrameVOILUTSequence": _WINDOW,
    "PixelMeasuresSequence": ("PixelSpacing",),
    "FramePixelDataPropertiesSequence": ("ImagerPixelSpacing",),
    "FrameAnatomySequence": ("FrameLaterality",),
}
_AT_TOP: Final = {"FrameLaterality": ("ImageLaterality", "Laterality")}  # its names in others
_FUNCTIONS: Final = ("LINEAR", "LINEAR_EXACT", "SIGMOID")
# Start of frame, of JPEG and of JPEG-LS; others have no size (ISO 10918-1, table B.1).
_FRAMES: Final = frozenset({*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC})
_SCAN: Final = frozenset({0xDA})
_CODESTREAM: Final = b"\xff\x4f\xff\x51"
_ERRORS: Final = (  # pydicom's and its decoders', by fuzzing
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError, EOFError),
    *(RuntimeError, struct.error, AssertionError, NotImplementedError),
    Warning,  # only where the user makes errors of them
)
_MOST_FRAMES: Final = 1 << 16  # each is a row of the index
# Of each image: which of how many frames it is, and what is said of it.
Headers = list[tuple[tuple[int, ...], dict[str, str]]]
BURNED_IN: Final = "BurnedInAnnotation is YES"
_EXPECTED: Final = "expected grey of at most 16 bits, or RGB or YBR of 8"


def _windowed(
    values: NDArray[np.float64], center: float, width: float, kind: str = "LINEAR"
) -> NDArray[np.float64]:
    """From 0, black, to 1, as PS3.3 C.11.2.1.2 and C.11.2.1.3 say."""
    enough = width > 0 if kind in ("LINEAR_EXACT", "SIGMOID") else width >= 1
    if not (enough and np.isfinite([center, width]).all()):
        raise ImageError(
            f"unsupported DICOM: a {kind} window of centre {center:g} and width {width:g}; "
            "--dicom_window sets another"
        )
    if kind == "SIGMOID":
        return 1 / (1 + np.exp(np.clip(-4 * (values - center) / width, -700, 700)))
    if kind != "LINEAR_EXACT":
        center, width = center - 0.5, width - 1
    if width == 0:
        return (values > center).astype(np.float64)
    return np.clip((values - center) / width + 0.5, 0, 1)


def is_dicom(data: bytes) -> bool:
    """Whether it has the mark that stands behind the preamble."""
    return data[128:_ENDS] == _MAGIC


def decode(
    data: bytes, window: str, max_pixels: int, *, deep: bool, frame: tuple[int, ...] = ()
) -> tuple[Levels, bool]:
    """Decode to what a viewer shows: 8-bit grey or RGB, or 16-bit grey.

    Args:
        window: see `Recipe.dicom_window`.
        max_pixels: the limit, checked before anything is decoded, also in the coded data.
        deep: whether samples of more than 8 bits become grey levels of 16.
        frame: which of how many frames, from 1; empty: it must have one.

    Returns:
        The pixels; and whether the file says that annotations are burned into them.

    Raises:
        ImageError: it is damaged, too large, no image of so many frames, or nothing here decodes
            it.
    """
    with _reading():
        names = [*_VALUES, *(_WINDOW if window == "file" else ())]
        image, _ = _read(data, [*_IMAGE_TAGS, *names])
        if "FloatPixelData" in image or "DoubleFloatPixelData" in image:
            raise ImageError(f"unsupported DICOM: pixels of floating point; {_EXPECTED}")
        if not ("PixelData" in image and "Rows" in image and "Columns" in image):
            raise ImageError("DICOM without pixels")
        number, count = frame or (1, 1)
        if (frames := int(image.get("NumberOfFrames") or 1)) != count:
            expected = f"{count}: the file changed" if frame else "an image of one"
            take = "" if frame else "; --frames first, middle or all takes them"
            raise ImageError(f"DICOM of {frames} frames, expected {expected}{take}")
        groups = image.get(_GROUPS[1])
        if count > 1 and groups and len(groups) != count:
            raise ImageError(f"broken DICOM: functional groups of {len(groups)} of {count} frames")
        said = _said(image, names, number)
        require_size(int(image.Columns), int(image.Rows), max_pixels)
        grey = _is_grey(image)
        found = _decoded(image, number - 1, count)
        if grey:
            shown = _table(found.itemsize, image, said, window, deep=deep)
            found = shown[found.view(f"u{found.itemsize}")]
        burned = str(image.get("BurnedInAnnotation", "")).strip().upper() == "YES"
        return found, burned


def header_of(data: bytes, tags: Collection[str], frames: str) -> Headers | None:
    """The text of these elements of a header, ASCII or whatever bytes stand there.

    Args:
        data: a file, or its first part.
        tags: by their keywords; of group 0028 or below, also where functional groups have them.
        frames: which are wanted of several: ``first``, ``middle`` or ``all``; empty: not any.

    Returns:
        Of each image that is wanted, which of how many frames it is, from 1, and the texts; a
        file of one frame is an image without. None if the part ends before the header does.

    Raises:
        ImageError: it is damaged, or contradicts itself.
    """
    with _reading():
        found, end = _read(data, [*tags, _LAST_TAG, "NumberOfFrames"], pixels=False)
        # Functional groups, which only what has a number of frames has, stand right before pixels.
        cut = "NumberOfFrames" in found and data[end : end + 2] not in (b"\xe0\x7f", b"\x7f\xe0")
        if _LAST_TAG not in found or cut:
            return None
        count = int(found.get("NumberOfFrames") or 1)
        if count == 1 or not frames:
            return [((), _said(found, tags, 1))]
        if not 1 < count <= _MOST_FRAMES:
            raise ImageError(f"broken DICOM: {count} frames")
        one = {"first": [1], "middle": [(count + 1) // 2]}
        wanted = one.get(frames, range(1, count + 1))
        return [((number, count), _said(found, tags, number)) for number in wanted]


@contextmanager
def _reading() -> Iterator[None]:
    """Word pydicom's errors, and that it is not installed."""
    try:
        from pydicom.errors import BytesLengthException, InvalidDicomError

        yield
    except ModuleNotFoundError as error:
        raise ImageError(
            f"unsupported DICOM: {error.name} is missing; pip install 'dataprep-shards[dicom]'"
        ) from error
    except (*_ERRORS, BytesLengthException, InvalidDicomError) as error:
        text = " ".join(str(error).split())[:200]
        raise ImageError(f"broken DICOM: {text or type(error).__name__}") from error


def _read(data: bytes, tags: list[str], *, pixels: bool = True) -> tuple[Dataset, int]:
    """These elements of a file and its functional groups, and where reading stopped."""
    if _DEFLATED in data:
        raise ImageError("unsupported DICOM: deflated as a whole, which may be a bomb")
    from pydicom import dcmread

    stream, wanted = io.BytesIO(data), [*tags, *_GROUPS]
    found = dcmread(stream, stop_before_pixels=not pixels, specific_tags=wanted)
    return found, stream.tell()


def _said(image: Dataset, names: Collection[str], number: int) -> dict[str, Any]:
    """What it says of a frame, at the top or in functional groups: texts, or items."""
    found = {name: said for name in names if (said := _value(image, name))}
    shared, each = (image.get(name) or [] for name in _GROUPS)
    groups = [*shared[:1], *each[number - 1 : number]]
    for group, (macro, inner) in product(groups, _MACROS.items()):
        for item, name in product((group.get(macro) or [])[:1], inner):
            for top in _AT_TOP.get(name, (name,)):
                if top in names and (said := _value(item, name)):
                    pairs = zip(_parts(found.setdefault(top, said)), _parts(said), strict=False)
                    if any(one != other for one, other in pairs):
                        raise ImageError(f"ambiguous DICOM: {top} differs in functional groups")
    return found


def _value(image: Dataset, name: str) -> Any:
    """The text of an element or the items of a sequence; nothing if there is none."""
    if (element := image.get_item(name)) is None or name.endswith("Sequence"):
        return image.get(name)
    # As bytes: pydicom would warn of what is no valid value, and print it.
    return element.value.strip(b" \0").decode("latin-1") if element.value else ""


def _parts(said: Any) -> list[Any]:
    """What is compared: numbers, text without case, or items."""
    if not isinstance(said, str):
        return list(said)
    parts = [part.strip() for part in said.upper().split("\\")]
    with suppress(ValueError):
        return [*map(float, parts)]
    return parts


def _is_grey(image: Dataset) -> bool:
    """Whether it is grey, and not colour of 8 bits; nothing else is decoded."""
    kind, samples = str(image.PhotometricInterpretation), int(image.SamplesPerPixel)
    allocated, stored = int(image.BitsAllocated), int(image.BitsStored)
    grey = kind in ("MONOCHROME1", "MONOCHROME2") and samples == 1 and allocated in (8, 16)
    colour = kind.startswith(("RGB", "YBR")) and samples == 3 and allocated == stored == 8
    colour = colour and not image.PixelRepresentation
    if not (grey or colour) or not 1 <= stored <= allocated:
        raise ImageError(
            f"unsupported DICOM: {kind[:20]} of {samples} x {stored} bits, {allocated} allocated; "
            f"{_EXPECTED}"
        )
    if (high := image.get("HighBit", stored - 1)) != stored - 1:  # PS3.3, C.7.6.3
        raise ImageError(
            f"unsupported DICOM: HighBit {str(high)[:20]} of {stored} bits stored, expected "
            f"{stored - 1}"
        )
    return grey


def _decoded(image: Dataset, index: int, count: int) -> NDArray[Any]:
    """The stored values of a frame, (rows, columns), or RGB."""
    from pydicom.encaps import get_frame
    from pydicom.pixels import get_decoder

    syntax = image.file_meta.TransferSyntaxUID
    plugin, function = _BY_PYDICOM.get(syntax), _BY_IMAGECODECS.get(syntax)
    kind, rgb = str(image.PhotometricInterpretation), image.SamplesPerPixel == 3
    known = {"jpeg8_decode": ("MONO", "RGB"), "jpegls_decode": ("MONO",)}.get(function or "", ())
    if plugin is None and not kind.startswith(known):
        raise ImageError(f"unsupported DICOM: {kind} of transfer syntax {syntax.name[:80]}")
    if plugin != "":
        frame = get_frame(image.PixelData, index, number_of_frames=count)
        _require_same_size(frame, image, runs=plugin == "pydicom")
    if function is None:
        try:
            found, _ = get_decoder(syntax).as_array(image, index=index, decoding_plugin=plugin)
        except RuntimeError:
            if plugin != "pillow" or (at := frame.find(_CODESTREAM)) < 0:
                raise
            import imagecodecs  # which also reads tile parts that were counted wrongly

            found = imagecodecs.jpeg2k_decode(frame[at:])
    else:
        import imagecodecs

        if function == "jpegls_decode" and _segment(frame, _SCAN)[7]:
            raise ImageError("unsupported DICOM: lossy JPEG-LS")
        options = {"outcolorspace": "RGB"} if rgb else {}
        found = getattr(imagecodecs, function)(frame, **options)
    if found.shape != (image.Rows, image.Columns, *[3] * rgb) or found.itemsize > 2:
        raise ImageError(f"broken DICOM: {found.dtype} pixels of shape {found.shape} coded")
    return np.ascontiguousarray(found, found.dtype.newbyteorder("="))


def _require_same_size(frame: bytes, image: Dataset, *, runs: bool) -> None:
    """Refuse coded data that could take more memory than the size in the header says."""
    rows, columns = int(image.Rows), int(image.Columns)
    if runs:  # one of 128 bytes has 2
        most = rows * columns * int(image.SamplesPerPixel) * int(image.BitsAllocated) // 8
        if len(frame) > 2 * most + 128:
            raise ImageError(f"broken DICOM: {len(frame)} bytes of RLE for {most} bytes of pixels")
        return
    if (at := frame.find(_CODESTREAM)) >= 0:  # SIZ (15444-1, A.5.1)
        width, height, left, top, samples = struct.unpack(">4I16xH", frame[at + 8 : at + 42])
        width, height = width - left, height - top
    else:
        height, width, samples = struct.unpack(">HHB", _segment(frame, _FRAMES)[5:10])
    if (width, height, samples) != (columns, rows, image.SamplesPerPixel):
        raise ImageError(
            f"broken DICOM: {width}x{height}x{samples} samples coded, {columns}x{rows}x"
            f"{image.SamplesPerPixel} declared"
        )


def _segment(data: bytes, markers: frozenset[int]) -> bytes:
    """From the first of these markers of a JPEG header on."""
    at = 2
    while data[at] == 0xFF and data[at + 1] not in markers:
        at += 1 if data[at + 1] == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    if data[at] != 0xFF:
        raise ImageError("broken DICOM: its JPEG data has no frame or scan")
    return data[at:]


def _table(
    size: int, image: Dataset, said: Mapping[str, Any], wanted: str, *, deep: bool
) -> NDArray[Any]:
    """The grey level of all that a sample of so many bytes may be, by its bits as a number."""
    bits = int(image.BitsStored)
    least = -(1 << bits - 1) if image.PixelRepresentation else 0
    most = least + (1 << bits) - 1
    # What the bits beside those stored are is nobody's business: overlays, or the sign again.
    stored = np.arange(1 << 8 * size) & ((1 << bits) - 1)
    values = np.where(stored > most, stored - (1 << bits), stored).astype(np.float64)
    if modality := said.get("ModalityLUTSequence"):
        values, top = _looked_up(values, modality[0], image)
        low, high = 0.0, top
    else:
        slope, intercept = (_number(said, name) for name in ("RescaleSlope", "RescaleIntercept"))
        slope, intercept = 1.0 if slope is None else slope, intercept or 0.0
        values = values * slope + intercept
        low, high = sorted((least * slope + intercept, most * slope + intercept))
    window = _window_of(said) if wanted == "file" else parse_window(wanted)
    if lut := said.get("VOILUTSequence"):
        values, top = _looked_up(values, lut[0], image)
        shown = values / top
    elif window:
        shown = _windowed(values, *window)
    else:
        if not 0 < high - low < np.inf:
            raise ImageError(f"broken DICOM: values from {low:g} to {high:g}")
        shown = (values - low) / (high - low)
    if image.PhotometricInterpretation == "MONOCHROME1":  # after the window: C.7.6.3.1.2
        shown = 1 - shown
    levels = np.uint16 if deep and bits > 8 else np.uint8
    return (shown.clip(0, 1) * np.iinfo(levels).max + 0.5).astype(levels)


def _window_of(said: Mapping[str, Any]) -> tuple[float, float, str] | None:
    """The file's first window, if it has any."""
    center, width = (_number(said, name) for name in ("WindowCenter", "WindowWidth"))
    if center is None or width is None:
        return None
    kinds = {*_parts(said.get("VOILUTFunction", "LINEAR"))}
    if len(kinds) > 1 or not kinds <= {*_FUNCTIONS}:
        raise ImageError(
            f"unsupported DICOM: VOILUTFunction {printable(said['VOILUTFunction'])[:40]}, expected "
            f"one of {', '.join(_FUNCTIONS)}; --dicom_window sets another window"
        )
    return center, width, kinds.pop()


def _number(said: Mapping[str, Any], name: str) -> float | None:
    """The first of its numbers, if it has any."""
    text = said.get(name, "").partition("\\")[0].strip()
    if text and not np.isfinite(float(text)):
        raise ImageError(f"broken DICOM: {name} {text[:20]}")
    return float(text) if text else None


def _looked_up(
    values: NDArray[np.float64], item: Dataset, image: Dataset
) -> tuple[NDArray[np.float64], float]:
    """The values by a table (C.11.1.1, C.11.2.1.1), and the highest that it may have."""
    count, first, bits = item.LUTDescriptor
    count, first = count % (1 << 16) or 1 << 16, int(first)
    if first >= 1 << 15 and values.min() < 0:  # a negative number, read as one without a sign
        first -= 1 << 16
    data = item.LUTData
    if isinstance(data, bytes):
        order = "<" if image.file_meta.TransferSyntaxUID.is_little_endian else ">"
        data = np.frombuffer(data, "u1" if len(data) in (count, count + 1) else f"{order}u2")
    table = np.atleast_1d(np.asarray(data, np.float64))[:count]
    if not 8 <= bits <= 16 or len(table) < count:
        raise ImageError(f"broken DICOM: a table of {len(table)} of {count} entries, {bits} bits")
    return table[np.clip(values - first, 0, count - 1).astype(np.int64)], float((1 << bits) - 1)
