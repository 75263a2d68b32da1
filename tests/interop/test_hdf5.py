"""h5py reads the three layouts, as their users do; one of them by the rules of Caffe's HDF5Data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def encoded_images(path: Path) -> Iterator[tuple[str, bytes, int]]:
    """Key, image file and label of every image."""
    with h5py.File(path, "r") as file:
        assert file["images"].dtype == np.uint8
        assert file["images"].ndim == 1
        assert file["labels"].dtype == file["offsets"].dtype == np.int64
        offsets = file["offsets"][:]
        for number, label in enumerate(file["labels"][:]):
            encoded = file["images"][offsets[number] : offsets[number + 1]].tobytes()
            yield file["keys"][number].decode(), encoded, int(label)


@pytest.mark.parametrize("split", SPLITS)
def test_encoded_images(made: Callable[..., Built], split: str) -> None:
    built = made("hdf5")
    expected = [(image.key, image.encoded, image.label) for image in built.expected(split)]
    shards = [record for path in shard_files(built, split) for record in encoded_images(path)]
    assert shards == expected


def test_sizes_formats_and_classes_are_beside_the_images(
    made: Callable[..., Built], labels: dict[str, int]
) -> None:
    built = made("hdf5", "--num_shards", "1")
    with h5py.File(built.out / "train.h5", "r") as file:
        synsets = list(file.attrs["classes"])
        assert synsets == sorted(labels, key=lambda synset: labels[synset])
        assert h5py.check_enum_dtype(file["formats"].dtype) == {"JPEG": 0, "PNG": 1}
        columns = zip(file["keys"][:], file["heights"][:], file["widths"][:], strict=True)
        for key, height, width in columns:
            image = built.raw["train"][key.decode().split("/")[-1]]
            assert image.pixels.shape[:2] == (height, width)


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
