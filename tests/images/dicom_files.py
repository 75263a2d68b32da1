"""DICOM files, in every coding that is read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import imagecodecs
import numpy as np
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

DIGITAL_X_RAY = "1.2.840.10008.5.1.4.1.1.1.1"
PLAIN = ExplicitVRLittleEndian
NATIVE = (ExplicitVRLittleEndian, ImplicitVRLittleEndian, ExplicitVRBigEndian)
CODED = (RLELossless, JPEGLSLossless, JPEG2000Lossless, JPEGLosslessSV1)
LOSSLESS = (*NATIVE, *CODED)


def dataset(pixels: NDArray[Any], bits: int = 0, kind: str = "MONOCHROME2", **more: Any) -> Dataset:
    """An uncompressed image and further elements; `bits` are stored, all by default."""
    image = Dataset()
    image.SOPClassUID, image.SOPInstanceUID = DIGITAL_X_RAY, "1.2.3"
    image.Rows, image.Columns = pixels.shape[:2]
    image.SamplesPerPixel = 1 if pixels.ndim == 2 else 3
    image.PhotometricInterpretation = kind
    if pixels.ndim == 3:
        image.PlanarConfiguration = 0
    image.BitsAllocated = 8 * pixels.itemsize
    image.BitsStored = bits or 8 * pixels.itemsize
    image.HighBit = image.BitsStored - 1
    image.PixelRepresentation = int(pixels.dtype.kind == "i")
    for name, value in more.items():
        setattr(image, name, value)
    image.PixelData = pixels.tobytes()
    return image


def item(**elements: Any) -> Dataset:
    """An item of a sequence."""
    found = Dataset()
    for name, value in elements.items():
        setattr(found, name, value)
    return found


def grouped(image: Dataset, shared: dict[str, Any], each: dict[str, Any]) -> Dataset:
    """The same image with functional groups: by the names of their sequences, what is in those."""
    for name, macros in (("Shared", shared), ("PerFrame", each)):
        groups = item(**{macro: [item(**said)] for macro, said in macros.items()})
        setattr(image, f"{name}FunctionalGroupsSequence", [groups])
    return image


def several(
    frames: NDArray[Any],
    bits: int = 0,
    shared: dict[str, Any] | None = None,
    each: Sequence[dict[str, Any]] = (),
    **more: Any,
) -> Dataset:
    """An uncompressed image of several frames, perhaps with functional groups, of each its own."""
    image = dataset(frames[0], bits, **{"NumberOfFrames": len(frames), **more})
    image.PixelData = frames.tobytes()
    if shared is not None:
        grouped(image, shared, {})
        image.PerFrameFunctionalGroupsSequence = [
            item(**{macro: [item(**said)] for macro, said in macros.items()}) for macros in each
        ]
    return image


def table(levels: Any, first: int = 0, bits: int = 16) -> Dataset:
    """An item of a sequence of lookup tables."""
    item = Dataset()
    item.LUTDescriptor = [len(levels), first, bits]
    item.LUTData = np.asarray(levels, "<u2").tobytes()
    item["LUTData"].VR = "OW"
    if first < 0:
        item["LUTDescriptor"].VR = "SS"
    return item


def file(image: Dataset, syntax: Any = PLAIN) -> bytes:
    """The file of a data set."""
    image.file_meta = FileMetaDataset()
    image.file_meta.TransferSyntaxUID = syntax
    image.file_meta.MediaStorageSOPClassUID = image.SOPClassUID
    image.file_meta.MediaStorageSOPInstanceUID = image.SOPInstanceUID
    if syntax == ExplicitVRBigEndian and image.BitsAllocated == 16:
        image.PixelData = np.frombuffer(image.PixelData, "<u2").astype(">u2").tobytes()
    if syntax not in NATIVE:
        count = int(image.get("NumberOfFrames") or 1)
        image.PixelData = encapsulate([coded(image, syntax, at) for at in range(count)])
        image["PixelData"].VR = "OB"
        image["PixelData"].is_undefined_length = True
    stream = io.BytesIO()
    image.save_as(stream, enforce_file_format=True)
    return stream.getvalue()


def coded(image: Dataset, syntax: Any, at: int = 0) -> bytes:
    """The coded frame, of several the one at this place."""
    shape = (image.Rows, image.Columns, 3)[: 2 if image.SamplesPerPixel == 1 else 3]
    sign = "i" if image.PixelRepresentation else "u"
    pixels = np.frombuffer(image.PixelData, f"<{sign}{image.BitsAllocated // 8}")
    pixels = pixels.reshape(-1, *shape)[at]
    bits = image.BitsStored
    if syntax == JPEG2000Lossless:
        options = {"codecformat": "j2k", "reversible": True, "level": 0, "bitspersample": bits}
        return bytes(imagecodecs.jpeg2k_encode(pixels, **options))
    if syntax == JPEGExtended12Bit:
        return bytes(imagecodecs.jpeg8_encode(pixels, level=100, bitspersample=12))
    if syntax == JPEGBaseline8Bit:
        return bytes(imagecodecs.jpeg8_encode(pixels, level=100))
    plain = pixels.view(f"<u{pixels.itemsize}") & ((1 << bits) - 1)
    if syntax == JPEGLosslessSV1 and pixels.ndim == 3:
        options = {"lossless": True, "colorspace": "RGB", "outcolorspace": "RGB"}
        return bytes(imagecodecs.jpeg8_encode(pixels, **options))
    if syntax == JPEGLosslessSV1:
        return bytes(imagecodecs.ljpeg_encode(plain, bitspersample=bits))
    if syntax == JPEGLSLossless:
        return bytes(imagecodecs.jpegls_encode(plain))
    return _runs(plain)


def _runs(pixels: NDArray[Any]) -> bytes:
    """RLE (PS3.5, annex G) of one byte plane after the other, the high one first, by literals."""
    planes = pixels.astype(f">u{pixels.itemsize}").view(np.uint8)
    planes = np.moveaxis(planes.reshape(*pixels.shape[:2], -1), 2, 0)
    segments = []
    for plane in planes:
        body = b"".join(bytes([len(row) - 1]) + row.tobytes() for row in plane)
        segments.append(body + b"\0" * (len(body) % 2))
    offsets, at = [], 64
    for segment in segments:
        offsets.append(at)
        at += len(segment)
    header = np.array([len(segments), *offsets, *[0] * (15 - len(offsets))], "<u4")
    return header.tobytes() + b"".join(segments)
