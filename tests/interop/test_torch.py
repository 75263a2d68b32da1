"""PyTorch's DataLoader over ``dataprep.open``, whatever the format and however workers start."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from dataprep.sinks.example import Example
from tests.interop.conftest import Built

# TensorFlow and the like leave threads behind, about which newer Pythons warn.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

SINKS = {
    "hdf5": (),
    "lmdb": ("--num_shards", "train=3,validation=2"),
    "lmdb-torch": ("--num_shards", "1"),
    "parquet": (),
    "recordio": ("--num_shards", "1"),
    "tfrecord": (),
    "webdataset": (),
}


@pytest.fixture(scope="module")
def torch() -> ModuleType:
    return pytest.importorskip("torch", reason="needs PyTorch: pip install torch")


def as_tuples(examples: list[Example]) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """What a batch is made of; at module level, where spawned workers find it."""
    return [(example.key, example.encoded, example.labels) for example in examples]


def load(torch: Any, records: Any, **options: Any) -> list[Any]:
    loader = torch.utils.data.DataLoader(
        records, batch_size=4, collate_fn=as_tuples, num_workers=2, **options
    )
    return [image for batch in loader for image in batch]


def expected(built: Built) -> list[Any]:
    return [(image.key, image.encoded, (image.label,)) for image in built.expected("train")]


@pytest.mark.parametrize("sink", SINKS)
def test_forked_workers_give_every_image_once(
    torch: Any, made: Callable[..., Built], sink: str
) -> None:
    built = made(sink, *SINKS[sink])
    with built.records("train") as records:
        first = records[0]  # what this process has open must not reach its children
        assert load(torch, records, multiprocessing_context="fork") == expected(built)
        assert records[0] == first
