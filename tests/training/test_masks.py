"""Masks beside the images of a batch: cut, scaled and mirrored with them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.errors import UsageError
from dataprep.training.records import Records

NUMBERS = 24


def masked_set(raw: Path, out: Path) -> Path:
    """Grey pictures whose levels are ten times the numbers of their masks; one has no mask."""
    (raw / "x").mkdir(parents=True)
    (raw / "masks").mkdir()
    rng = np.random.default_rng(0)
    for number in range(12):
        blocks = rng.integers(0, NUMBERS, (4, 5)).astype(np.uint8)
        levels = np.repeat(np.repeat(blocks, 20 + number, 0), 20, 1)
        Image.fromarray(levels * 10).save(raw / f"x/{number}.png")
        if number:
            Image.fromarray(levels).save(raw / f"masks/{number}.png")
    return dataprep.folder(raw, out, mask_dir="masks", sink="tfrecord").out


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    place = tmp_path_factory.mktemp("masked")
    return dataprep.open(masked_set(place / "raw", place / "out"))


def batches(records: Records, **options: Any) -> list[tuple[Any, Any, list[str]]]:
    found = []
    for batch in records.loader(5, framework="numpy", uneven="keep", fields=["mask"], **options):
        keys = [records[number].key for number in batch.numbers]
        found.append((batch[0][..., 0].copy(), np.array(batch.fields["mask"]), keys))
    return found


@pytest.mark.parametrize("crop", [None, "center", "random"])
@pytest.mark.parametrize("processes", [False, True])
def test_they_lie_on_their_images(records: Records, crop: Any, processes: bool) -> None:
    seen = 0
    for images, masks, keys in batches(
        records, size=64, crop=crop, flip=True, threads=2, processes=processes
    ):
        assert masks.shape == images.shape
        assert masks.dtype == np.uint8
        for image, mask, key in zip(images, masks, keys, strict=True):
            seen += 1
            if key == "x/0.png":
                assert (mask == 255).all()
                continue
            apart = np.abs(mask.astype(int) * 10 - image) > 10
            assert apart.mean() < 0.12  # bilinear at the edges of blocks
    assert seen == 12


def test_unscaled_ones_are_exact_and_the_same_for_any_workers(records: Records) -> None:
    at = records.number_of("x/3.png")
    part, stored = records[at : at + 1], records[at].mask()
    seen = set()
    for seed in range(8):
        for images, masks, _ in batches(part, size=(92, 100), flip=True, seed=seed):
            assert (masks * 10 == images).all()
            seen.add((masks[0] == stored).all())
    assert seen == {True, False}  # mirrored, or not
    look: dict[str, Any] = {"size": 40, "crop": "random", "flip": True, "seed": 3}
    one, other = (
        {
            key: mask.tobytes()
            for _, masks, keys in batches(records, threads=n, **look)
            for key, mask in zip(keys, masks, strict=True)
        }
        for n in (1, 3)
    )
    assert one == other


def test_torch_gets_a_tensor_of_a_batch(records: Records) -> None:
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    (one, two) = (
        [*records.loader(6, size=32, crop="center", framework=it, fields="mask", shuffle="none")]
        for it in ("torch", "numpy")
    )
    for batch, plain in zip(one, two, strict=True):
        assert isinstance(batch.fields["mask"], torch.Tensor)
        assert (batch.fields["mask"].numpy() == plain.fields["mask"]).all()


def test_sets_without_masks_say_so(records: Records, tmp_path: Path) -> None:
    raw = tmp_path / "raw/x"
    raw.mkdir(parents=True)
    buffer = io.BytesIO()
    Image.new("L", (8, 8)).save(buffer, "PNG")
    (raw / "a.png").write_bytes(buffer.getvalue())
    bare = dataprep.open(dataprep.folder(tmp_path / "raw", tmp_path / "out").out)
    with pytest.raises(UsageError, match="there are no masks in these shards"):
        bare.loader(1, framework="numpy", fields=["mask"])
