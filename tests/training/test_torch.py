"""A data set as PyTorch's: pairs of a picture and a label, in workers and in batches."""

from __future__ import annotations

import numpy as np
import pytest

import dataprep
from dataprep.sinks.example import Example
from tests.conftest import Made, Shelf
from tests.sealed.conftest import READABLE


def as_tuples(examples: list[Example]) -> list[tuple[str, bytes, tuple[int, ...]]]:
    """What a batch is made of; at module level, where spawned workers find it."""
    return [(example.key, example.encoded, example.labels) for example in examples]


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "start"), [*((name, "fork") for name in READABLE), ("lmdb", "spawn")]
)
def test_workers_of_a_data_loader_open_the_set_for_themselves(
    shelf: Shelf, name: str, start: str
) -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    records = dataprep.open(shelf(name).out)
    first = records[0]  # open here, before the workers are made
    options = {"batch_size": 5, "num_workers": 2, "multiprocessing_context": start}
    batches = data.DataLoader(records, collate_fn=as_tuples, **options)
    assert [image for batch in batches for image in batch] == as_tuples(list(records))
    assert records[0] == first
    dataset = records.to_torch()
    assert isinstance(dataset, data.Dataset)
    assert len(dataset) == 24
    assert dataset.classes[dataset[0][1]] == first.class_name
    loader = data.DataLoader(dataset, **options)
    found = [(tuple(images.shape[1:]), label) for images, labels in loader for label in labels]
    assert [int(label) for _, label in found] == records.labels.tolist()
    assert {shape for shape, _ in found} == {(3, 16, 16)}
    half = records.part(1, 2).to_torch(transform=lambda picture: picture.size)
    assert half[0] == ((16, 16), int(records.labels[12]))


def test_many_labels_are_a_tensor_of_zeros_and_ones(radiographs: Made) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    with dataprep.open(radiographs.out) as records:
        dataset = records.to_torch()
        image, target = dataset[0]
        assert (image.dtype, image.shape[0], target.dtype) == (torch.uint8, 1, torch.float32)
        assert target.nonzero().ravel().tolist() == list(records[0].labels)
        assert target.shape == (14,)


def test_a_transform_gets_a_picture_and_a_batch_is_what_single_ones_are(tiny: Made) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    records = dataprep.open(tiny.out)
    plain, shown = records.to_torch(), records.to_torch(transform=lambda picture: picture)
    for number, (picture, label) in zip((5, 1, 5), shown.__getitems__([5, 1, 5]), strict=True):
        assert picture.tobytes() == records[number].image().tobytes()
        pixels, same = plain[number]
        expected = np.asarray(records[number].image()).transpose(2, 0, 1)
        assert torch.equal(pixels, torch.from_numpy(expected.copy()))
        assert label == same == records.labels[number]
