"""The ``lmdb`` library and caffe.proto's Datum read the databases, as Caffe would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from dataprep_schemas.caffe_pb2 import Datum
from tests.interop.conftest import Built

SPLITS = ("train", "validation")


def entries(path: Path) -> list[tuple[bytes, bytes]]:
    """Every key and value in the cursor's order, as Caffe walks them."""
    environment = lmdb.open(str(path), readonly=True, lock=False)
    with environment, environment.begin() as transaction:
        return [(bytes(key), bytes(value)) for key, value in transaction.cursor()]


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
