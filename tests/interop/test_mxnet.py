"""MXNet 1.9 reads the .rec files through their index and without, and decodes every image.

Set DATAPREP_MXNET_PYTHON to an interpreter that can ``import mxnet``: it needs an environment of
its own, with NumPy before 1.24.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dataprep.formats import DatasetInfo
from dataprep.formats.recordio import RecordIOSink
from tests.formats.examples import example
from tests.interop.conftest import Built, decode, run_mxnet

MAGIC = bytes.fromhex("0a23d7ce")  # of a record, which must not stand aligned inside one
CROP = 8


@dataclass(frozen=True)
class Found:
    """What MXNet read, and what it should have."""

    index: Path
    read: dict[str, Any]
    images: list[bytes]
    labels: list[list[float]]


def photograph(number: int, comment: bytes = b"") -> bytes:
    """A small JPEG; grey if its number can be divided by 3."""
    rows, columns = np.mgrid[0 : 24 + number, 0:40]
    pixels = np.stack([rows * 7 % 256, columns * 5 % 256, rows * 0 + number * 20], axis=-1)
    image = Image.fromarray(pixels.astype(np.uint8))
    stream = io.BytesIO()
    image.convert("L" if number % 3 == 0 else "RGB").save(stream, "JPEG", comment=comment)
    return stream.getvalue()


def with_aligned_magic(number: int, before: int) -> bytes:
    """A JPEG whose comment has the magic twice, once more apart, aligned behind so many bytes."""
    for blank in range(4):
        data = photograph(number, b"x" * blank + MAGIC + MAGIC + b"1234" + MAGIC)
        if (before + data.index(MAGIC)) % 4 == 0:
            return data
    raise AssertionError


def write(path: Path, info: DatasetInfo) -> Found:
    """A shard of 9 images through the sink, among them three that hold the magic."""
    paths = [path / "train.rec", path / "train.idx", path / "train.lst"]
    writer = RecordIOSink().open(paths, info)
    images, labels = [], []
    for number in range(9):
        tricky = number in (0, 4, 8)
        encoded = with_aligned_magic(number, 24) if tricky else photograph(number)
        writer.write(example(number, info, encoded=encoded))
        images.append(encoded)
        labels.append([float(number)])
    writer.close()
    # The magic in the images is not in the file, but where it was split.
    stored = paths[0].read_bytes()
    assert any(image not in stored for image in images)
    return Found(paths[1], run_mxnet(paths[0], 1, CROP), images, labels)


@pytest.fixture(scope="module", params=["train", "magic"])
def found(
    request: pytest.FixtureRequest, made: Callable[..., Built], tmp_path_factory: Any
) -> Found:
    """What MXNet finds in a set, read once."""
    if request.param == "magic":
        classes = tuple((f"c{number}", f"class {number}") for number in range(9))
        return write(tmp_path_factory.mktemp("mxnet"), DatasetInfo(classes=classes))
    built = made("recordio", "--num_shards", "1")
    expected = built.expected(request.param)
    return Found(
        built.out / f"{request.param}.idx",
        run_mxnet(built.out / f"{request.param}.rec", 1, CROP),
        [image.encoded for image in expected],
        [[float(image.label)] for image in expected],
    )


def test_mx_recordio_reads_every_record_by_its_key(found: Found) -> None:
    read = found.read["python"]
    assert [record["sha256"] for record in read] == [
        hashlib.sha256(image).hexdigest() for image in found.images
    ]
    assert [record["labels"] for record in read] == found.labels
    assert [record["key"] for record in read] == [*range(len(found.images))]
    assert [record["id"] for record in read] == [[number, 0] for number in range(len(read))]


def middle(encoded: bytes) -> Any:
    """The part of an image that ``ImageRecordIter`` crops, as Pillow decodes it."""
    pixels = decode(encoded).astype(int)
    top, left = ((side - CROP) // 2 for side in pixels.shape[:2])
    return pixels[top : top + CROP, left : left + CROP]


@pytest.mark.parametrize(
    "ways",
    [
        ["with-index"],
        ["without-index"],
        ["shuffled"],
        ["part-0", "part-1"],
        ["part-0-without-index", "part-1-without-index"],
    ],
    ids=lambda ways: "+".join(ways),
)
def test_image_record_iter_decodes_every_image_once(found: Found, ways: list[str]) -> None:
    middles = [middle(image) for image in found.images]
    numbers = []
    for record in (record for way in ways for record in found.read["iterators"][way]):
        # The iterator does not say which record it was: it is the one that looks like it.
        pixels = np.array(record["pixels"])
        differences = [np.abs(pixels - expected).mean() for expected in middles]
        numbers.append(int(np.argmin(differences)))
        # Decoders may round the inverse DCT and the chroma differently.
        assert differences[numbers[-1]] < 3
        assert record["labels"] == found.labels[numbers[-1]]
    assert sorted(numbers) == [*range(len(middles))]
    if len(ways) == 1:
        assert (numbers == sorted(numbers)) == (ways != ["shuffled"])


def test_mxnet_finds_the_records_where_our_index_says(found: Found) -> None:
    lines = found.index.read_text("ascii").splitlines()
    assert found.read["offsets"] == [int(line.split("\t")[1]) for line in lines]
