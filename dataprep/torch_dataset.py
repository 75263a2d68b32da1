"""The examples of a data set for PyTorch; imports torch, so only ``to_torch`` imports this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]  # no dependency of ours
from torch.utils.data import Dataset  # type: ignore[import-not-found,unused-ignore]

from dataprep.records import Records


class TorchDataset(Dataset[tuple[Any, Any]]):  # type: ignore[misc,unused-ignore]  # likewise
    """Pairs of an image and its label, by number.

    Pickled into the workers of a ``DataLoader`` it carries no open file: each worker opens the
    shards for itself.

    Args:
        examples: which.
        transform: takes a Pillow image; None makes a uint8 tensor, shape (channels, height, width).

    Attributes:
        classes: name of every class, by class index.
        targets: as `Records.labels`, for samplers.
    """

    def __init__(self, examples: Records, transform: Callable[[Any], Any] | None) -> None:
        self.examples = examples
        self.transform = transform
        self.classes = [name for _, name in examples.classes]
        self.targets = examples.labels

    def __len__(self) -> int:
        """How many pairs there are."""
        return len(self.examples)

    def __getitem__(self, number: int) -> tuple[Any, Any]:
        """The image, and its 0-based class index.

        Where an example may have any number of labels: a float tensor of a zero or one for each
        class, as ``BCEWithLogitsLoss`` takes it.
        """
        picture = self.examples[number].image()
        label = self.targets[number]
        target: Any = int(label) if label.ndim == 0 else torch.from_numpy(label.astype(np.float32))
        return (_tensor(picture) if self.transform is None else self.transform(picture)), target


def _tensor(picture: Any) -> torch.Tensor:
    pixels = np.array(picture)
    return torch.from_numpy(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1).copy())
