"""Batches decoded by the GPU that trains on them, by nvJPEG as torchvision has it.

Threads read, and the CPU decodes what nvJPEG does not take: PNG, pixels, CMYK, arithmetic codes,
and pictures that are not stored upright. One thread more hands the rest of a batch to the device,
which decodes all of each picture and scales its part as the CPU does, antialiased and bilinear, by
two products of matrices. Pixels are not the CPU's to the bit: nvJPEG has an inverse DCT and
upsampling of its own, and of a part of twice the size or more the CPU decodes a half, a quarter or
an eighth.

https://docs.nvidia.com/cuda/nvjpeg/index.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import simplejpeg  # type: ignore[import-untyped]  # it ships stubs, but no py.typed

from dataprep.errors import ImageError, UsageError
from dataprep.images import jpeg
from dataprep.images.crops import Crop, Part
from dataprep.images.decode import orientation_of
from dataprep.training.frameworks import required

_SPACES: Final = {3: ("YCbCr", "Gray"), 1: ("Gray",)}
_SUBSAMPLINGS: Final = frozenset({"444", "422", "420", "440", "411", "Gray"})
_HUFFMAN: Final = frozenset({0xC0, 0xC1, 0xC2})  # start of a frame, sequential or progressive
_TOGETHER: Final = 32  # pictures that are scaled at once: they are padded to the largest

Decode = Callable[[Sequence[bytes]], Sequence[Any]]
"""Decodes JPEGs to uint8 tensors on the device, (channels, height, width)."""


def by_nvjpeg(channels: int) -> tuple[Any, Decode]:
    """The current CUDA device, and what decodes JPEGs there.

    Raises:
        ImportError: PyTorch or torchvision is not installed.
        UsageError: there is no CUDA.
    """
    torch, io = required("torch"), required("torchvision.io")
    if not torch.cuda.is_available():
        raise UsageError("decode='cuda': PyTorch finds no CUDA here")
    device = torch.device("cuda", torch.cuda.current_device())
    mode = io.ImageReadMode.RGB if channels == 3 else io.ImageReadMode.GRAY

    def decode(stored: Sequence[bytes]) -> Sequence[Any]:
        tensors = [torch.frombuffer(bytearray(it), dtype=torch.uint8) for it in stored]
        return list(io.decode_jpeg(tensors, mode=mode, device=device))

    return device, decode


def is_taken(data: bytes, channels: int) -> bool:
    """Whether nvJPEG decodes a stored image to what is shown, in so many channels."""
    if not data.startswith(jpeg.MAGIC):
        return False
    try:
        _, _, space, subsampling = simplejpeg.decode_jpeg_header(data)
        codes = {marker for marker, _, _ in jpeg.segments(data)}
    except (ValueError, ImageError):
        return False
    fits = space in _SPACES[channels] and subsampling in _SUBSAMPLINGS
    return fits and not _HUFFMAN.isdisjoint(codes) and orientation_of(data) == 1


class DeviceRefusal(Exception):  # noqa: N818  # it is asked again without the device
    """The device decodes not all of a batch."""


class DeviceDecoder:
    """Makes batches on one device, on a stream of its own.

    Args:
        device: PyTorch's.
        decode: what decodes there.
        crop: what of each picture is shown.
        channels: 3, or 1 for grey.
    """

    def __init__(self, device: Any, decode: Decode, crop: Crop, channels: int) -> None:
        self._torch = required("torch")
        self._device, self._decode, self._crop, self._channels = device, decode, crop, channels
        self._stream = self._torch.cuda.Stream(device) if device.type == "cuda" else None

    def make(
        self,
        stored: Sequence[bytes | None],
        drawn: Sequence[Sequence[float]],
        decoded: Any,
    ) -> Callable[[], Any]:
        """Make a batch, in the thread that asks.

        Args:
            stored: an image that the device decodes; None where it is decoded already.
            drawn: `Crop.draws` numbers for each, from 0 to below 1.
            decoded: uint8 tensor on the host, (batch, channels, height, width), of those.

        Returns:
            What gives the batch to the stream of the thread that asks: uint8, (batch, channels,
            height, width), strides those of channels_last.

        Raises:
            DeviceRefusal: an image cannot be decoded, or must not be of its size.
        """
        torch = self._torch
        cuda = self._stream is not None
        with torch.cuda.stream(self._stream) if cuda else nullcontext(), torch.no_grad():
            images = decoded.to(self._device, non_blocking=True, copy=True)
            there = [at for at, data in enumerate(stored) if data is not None]
            try:
                asked = [data for data in stored if data is not None]
                pictures = self._decode(asked) if asked else []
                parts = [
                    self._crop.part(picture.shape[1], picture.shape[2], drawn[at])
                    for at, picture in zip(there, pictures, strict=True)
                ]
            except torch.OutOfMemoryError:
                raise
            except (RuntimeError, ImageError) as error:  # torchvision's is a RuntimeError
                raise DeviceRefusal(str(error)) from error
            # Those of about one size together.
            order = sorted(range(len(there)), key=lambda it: parts[it][2] * parts[it][3])
            for first in range(0, len(order), _TOGETHER):
                chosen = order[first : first + _TOGETHER]
                mirrored = [self._crop.flip and drawn[there[it]][-1] < 0.5 for it in chosen]
                some, of_them = [pictures[it] for it in chosen], [parts[it] for it in chosen]
                places = torch.tensor([there[it] for it in chosen], device=self._device)
                images[places] = self._scaled(some, of_them, mirrored)
            ready = self._stream.record_event() if self._stream is not None else None

        def given() -> Any:
            if ready is not None:
                current = torch.cuda.current_stream(self._device)
                current.wait_event(ready)
                images.record_stream(current)
            return images

        return given

    def put(self, labels: Any) -> Any:
        """Labels beside the images."""
        return labels.to(self._device, non_blocking=True)

    def _scaled(self, pictures: Sequence[Any], parts: Sequence[Part], mirrored: list[bool]) -> Any:
        """Parts of pictures, (number, channels, height, width)."""
        torch, (height, width) = self._torch, self._crop.size
        boxes = []
        for picture, (left, top, across, down) in zip(pictures, parts, strict=True):
            high, wide = picture.shape[1:]
            x0, x1 = _reach(left, across, width, wide)
            y0, y1 = _reach(top, down, height, high)
            boxes.append((x0, y0, x1, y1))
        cut = [it[:, y0:y1, x0:x1] for it, (x0, y0, x1, y1) in zip(pictures, boxes, strict=True)]
        highest, widest = (max(it.shape[side] for it in cut) for side in (1, 2))
        shape = (len(cut), self._channels, highest, widest)
        padded = torch.zeros(shape, dtype=torch.uint8, device=self._device)
        places = [padded[at, :, : it.shape[1], : it.shape[2]] for at, it in enumerate(cut)]
        torch._foreach_copy_(places, cut)
        across_of = [
            (left - x0, across, x1 - x0)
            for (left, _, across, _), (x0, _, x1, _) in zip(parts, boxes, strict=True)
        ]
        down_of = [
            (top - y0, down, y1 - y0)
            for (_, top, _, down), (_, y0, _, y1) in zip(parts, boxes, strict=True)
        ]
        columns = self._weights(across_of, width, widest, mirrored)
        rows = self._weights(down_of, height, highest, [False] * len(cut))
        found = rows[:, None] @ padded.to(torch.float32) @ columns.transpose(1, 2)[:, None]
        return found.round_().clamp_(0, 255).to(torch.uint8)

    def _weights(
        self,
        parts: Sequence[tuple[float, float, int]],
        size: int,
        padded: int,
        mirrored: Sequence[bool],
    ) -> Any:
        """How much of each stored pixel a shown one has: (number, size, padded).

        Args:
            parts: begin and length, in pixels, of what is shown, and of how many there are.
        """
        torch, device = self._torch, self._device
        numbers = torch.tensor(parts, dtype=torch.float64, device=device)
        begin, length, count = numbers.T[..., None]
        at = torch.arange(size, dtype=torch.float64, device=device) + 0.5
        at = torch.where(torch.tensor(mirrored, device=device)[:, None], size - at, at)
        scale = length / size
        center, support = (begin + at * scale).float(), scale.clamp(min=1).float()
        pixel = torch.arange(padded, dtype=torch.float32, device=device) + 0.5
        weights = 1 - (pixel - center[..., None]).abs() / support[..., None]
        weights = weights.clamp(min=0) * (pixel < count[..., None])
        return weights / weights.sum(-1, keepdim=True)


def _reach(begin: float, length: float, size: int, limit: int) -> tuple[int, int]:
    """The stored pixels that are needed for what is shown, along one side."""
    beyond = math.ceil(max(length / size, 1) / 2) + 1
    return max(math.floor(begin) - beyond, 0), min(math.ceil(begin + length) + beyond, limit)
