"""The ``lmdb`` library and caffe.proto's Datum read the databases, as Caffe would.

folder2lmdb's reader is in tests/sinks/test_lmdb_torch.py, and reads in test_verify.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest
from PIL import Image

from dataprep_schemas.caffe_pb2 import Datum
from tests.interop.conftest import Built, RawImage

SPLITS = ("train", "validation")
WIDTH, HEIGHT = 32, 24
PIXELS = ("--resize", f"{WIDTH}x{HEIGHT}")
RAW = ("--datum", "raw", *PIXELS, "--num_shards", "1")


def entries(path: Path) -> list[tuple[bytes, bytes]]:
    """Every key and value in the cursor's order, as Caffe walks them."""
    environment = lmdb.open(str(path), readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        return [(bytes(key), bytes(value)) for key, value in transaction.cursor()]


def rgb(datum: Datum) -> Any:
    """The pixels, (height, width, RGB); Caffe takes planes of blue, green and red."""
    planes = np.frombuffer(datum.data, np.uint8)
    planes = planes.reshape(datum.channels, datum.height, datum.width)
    return planes[::-1].transpose(1, 2, 0)


def shrunk(image: RawImage) -> Any:
    """A raw image at the databases' size, by Pillow."""
    whole = Image.fromarray(image.pixels)
    return np.asarray(whole.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)).astype(int)


@pytest.mark.parametrize("split", SPLITS)
def test_caffe_finds_every_image_under_the_key_of_convert_imageset(
    made: Callable[..., Built], split: str
) -> None:
    built = made("lmdb", "--num_shards", "1")
    found = entries(built.out / f"{split}_lmdb")
    expected = built.expected(split)
    assert [key.decode() for key, _ in found] == [
        f"{number:08d}_{image.key}" for number, image in enumerate(expected)
    ]
    assert [Datum.FromString(value) for _, value in found] == [
        Datum(data=image.encoded, label=image.label, encoded=True) for image in expected
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_pixels_are_planes_of_blue_green_and_red(made: Callable[..., Built], split: str) -> None:
    built = made("lmdb", *RAW)
    found = entries(built.out / f"{split}_lmdb")
    assert len(found) == len(built.raw[split])
    coloured = 0
    for key, value in found:
        datum = Datum.FromString(value)
        image = built.raw[split][key.decode().split("_", 1)[1].split("/")[-1]]
        assert (datum.channels, datum.height, datum.width) == (3, HEIGHT, WIDTH)
        assert not datum.encoded
        assert datum.label == image.label - 1
        expected, pixels = shrunk(image), rgb(datum)
        # JPEGs may be decoded at a fraction of their size.
        difference = np.abs(pixels - expected).mean()
        assert difference < 4
        coloured += difference < np.abs(pixels - expected[:, :, ::-1]).mean() / 3
    assert coloured >= len(found) / 2
