"""Batches of decoded images: what `array` gives, in memory that is used again, resumed exactly."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataprep
from dataprep.errors import DatasetError, SinkError, UsageError
from dataprep.training.records import Records
from tests.conftest import FORMATS, Made, Shelf, everyday

AS_FILES = [name for name in FORMATS if name not in ("hdf5-arrays",)]


def batches_of(records: Records, **options: Any) -> list[tuple[Any, Any]]:
    """Copied, since what is let go is used again."""
    loader = records.loader(5, framework="numpy", uneven="repeat", **options)
    return [(batch[0].copy(), batch) for batch in loader]


@pytest.mark.parametrize("name", everyday(["tfrecord", "lmdb-raw", "hdf5-arrays"], [*FORMATS]))
def test_of_every_format_a_batch_is_what_single_examples_are(shelf: Shelf, name: str) -> None:
    if name == "arrayrecord":
        pytest.importorskip("array_record", reason="needs array-record")
    records = dataprep.open(shelf(name).out)
    seen = []
    for images, batch in batches_of(records):
        assert batch[1].tolist() == records.labels[batch.numbers].tolist()
        for number, image in zip(batch.numbers, images, strict=True):
            expected = records[number].array()
            assert (image == expected.reshape(image.shape)).all()
        seen += batch.numbers
    assert sorted(seen) == list(range(len(records)))


def test_threads_and_ranks_change_nothing(photos: Made) -> None:
    records = dataprep.open(photos.out)[:16]
    look = {"size": 40, "crop": "random", "flip": True, "seed": 9}

    def by_position(**options: Any) -> dict[int, bytes]:
        found = {}
        for images, batch in batches_of(records, **look, **options):
            for image, (_, place) in zip(images, batch.position.tolist(), strict=True):
                found[place] = image.tobytes()
        return found

    alone = by_position(threads=1, prefetch=1)
    assert sorted(alone) == list(range(16))
    assert by_position(threads=2, processes=True) == alone
    ranks = [by_position(rank=rank, world_size=3, threads=3) for rank in range(3)]
    together = {place: image for one in ranks for place, image in one.items()}
    assert {place: together[place] for place in alone} == alone


def test_an_epoch_is_gone_on_with_as_if_it_had_not_been_left(photos: Made) -> None:
    records = dataprep.open(photos.out)
    options: dict[str, Any] = {"size": 24, "crop": "random", "flip": True, "framework": "numpy"}
    whole = [batch[0].tobytes() for _ in range(2) for batch in records.loader(4, **options)]
    whole[8:] = []
    loader = records.loader(4, **options)
    begun = iter(loader)
    found = [next(begun)[0].tobytes() for _ in range(3)]
    state = loader.state_dict()
    assert state["consumed"] == 12
    begun.close()  # type: ignore[attr-defined]
    again = records.loader(8, **options)
    again.load_state_dict(state)
    for batch in again:
        half = len(batch[0]) // 2
        found += [batch[0][:half].tobytes(), batch[0][half:].tobytes()]
        assert again.state_dict() == again.state_dict(after=batch)
    assert found == whole[: len(found)]
    assert len(found) >= 7
    assert again.sampler.epoch == 1
    again.set_epoch(3)
    assert next(iter(again)).position[0].tolist() == [3, 0]


def test_augmentation_is_another_in_every_epoch(photos: Made) -> None:
    records = dataprep.open(photos.out)
    loader = records.loader(32, size=24, crop="random", framework="numpy", shuffle="none")
    first, second = (next(iter([batch[0].copy() for batch in loader])) for _ in range(2))
    assert (first != second).reshape(32, -1).any(axis=1).sum() > 25


def memory_of(array: Any) -> int:
    return int(np.asarray(array).__array_interface__["data"][0])


def test_memory_is_used_again_only_when_nobody_has_any_of_it(photos: Made) -> None:
    records = dataprep.open(photos.out)[:12]
    for framework in ("numpy", "torch"):
        if framework == "torch":
            pytest.importorskip("torch", reason="needs torch")
        loader = records.loader(2, size=16, framework=framework, prefetch=1, threads=1)
        kept: list[Any] = []
        for number, (images, _) in enumerate(loader):
            part = images[0][0] if number % 2 else images  # a view of a view
            kept.append((part, part.tolist()))
            del images
        for part, was in kept:
            assert part.tolist() == was
        places = {memory_of(part) for part, _ in kept if part.ndim == 4}
        assert len(places) == len([part for part, _ in kept if part.ndim == 4])
        kept.clear()
        del part
        gc.collect()
        used = set()
        for _ in range(4):
            for images, _ in loader:
                used.add(memory_of(images))
        assert len(used) <= 6 + 3, "one for each batch that was kept, and those on the way"


def test_torch_gets_channels_last_and_labels(photos: Made) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    records = dataprep.open(photos.out)
    images, labels = next(iter(records.loader(4, size=(20, 30))))
    assert (images.shape, images.dtype) == ((4, 3, 20, 30), torch.uint8)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert "uint8 tensors of shape (4, 3, 20, 30), strides torch.channels_last" in repr(
        records.loader(4, size=(20, 30))
    )
    assert labels.dtype == torch.int64
    assert labels.shape == (4,)


def test_radiographs_have_one_channel_and_many_labels(radiographs: Made) -> None:
    records = dataprep.open(radiographs.out)
    loader = records.loader(3, size=32, crop="center", framework="numpy")
    images, labels = next(iter(loader))
    assert images.shape == (3, 32, 32, 1)
    assert labels.shape == (3, 14)


def test_a_transform_takes_the_whole_batch(photos: Made) -> None:
    records = dataprep.open(photos.out)

    def scaled(images: np.ndarray) -> np.ndarray:
        return images.astype(np.float32) / 255

    loader = records.loader(4, size=16, framework="numpy", transform=scaled)
    images, _ = next(iter(loader))
    assert (images.dtype, images.shape) == (np.float32, (4, 16, 16, 3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"crop": "random"}, "crop='random' needs a size"),
        ({"crop": "middle", "size": 8}, "crop='middle' is none of random, center"),
        ({"size": 0}, "size=0: expected 1 or more"),
        ({"size": (1 << 20, 1 << 20)}, "too large"),
        ({"size": "224"}, "size='224': expected 1 or more, a whole number"),
        ({"size": 22.4}, "size=22.4"),
        ({"size": (8, 8, 3)}, r"size=\(8, 8, 3\): expected a side, or \(height, width\)"),
        ({"size": (8, -8)}, "size=-8: expected 1 or more"),
        ({"transform": "flip"}, "transform='flip': expected what can be called"),
        ({"threads": "4"}, "threads='4': expected 1 or more"),
        ({"threads": 0}, "threads=0: expected 1 or more"),
        ({"prefetch": 0}, "prefetch=0"),
        ({"framework": "mxnet"}, "framework='mxnet' is none of torch, numpy, jax"),
        ({"seeds": 1}, "seeds"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    photos: Made, options: dict[str, Any], words: str
) -> None:
    records = dataprep.open(photos.out)
    with pytest.raises((UsageError, TypeError), match=words):
        records.loader(4, **{"framework": "numpy", **options})


def test_a_loader_says_what_it_reads_and_gives(tiny: Made) -> None:
    records = dataprep.open(tiny.out, "validation")
    loader = records.loader(4, size=32, crop="center", framework="numpy", threads=3)
    assert repr(loader) == (
        "<loader of uint8 arrays of shape (4, 32, 32, 3), crop='center', flip=False, 3 threads, "
        f"prefetch=4, by <sampler of 6 of 6 records of validation in {tiny.out}: 2 batches of 4 an "
        'epoch, shuffle="none", uneven="keep", seed 0, rank 0 of 1, epoch 0, 0 samples received>>'
    )
    assert (len(loader), len(loader.dataset), loader.batch_sampler) == (2, 6, loader.sampler)
    json.dumps(loader.state_dict())


def test_held_out_images_come_once_in_order_on_any_number_of_ranks(tiny: Made) -> None:
    records = dataprep.open(tiny.out, "validation")
    for world_size in range(1, 5):
        found = dict[int, Any]()
        for rank in range(world_size):
            there: dict[str, Any] = {"rank": rank, "world_size": world_size, "framework": "numpy"}
            loader = records.loader(2, size=16, crop="center", **there)
            for batch in loader:
                assert len(batch[0]) == len(batch[1]) == len(batch.numbers)
                found |= dict(zip(batch.numbers, batch[0].copy(), strict=True))
        assert sorted(found) == list(range(6))
        (whole,) = records.loader(6, size=16, crop="center", framework="numpy")
        assert all((whole[0][number] == found[number]).all() for number in found)


def test_images_of_several_sizes_need_one(spoilt_sizes: Records) -> None:
    loader = spoilt_sizes.loader(4, framework="numpy", shuffle="none")
    with pytest.raises(
        SinkError, match=r"\.tar: record 2: 17x16 pixels, others have 16x16; give size="
    ) as told:
        list(loader)
    assert "\n" not in str(told.value)


@pytest.fixture(scope="session")
def spoilt_sizes(tmp_path_factory: pytest.TempPathFactory) -> Records:
    from PIL import Image

    path = tmp_path_factory.mktemp("sizes")
    for number, size in enumerate([(16, 16), (16, 16), (17, 16), (16, 16)]):
        (path / "raw" / "cat").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", size, (number, 0, 0)).save(path / "raw" / "cat" / f"{number}.png")
    dataprep.prepare("folder", raw=path / "raw", out=path / "out", sink="webdataset", workers=1)
    return dataprep.open(path / "out")


def test_the_last_batch_may_be_of_any_size(photos: Made) -> None:
    records = dataprep.open(photos.out)
    options: dict[str, Any] = {"size": 16, "framework": "numpy", "uneven": "keep", "threads": 2}
    sizes = [[len(batch[0]) for batch in records[: 8 + at].loader(8, **options)] for at in range(8)]
    assert sizes == [[8], *([8, at] for at in range(1, 8))]


@pytest.mark.parametrize("processes", [False, True])
def test_a_damaged_image_is_named_and_the_others_go_on(
    photos: Made, tmp_path: Path, *, processes: bool
) -> None:
    out = photos.copy(tmp_path / "out")
    records = dataprep.open(out)
    place = "train-00002-of-00005: record 3"
    (victim,) = [at for at in range(32) if records.place_of(at).endswith(place)]
    shard = Path(records.place_of(victim).partition(": ")[0])
    data = bytearray(shard.read_bytes())
    at = data.find(records[victim].encoded)
    data[at + 100] ^= 0xFF
    shard.write_bytes(data)
    look: dict[str, Any] = {"size": 16, "framework": "numpy", "processes": processes}
    loader = records.loader(2, shuffle="none", **look)
    got: list[Any] = []
    with pytest.raises(SinkError, match=place):
        got.extend(loader)
    assert len(got) == victim // 2
    assert loader.state_dict()["consumed"] == 2 * len(got)


def test_frameworks_that_are_not_asked_for_are_not_imported(photos: Made) -> None:
    code = f"""
import sys, dataprep
loader = dataprep.open({str(photos.out)!r}).loader(4, size=16, framework="numpy")
for images, labels in loader: pass
loud = {{"torch", "jax", "tensorflow", "apache_beam"}} & set(sys.modules)
assert not loud, loud
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_leaving_early_ends_the_threads(photos: Made) -> None:
    import threading

    loader = dataprep.open(photos.out).loader(2, size=16, framework="numpy")
    for _ in loader:
        break
    gc.collect()
    assert not [it for it in threading.enumerate() if it.name.startswith("dataprep loader")]


def test_processes_that_decode_end_with_their_loader_and_are_missed(photos: Made) -> None:
    loader = dataprep.open(photos.out).loader(
        8, size=16, framework="numpy", threads=2, processes=True
    )
    assert repr(loader).count(", 2 processes, ") == 1
    next(iter(loader))
    ours = children()
    assert len(ours) == 2
    os.kill(ours[0], signal.SIGKILL)
    with pytest.raises(DatasetError, match=r"has ended.*fewer threads"):
        list(loader)
    del loader
    gc.collect()
    assert not children()


def children() -> list[int]:
    """Processes of this one that decode."""
    mine = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    found = [(int(it), Path(f"/proc/{it}/cmdline").read_bytes()) for it in mine]
    return [process for process, command in found if b"dataprep.training.decoding" in command]


def test_without_a_framework_the_way_out_is_named(
    tiny: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = dataprep.open(tiny.out)
    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("torch", lambda: records.loader(8, size=64)),
        ("torch", records.to_torch),
        ("jax", lambda: records.loader(8, size=64, framework="jax")),
        ("tensorflow", lambda: records.to_tf(records.sampler(8))),
    )
    for package, call in calls:
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=rf'{package}.*: install it, or .* framework="numpy"'):
            call()
