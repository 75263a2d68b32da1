"""The ``webdataset`` library reads the archives, alone and split among PyTorch's workers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.interop.conftest import Built, decode

SPLITS = ("train", "validation")


@pytest.fixture(scope="module")
def webdataset() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies, at import only
        return pytest.importorskip("webdataset", reason="needs webdataset: make readers")


def urls(built: Built, split: str) -> str:
    """As its users write them, with braces."""
    shards = {"train": 3, "validation": 2}[split]
    return f"{built.out}/{split}/{split}-{{00000..{shards - 1:05d}}}-of-{shards:05d}.tar"


# It leaves the archives to the garbage collector.
unclosed = pytest.mark.filterwarnings(
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:.*multi-threaded.*fork:DeprecationWarning",  # of newer Pythons, about workers
)


@unclosed
@pytest.mark.parametrize("split", SPLITS)
def test_every_image_in_order_as_stored(
    webdataset: Any, made: Callable[..., Built], split: str
) -> None:
    built = made("webdataset")
    dataset = webdataset.WebDataset(urls(built, split), shardshuffle=False)
    found = [
        (sample["jpg"], int(sample["cls"]), json.loads(sample["json"])["key"]) for sample in dataset
    ]
    assert found == [(image.encoded, image.label, image.key) for image in built.expected(split)]
    decoded = dataset.decode("pil").to_tuple("jpg", "json")
    for (picture, fields), image in zip(decoded, built.expected(split), strict=True):
        assert np.array_equal(np.asarray(picture.convert("RGB")), decode(image.encoded))
        raw = built.raw[split][image.name]
        assert (fields["labels"], fields["synset"]) == ([image.label], raw.synset)
        assert (fields["height"], fields["width"]) == raw.pixels.shape[:2]


@unclosed
def test_two_workers_share_the_images(webdataset: Any, made: Callable[..., Built]) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    built = made("webdataset")
    dataset = webdataset.WebDataset(urls(built, "train"), shardshuffle=False)
    loader = torch.utils.data.DataLoader(
        dataset.to_tuple("jpg", "cls", "__key__"), batch_size=None, num_workers=2
    )
    found = sorted((encoded, int(label)) for encoded, label, _ in loader)
    assert found == sorted((image.encoded, image.label) for image in built.expected("train"))
