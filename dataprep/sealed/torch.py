"""The examples of a data set for PyTorch; imports torch, so only ``to_torch`` imports this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]  # no dependency of ours
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import Dataset  # type: ignore[import-not-found,unused-ignore]

from dataprep.sinks.example import Example


class Examples(Protocol):
    """What `dataprep.sealed.records.Records` has, which imports this."""

    @property
    def classes(self) -> Sequence[tuple[str, str]]:
        """(identifier, name) of every class."""

    @property
    def labels(self) -> NDArray[np.int64]:
        """Of every example."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Example: ...

    def __getitems__(self, numbers: Sequence[int], /) -> list[Example]: ...


class TorchDataset(Dataset[tuple[Any, Any]]):  # type: ignore[misc,unused-ignore]  # likewise
    """Pairs of an image and its label, by number.

    Pickled into the workers of a ``DataLoader`` it carries no open file: each worker opens the
    shards for itself.

    Args:
        examples: which.
        transform: takes a Pillow image, of the pixels alone: without EXIF and the like, which the
            stored bytes have; None makes a uint8 tensor, shape (channels, height, width).

    Attributes:
        classes: name of every class, by class index.
        targets: as those of the examples, for samplers.
    """

    def __init__(self, examples: Examples, transform: Callable[[Any], Any] | None) -> None:
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
        return self._pair(number, self.examples[number])

    def __getitems__(self, numbers: Sequence[int]) -> list[tuple[Any, Any]]:
        """Those of a batch, which ``DataLoader`` asks for at once, in the order of the files."""
        return list(map(self._pair, numbers, self.examples.__getitems__(numbers)))

    def _pair(self, number: int, example: Example) -> tuple[Any, Any]:
        pixels, label = example.array(), self.targets[number]
        target: Any = int(label) if label.ndim == 0 else torch.from_numpy(label.astype(np.float32))
        if self.transform is None:
            return _tensor(pixels), target
        return self.transform(Image.fromarray(pixels)), target


def _tensor(pixels: NDArray[Any]) -> torch.Tensor:
    """As torchvision's ``pil_to_tensor``: batching copies it, so that nothing else has to."""
    writable = torch.from_numpy(pixels if pixels.flags.writeable else pixels.copy())
    return writable[None] if pixels.ndim == 2 else writable.permute(2, 0, 1)
