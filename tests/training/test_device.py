"""What is decoded and scaled on a device, on PyTorch's CPU device: cut, scaled, mirrored, in place.

nvJPEG itself needs a GPU, `test_batches_of_a_gpu`; elsewhere libjpeg-turbo decodes in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
import simplejpeg  # type: ignore[import-untyped]

import dataprep
from dataprep.errors import UsageError
from dataprep.images.crops import Crop, place
from dataprep.training import loader
from dataprep.training.device import DeviceDecoder, by_nvjpeg, is_taken
from tests.conftest import Made
from tests.images.files import JPEGS, PHOTO, encoded

torch = pytest.importorskip("torch", reason="needs torch")

SIDE = 48
TURNED = b"Exif\0\0MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"  # orientation 6
GPU = torch.cuda.is_available()


def pictures(count: int, channels: int) -> list[bytes]:
    """Of several sizes, of which no side is cut to less than a half: libjpeg would halve it."""
    draw = np.random.default_rng(3)
    found = []
    for _ in range(count):
        height, width = draw.integers(SIDE // 2, 2 * SIDE, 2)
        pixels = draw.integers(0, 256, (height, width, channels), np.uint8)
        space = "RGB" if channels == 3 else "GRAY"
        found.append(simplejpeg.encode_jpeg(pixels, 90, space))
    return found


def decoder(crop: Crop, channels: int) -> DeviceDecoder:
    def decode(stored: Sequence[bytes]) -> list[Any]:
        space = "RGB" if channels == 3 else "GRAY"
        return [
            torch.from_numpy(simplejpeg.decode_jpeg(it, space)).permute(2, 0, 1) for it in stored
        ]

    return DeviceDecoder(torch.device("cpu"), decode, crop, channels)


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("kind", ["random", "center", None])
def test_it_shows_what_the_cpu_shows(
    kind: Literal["random", "center"] | None, channels: int
) -> None:
    crop = Crop((SIDE, SIDE), kind, flip=True)
    stored = pictures(70, channels)
    drawn = np.random.default_rng(4).random((len(stored), crop.draws)).tolist()
    wanted = np.zeros((len(stored), SIDE, SIDE, channels), np.uint8)
    for data, numbers, target in zip(stored, drawn, wanted, strict=True):
        place(data, crop, numbers, target if channels == 3 else target[:, :, 0])
    found = decoder(crop, channels).make(
        stored, drawn, torch.zeros(wanted.shape).byte().permute(0, 3, 1, 2)
    )()
    assert found.shape == (len(stored), channels, SIDE, SIDE)
    assert found.is_contiguous(memory_format=torch.channels_last)
    # The CPU rounds between columns and rows.
    differing = np.abs(found.permute(0, 2, 3, 1).numpy().astype(int) - wanted)
    assert differing.max() <= 1
    assert differing.mean() < 0.4


def test_what_was_decoded_here_stays_in_its_place() -> None:
    crop = Crop((SIDE, SIDE), "center")
    stored: list[bytes | None] = [*pictures(5, 3)]
    stored[1] = stored[3] = None
    decoded = torch.zeros((5, SIDE, SIDE, 3)).byte().permute(0, 3, 1, 2)
    decoded[1], decoded[3] = 11, 33
    found = decoder(crop, 3).make(stored, [[]] * 5, decoded)()
    assert found[1].unique().tolist() == [11]
    assert found[3].unique().tolist() == [33]
    assert all(len(found[at].unique()) > 50 for at in (0, 2, 4))


@pytest.mark.parametrize(
    ("data", "channels", "taken"),
    [
        (JPEGS["baseline"], 3, True),
        (JPEGS["progressive"], 3, True),
        (JPEGS["grey"], 3, True),
        (JPEGS["grey"], 1, True),
        (JPEGS["baseline"], 1, False),
        (JPEGS["RGB colour space"], 3, False),
        (encoded(PHOTO.convert("CMYK")), 3, False),
        (
            encoded(PHOTO, exif=b"Exif\0\0MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"),
            3,
            False,
        ),
        (encoded(PHOTO, "PNG"), 3, False),
        (JPEGS["baseline"][:100], 3, False),
    ],
)
def test_what_nvjpeg_takes(data: bytes, channels: int, taken: bool) -> None:
    assert is_taken(data, channels) is taken


@pytest.mark.skipif(GPU, reason="there is CUDA")
def test_without_a_gpu_it_is_said() -> None:
    with pytest.raises((UsageError, ImportError), match=r"CUDA|torchvision"):
        by_nvjpeg(3)


@pytest.mark.skipif(not GPU, reason="needs a GPU")
def test_batches_of_a_gpu(tiny: Made) -> None:
    pytest.importorskip("torchvision")
    records = dataprep.open(tiny.out, "train")
    options: dict[str, Any] = {"size": 12, "crop": "random", "flip": True, "seed": 3}
    for here, there in zip(
        records.loader(4, framework="torch", **options),
        records.loader(4, decode="cuda", **options),
        strict=True,
    ):
        assert there[0].is_cuda
        assert there[1].tolist() == here[1].tolist()
        assert here.position.tolist() == there.position.tolist()
        assert (here[0].int() - there[0].cpu().int()).abs().float().mean() < 2


def test_batches_come_as_from_the_cpu(tiny: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same examples and parts, resumed; what cannot be decoded names its record."""
    refused = [False]

    def decode(stored: Sequence[bytes]) -> list[Any]:
        if refused[0]:
            raise RuntimeError("nvJPEG: of one of these")
        return [
            torch.from_numpy(simplejpeg.decode_jpeg(it, "RGB")).permute(2, 0, 1) for it in stored
        ]

    monkeypatch.setattr(loader, "by_nvjpeg", lambda _: (torch.device("cpu"), decode))
    records = dataprep.open(tiny.out, "train")
    options: dict[str, Any] = {"size": 12, "crop": "random", "flip": True, "seed": 3}
    here = list(records.loader(5, framework="torch", **options))
    there = records.loader(5, decode="cuda", **options)
    for count, (one, other) in enumerate(zip(here, there, strict=True)):
        assert one[1].tolist() == other[1].tolist()
        assert one.position.tolist() == other.position.tolist()
        assert (one[0].int() - other[0].int()).abs().max() <= 1
        if count == 2:
            state = there.state_dict(other)
    resumed = records.loader(5, decode="cuda", **options)
    resumed.load_state_dict(state)
    assert [it.position.tolist() for it in resumed] == [it.position.tolist() for it in here[3:]]
    refused[0] = True  # the CPU decodes, then, and would find what is damaged
    again = list(records.loader(5, decode="cuda", **options))
    assert all(torch.equal(one[0], other[0]) for one, other in zip(here, again, strict=True))


def test_it_is_for_pytorch_in_this_process(tiny: Made) -> None:
    records = dataprep.open(tiny.out, "train")
    with pytest.raises(UsageError, match="framework='torch'"):
        records.loader(2, framework="numpy", decode="cuda")
    with pytest.raises(UsageError, match="none of cpu, cuda"):
        records.loader(2, framework="numpy", decode="gpu")  # type: ignore[arg-type]
