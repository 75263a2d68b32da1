"""A data set as PyTorch's: pairs of a picture and a label, in workers and in batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.formats.example import Example
from tests.conftest import Made, Shelf
from tests.training.conftest import READABLE


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


def test_bytes_and_fields_are_what_is_asked_for(radiographs: Made) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    data = pytest.importorskip("torch.utils.data")
    records = dataprep.open(radiographs.out)
    dataset = records.to_torch(decode=False, fields=["key", "view", "patient_id", "position"])
    sampler = records.sampler(4)
    loader = data.DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate_fn)
    for encoded, targets, fields in loader:
        numbers = [records.number_of(key) for key in fields["key"]]
        assert encoded == records.encoded(numbers)
        assert targets.shape == (4, 14)
        assert fields["view"] == [records[number].fields.get("view") for number in numbers]
        assert fields["position"].shape == (4, 2)
        state = sampler.state_dict(after=(encoded, targets, fields))
        assert (state["epoch"], state["consumed"]) > (0, 0)
    with pytest.raises(dataprep.errors.UsageError, match="there is no field 'age_'; there are: "):
        records.to_torch(fields=["age_"])
    with pytest.raises(dataprep.errors.UsageError, match="decode=False gives bytes"):
        records.to_torch(lambda picture: picture, decode=False)
    with pytest.raises(dataprep.errors.UsageError, match="needs a batch_sampler of"):
        dataset[0]
    assert torch is not None


def test_only_what_is_asked_for_is_read(tiny: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch")
    records = dataprep.open(tiny.out)
    monkeypatch.setattr(type(records), "__getitems__", None)
    image, label = records.to_torch()[3]
    assert image.shape == (3, 16, 16)
    assert label == records.labels[3]


def test_its_batches_are_those_of_the_default_but_copied_once(photos: Made) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    data = pytest.importorskip("torch.utils.data")
    dataset = dataprep.open(photos.out).to_torch(
        lambda picture: torch.from_numpy(np.array(picture.resize((20, 30)))).permute(2, 0, 1),
        fields="key",
    )
    samples = dataset.__getitems__([3, 1, 2])
    ours, theirs = dataset.collate_fn(samples), data.default_collate(samples)
    assert torch.equal(ours[0], theirs[0])
    assert ours[0].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(ours[1], theirs[1])
    assert ours[2] == theirs[2]
    plain = dataset.collate_fn(
        [(torch.ones(3, 2, 2), torch.ones(4)), (torch.ones(3, 2, 2),) * 2][:1]
    )
    assert plain[0].shape == (1, 3, 2, 2)


def test_a_transform_gets_what_the_file_says_but_no_orientation(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs torch")
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "raw" / "cat").mkdir(parents=True)
    picture = Image.new("RGB", (40, 20), (200, 0, 0))
    for number in range(2):
        path = tmp_path / "raw" / "cat" / f"{number}.jpg"
        picture.save(path, exif=exif.tobytes(), dpi=(96, 96), icc_profile=b"a profile")
    dataprep.prepare("folder", raw=tmp_path / "raw", out=tmp_path / "out", workers=1)
    shown, _ = dataprep.open(tmp_path / "out").to_torch(lambda picture: picture)[0]
    assert shown.size == (20, 40)
    assert shown.info["icc_profile"] == b"a profile"
    assert "exif" not in shown.info
    assert shown.getexif().get(0x0112) is None
