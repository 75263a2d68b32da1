"""With libraries that change others when they are there: each in a process of its own.

torchvision's wheels fit PyTorch's builds for CUDA. Beside another build its compiled operators are
missing, and with them the import fails; what is used of it is Python, so they are declared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import BESIDE, Made
from tests.training.test_masks import masked_set

TORCHVISION = """
import re, sys, torch
from torch import library as operators

library = operators.Library("torchvision", "FRAGMENT")
while "torchvision" not in sys.modules:
    try:
        import torchvision
    except RuntimeError as error:
        missing = re.search(r"operator torchvision::(\\w+) does not exist", str(error))
        library.define(missing[1] + "() -> ()")
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
"""

BOXES = """
import sys, dataprep

records = dataprep.open(sys.argv[1])
dataset = records.to_torch(fields=["boxes", "box_labels"])
seen = 0
for number in range(len(records)):
    image, _, fields = dataset[number]
    boxes = fields["boxes"]
    assert type(boxes) is torchvision.tv_tensors.BoundingBoxes
    height, width = image.shape[1:]
    assert tuple(boxes.canvas_size) == (height, width)
    for box, (left, top, right, bottom) in zip(boxes, records[number].upright_boxes, strict=True):
        wanted = torch.tensor([left * width, top * height, right * width, bottom * height])
        assert torch.allclose(box.as_subclass(torch.Tensor), wanted)
        seen += 1
assert seen
batch = dataset.collate_fn([dataset[number] for number in range(3)])
there = [len(records[number].fields.get("boxes", ())) for number in range(3)]
assert [len(boxes) for boxes in batch[2]["boxes"]] == there
"""

MASKS = """
import sys, dataprep
from torchvision.transforms import v2

records = dataprep.open(sys.argv[1])
dataset = records.to_torch(fields=["mask"])
torch.manual_seed(0)
both = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.RandomResizedCrop(96, antialias=True)])
for number in range(len(records)):
    image, _, fields = dataset[number]
    mask = fields["mask"]
    assert type(mask) is torchvision.tv_tensors.Mask
    if "mask" not in records[number].fields:
        assert (mask == 255).all()
        continue
    assert (mask * 10 == image[0]).all()
    shown, moved = both(torchvision.tv_tensors.Image(image), mask)
    apart = (moved.to(torch.int) * 10 - shown[0].to(torch.int)).abs() > 10
    assert apart.float().mean() < 0.25  # bilinear at the edges
batch = dataset.collate_fn([dataset[0]] * 3)
assert len(batch[2]["mask"]) == 3
"""

TRANSFORMED = """
import sys, dataprep
from torchvision.transforms import v2

records = dataprep.open(sys.argv[1])
whole = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.ToDtype(torch.float32, scale=True)])
plain, shown = (
    next(iter(records.loader(4, size=32, transform=transform)))[0] for transform in (None, whole)
)
assert torch.allclose(shown, plain.flip(3).to(torch.float32) / 255)
"""

PARTS = """
import numpy as np
from PIL import Image
from torchvision.transforms import RandomResizedCrop
from dataprep.images.crops import Crop

torch.manual_seed(0)
picture = Image.new("L", (500, 375))
draws = np.random.default_rng(0).random((4000, 23)).tolist()
ours = np.array([Crop((224, 224), "random").part(375, 500, one) for one in draws])
theirs = [RandomResizedCrop.get_params(picture, [0.08, 1], [3 / 4, 4 / 3]) for _ in range(4000)]
theirs = np.array(theirs)[:, [1, 0, 3, 2]]
for share in (10, 25, 50, 75, 90):
    apart = np.percentile(ours, share, axis=0) - np.percentile(theirs, share, axis=0)
    assert (np.abs(apart) < 20).all(), (share, apart)
"""

JAX = """
import sys, dataprep, jax, numpy as np

records = dataprep.open(sys.argv[1])
ours = [images for images, _ in records.loader(4, size=16, framework="jax", shuffle="none")]
assert isinstance(ours[0], jax.Array)
(whole,) = records.loader(32, size=16, framework="numpy", shuffle="none")
assert (np.concatenate([np.asarray(it) for it in ours]) == whole[0]).all()
"""


def run(code: str, *words: Path) -> None:
    if not (BESIDE / ".ready").exists():
        pytest.skip(f"needs torchvision and JAX in {BESIDE}: make readers")
    pytest.importorskip("torch", reason="needs torch")
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.fspath(BESIDE)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("code", [BOXES, TRANSFORMED, PARTS], ids=["boxes", "v2", "parts"])
def test_torchvision_goes_with_it(code: str, radiographs: Made) -> None:
    run(TORCHVISION + code, radiographs.out)


@pytest.mark.thorough
def test_torchvision_moves_masks_with_their_images(tmp_path: Path) -> None:
    run(TORCHVISION + MASKS, masked_set(tmp_path / "raw", tmp_path / "out"))


@pytest.mark.thorough
def test_jax_gets_arrays_of_its_own(photos: Made) -> None:
    run(JAX, photos.out)
