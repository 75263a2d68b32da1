"""DICOM images of one frame, and the few things of their headers that tell of no person.

pydicom (the extra ``dicom``) takes files apart and decodes; what leads from stored values to grey
levels (PS3.3, C.11) is done here, on a table of all values that a sample may have.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from dataprep.errors import ImageError
from dataprep.images.pixels import Levels, require_size
from dataprep.images.recipe import parse_window

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
    *("ModalityLUTSequence", "RescaleSlope", "RescaleIntercept", "VOILUTSequence"),
    *("WindowCenter", "WindowWidth", "VOILUTFunction", "BurnedInAnnotation", "PixelData"),
    *("FloatPixelData", "DoubleFloatPixelData"),
]
# Start of frame, of JPEG and of JPEG-LS; others have no size (ISO 10918-1, table B.1).
_FRAMES: Final = frozenset({*range(0xC0, 0xD0), 0xF7} - {0xC4, 0xC8, 0xCC})
_SCAN: Final = frozenset({0xDA})
_CODESTREAM: Final = b"\xff\x4f\xff\x51"
_ERRORS: Final = (  # pydicom's and its decoders', by fuzzing
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, OSError, EOFError),
    *(RuntimeError, struct.error, AssertionError, NotImplementedError),
    Warning,  # only where the user makes errors of them
)
BURNED_IN: Final = "BurnedInAnnotation is YES"


def _windowed(
    values: NDArray[np.float64], center: float, width: float, kind: str = "LINEAR"
) -> NDArray[np.float64]:
    """From 0, black, to 1, as PS3.3 C.11.2.1.2 and C.11.2.1.3 say."""
    enough = width > 0 if kind in ("LINEAR_EXACT", "SIGMOID") else width >= 1
    if not (enough and np.isfinite([center, width]).all()):
        raise ImageError(
            f"broken DICOM: a {kind[:16]} window of centre {center:g} and width {width:g}; "
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


def decode(data: bytes, window: str, max_pixels: int, *, deep: bool) -> tuple[Levels, bool]:
    """Decode to what a viewer shows: 8-bit grey or RGB, or 16-bit grey.

    Args:
        window: see `Recipe.dicom_window`.
        max_pixels: the limit, checked before anything is decoded, also in the coded data.
        deep: whether samples of more than 8 bits become grey levels of 16.

    Returns:
        The pixels; and whether the file says that annotations are burned into them.

    Raises:
        ImageError: it is damaged, too large, no image of one frame, or nothing here decodes it.
    """
    with _reading():
        image = _read(data, _IMAGE_TAGS)
        if not ("PixelData" in image and "Rows" in image and "Columns" in image):
            raise ImageError("DICOM without pixels, or with those of floating point")
        if (frames := int(image.get("NumberOfFrames") or 1)) != 1:
            raise ImageError(f"DICOM of {frames} frames, expected an image of one")
        require_size(int(image.Columns), int(image.Rows), max_pixels)
        grey = _is_grey(image)
        found = _decoded(image)
        if grey:
            shown = _table(found.itemsize, image, window, deep=deep)
            found = shown[found.view(f"u{found.itemsize}")]
        burned = str(image.get("BurnedInAnnotation", "")).strip().upper() == "YES"
        return found, burned


def header_of(data: bytes, tags: Iterable[str]) -> dict[str, str] | None:
    """The text of these elements of a header, ASCII or whatever bytes stand there.

    Args:
        data: a file, or its first part.
        tags: by their keywords; of group 0028 or below.

    Returns:
        None if the part ends before the header does.

    Raises:
        ImageError: it is damaged.
    """
    with _reading():
        found = _read(data, [*tags, _LAST_TAG], pixels=False)
        if _LAST_TAG not in found:
            return None
        # As bytes: pydicom would warn of what is no valid value, and print it.
        raw = {tag: found.get_item(tag) for tag in tags}
        return {
            tag: element.value.strip(b" \0").decode("latin-1")
            for tag, element in raw.items()
            if element is not None and isinstance(element.value, bytes)
        }


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


def _read(data: bytes, tags: list[str], *, pixels: bool = True) -> Dataset:
    """These elements of a file."""
    if _DEFLATED in data:
        raise ImageError("unsupported DICOM: deflated as a whole, which may be a bomb")
    from pydicom import dcmread

    return dcmread(io.BytesIO(data), stop_before_pixels=not pixels, specific_tags=tags)


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
            "expected grey of at most 16 bits, or RGB or YBR of 8"
        )
    if (high := image.get("HighBit", stored - 1)) != stored - 1:  # PS3.3, C.7.6.3
        raise ImageError(
            f"unsupported DICOM: HighBit {str(high)[:20]} of {stored} bits stored, expected "
            f"{stored - 1}"
        )
    return grey


def _decoded(image: Dataset) -> NDArray[Any]:
    """The stored values, (rows, columns), or RGB."""
    from pydicom.encaps import get_frame
    from pydicom.pixels import get_decoder

    syntax = image.file_meta.TransferSyntaxUID
    plugin, function = _BY_PYDICOM.get(syntax), _BY_IMAGECODECS.get(syntax)
    kind, rgb = str(image.PhotometricInterpretation), image.SamplesPerPixel == 3
    known = {"jpeg8_decode": ("MONO", "RGB"), "jpegls_decode": ("MONO",)}.get(function or "", ())
    if plugin is None and not kind.startswith(known):
        raise ImageError(f"unsupported DICOM: {kind} of transfer syntax {syntax.name[:80]}")
    if plugin != "":
        frame = get_frame(image.PixelData, 0, number_of_frames=1)
        _require_same_size(frame, image, runs=plugin == "pydicom")
    if function is None:
        found, _ = get_decoder(syntax).as_array(image, index=0, decoding_plugin=plugin)
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
        width, height, samples = struct.unpack(">II24xH", frame[at + 8 : at + 42])
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


def _table(size: int, image: Dataset, wanted: str, *, deep: bool) -> NDArray[Any]:
    """The grey level of all that a sample of so many bytes may be, by its bits as a number."""
    bits = int(image.BitsStored)
    least = -(1 << bits - 1) if image.PixelRepresentation else 0
    most = least + (1 << bits) - 1
    # What the bits beside those stored are is nobody's business: overlays, or the sign again.
    stored = np.arange(1 << 8 * size) & ((1 << bits) - 1)
    values = np.where(stored > most, stored - (1 << bits), stored).astype(np.float64)
    if modality := image.get("ModalityLUTSequence"):
        values, top = _looked_up(values, modality[0], image)
        low, high = 0.0, top
    else:
        slope, intercept = image.get("RescaleSlope"), image.get("RescaleIntercept")
        slope, intercept = 1.0 if slope is None else float(slope), float(intercept or 0)
        values = values * slope + intercept
        low, high = sorted((least * slope + intercept, most * slope + intercept))
    lut = image.get("VOILUTSequence") if wanted == "file" else None
    window = _window_of(image) if wanted == "file" else parse_window(wanted)
    if lut:
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


def _window_of(image: Dataset) -> tuple[float, float, str] | None:
    """The file's first window, if it has any."""
    several = [np.ravel(image.get(name)) for name in ("WindowCenter", "WindowWidth")]
    center, width = (next(iter(it), None) for it in several)
    if center in (None, "") or width in (None, ""):
        return None
    return float(center), float(width), str(image.get("VOILUTFunction") or "LINEAR")


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
