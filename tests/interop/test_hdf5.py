"""h5py reads arrays, as their users do; those for Caffe by the rules of its HDF5Data.

Encoded images are in tests/sinks/test_hdf5.py and tests/interop/test_verify.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.interop.conftest import Built

SPLITS = ("train", "validation")
SHARDS = {"train": 3, "validation": 2}
PIXELS = ("--resize", "32x24")
INT_MAX = 2**31 - 1


def shard_files(built: Built, split: str) -> list[Path]:
    found = sorted((built.out / split).glob("*.h5"))
    assert len(found) == SHARDS[split]
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_arrays(made: Callable[..., Built], split: str) -> None:
    built = made("hdf5-arrays", *PIXELS)
    examples = list(built.records(split))
    expected = np.stack(
        [np.frombuffer(example.encoded, np.uint8).reshape(24, 32, 3) for example in examples]
    )

    def check(file: Any, start: int, stop: int) -> None:
        assert (file["images"].dtype, file["labels"].dtype) == (np.uint8, np.int64)
        assert np.array_equal(file["images"][:], expected[start:stop])
        for number, label in enumerate(file["labels"][:], start=start):
            key = file["keys"][number - start].decode()
            assert key == examples[number].key
            assert label == built.raw[split][key.split("/")[-1]].label - 1

    start = 0
    for path in shard_files(built, split):
        with h5py.File(path, "r") as file:
            check(file, start, start + len(file["images"]))
            start += len(file["images"])


@pytest.mark.parametrize("split", SPLITS)
def test_caffes_hdf5data_layer_could_load_it(
    made: Callable[..., Built], monkeypatch: pytest.MonkeyPatch, split: str
) -> None:
    """The rules of caffe/src/caffe/layers/hdf5_data_layer.cpp and util/hdf5.cpp."""
    built = made("hdf5-caffe", *PIXELS)
    monkeypatch.chdir(built.out)  # the layer takes paths relative to where Caffe runs
    sources = Path(f"{split}.txt").read_text("ascii").split()
    assert [Path(source).resolve() for source in sources] == shard_files(built, split)
    # HDF5 opens no file twice at a time in two ways of locking, and h5py's is not ours.
    examples = list(built.records(split))
    number = 0
    for source in sources:
        with h5py.File(source, "r") as file:
            tops = [file["data"], file["label"]]
            for top in tops:
                assert isinstance(top, h5py.Dataset)
                assert top.dtype == np.dtype("<f4")  # H5T_FLOAT, of which there is no variable size
                assert 1 <= top.ndim <= 4
                assert top.size <= INT_MAX
            assert len({len(top) for top in tops}) == 1
            assert tops[0].shape[1:] == (3, 24, 32)
            for planes, label in zip(*(top[:] for top in tops), strict=True):
                example = examples[number]
                pixels = np.frombuffer(example.encoded, np.uint8).reshape(24, 32, 3)
                assert np.array_equal(planes, pixels[:, :, ::-1].transpose(2, 0, 1))
                assert label == built.raw[split][example.filename].label - 1
                number += 1
    assert number == len(built.raw[split])
