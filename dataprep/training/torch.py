"""The examples of a data set for PyTorch; imports torch, so only ``to_torch`` imports this."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import fields as fields_of
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch  # type: ignore[import-not-found,unused-ignore]  # no dependency of ours
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import (  # type: ignore[import-not-found,unused-ignore]
    Dataset,
    default_collate,
)

from dataprep.errors import UsageError
from dataprep.formats.example import Example
from dataprep.images.decode import shown
from dataprep.training.sampler import POSITION, Numbers
from dataprep_schemas.fields import BOXES, DECLARED, MASK

if TYPE_CHECKING:
    from dataprep.training.sequence import ExampleSequence

Place = tuple[int, int, int]
"""Seed, epoch and position of a sample."""

_KNOWN: Final = frozenset({POSITION, *(field.name for field in fields_of(Example))})
_DESCRIBING: Final = ("exif", "Exif")  # the picture is upright: nobody is to turn it once more


class TorchDataset(Dataset[tuple[Any, ...]]):  # type: ignore[misc,unused-ignore]  # likewise
    """Pairs of an image and its label, by number; or triples, with a dict of further fields.

    Pickled into the workers of a ``DataLoader`` it carries no open file: each worker opens the
    shards for itself.

    Args:
        examples: which.
        transform: and the rest: as ``records.to_torch`` has them.

    Attributes:
        classes: name of every class, by class index.
        targets: as those of the examples, for samplers.

    Raises:
        UsageError: there is no such field.
    """

    def __init__(
        self,
        examples: ExampleSequence,
        transform: Callable[[Any], Any] | None,
        *,
        decode: bool,
        fields: Sequence[str],
    ) -> None:
        if isinstance(fields, str):
            fields = [fields]
        said = {field.name for field in examples.info.fields} | DECLARED.keys()
        for name in fields:
            if name not in _KNOWN | said:
                known = ", ".join(sorted(_KNOWN | said))
                raise UsageError(f"there is no field {name!r}; there are: {known}")
        if transform is not None and not decode:
            raise UsageError("decode=False gives bytes, and a transform takes images")
        self.examples, self.transform, self.decode = examples, transform, decode
        self.fields = tuple(fields)
        self.classes = [name for _, name in examples.classes]
        self.targets = examples.labels
        # What is said of an example need not be read, unless it is asked for.
        self._bytes_alone = not examples.pixels and {*fields} <= {POSITION}
        if {BOXES.name, MASK.name} & {*fields}:
            import_module("torchvision")  # sooner than in a worker

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self.examples)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        """The image, and its 0-based class index; and the further fields, if there are any.

        Where an example may have any number of labels: a float tensor of a zero or one for each
        class, as ``BCEWithLogitsLoss`` takes it; or -1 where it is uncertain: leave those out.
        """
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
        """Those of a batch, which ``DataLoader`` asks for at once, in the order of the files."""
        found: Sequence[Example | bytes]
        if self._bytes_alone:
            found = self.examples.encoded(numbers)
        else:
            found = self.examples.__getitems__(numbers)
        places: list[Place | None] = [None] * len(numbers)
        if isinstance(numbers, Numbers):
            places = [(numbers.seed, numbers.epoch, at) for at in numbers.positions]
        elif POSITION in self.fields:
            raise UsageError(f"the field {POSITION} needs a batch_sampler of records.sampler")
        return list(map(self._sample, numbers, found, places))

    def _sample(self, number: int, found: Example | bytes, place: Place | None) -> tuple[Any, ...]:
        label = self.targets[number]
        target: Any = int(label) if label.ndim == 0 else torch.from_numpy(label.astype(np.float32))
        pair = self._image(found, place), target
        if not self.fields:
            return pair
        values = {}
        for name in self.fields:
            if isinstance(found, Example) and name != POSITION:
                values[name] = _field(found, name)
            elif place is not None:
                values[name] = torch.tensor(place[1:])
        return (*pair, values)

    def _image(self, found: Example | bytes, place: Place | None) -> Any:
        encoded = found if isinstance(found, bytes) else found.encoded
        if not self.decode:
            return encoded
        if isinstance(found, bytes):
            pixels = shown(found, self.examples.info.channels)
        else:
            pixels = found.array()
        if self.transform is None:
            return _tensor(pixels)
        picture = Image.fromarray(pixels)
        if isinstance(found, bytes) or found.format != "RAW":
            with Image.open(io.BytesIO(encoded)) as file:
                picture.info = {
                    name: it for name, it in file.info.items() if name not in _DESCRIBING
                }
        picture.info["sample"] = place
        return self.transform(picture)

    @staticmethod
    def collate_fn(samples: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """A batch: tensors stacked, and of the fields lists where they cannot be.

        Images of one size are copied once, into channels-last memory.
        """
        images, targets, *rest = zip(*samples, strict=True)
        fields = [
            {name: _stacked([one[name] for one in every]) for name in every[0]} for every in rest
        ]
        return (_images(images), default_collate(list(targets)), *fields)


def _field(example: Example, name: str) -> Any:
    if name == MASK.name:
        mask = torch.from_numpy(example.mask().copy())
        return import_module("torchvision.tv_tensors").Mask(mask)
    if name != BOXES.name:
        none = DECLARED[name].rules.none if name in DECLARED else None
        return getattr(example, name) if name in _KNOWN else example.fields.get(name, none)
    height, width = example.height, example.width
    if example.orientation >= 5:
        height, width = width, height
    scaled = np.array(example.upright_boxes, np.float32).reshape(-1, 4)
    scaled *= np.array([width, height, width, height], np.float32)
    boxes = import_module("torchvision.tv_tensors").BoundingBoxes
    return boxes(torch.from_numpy(scaled), format="XYXY", canvas_size=(height, width))


def _images(images: Sequence[Any]) -> Any:
    first = images[0]
    if not isinstance(first, torch.Tensor):
        return list(images) if isinstance(first, bytes) else default_collate(list(images))
    if first.ndim == 3 and not first.is_contiguous():  # as `_tensor` makes them
        whole = torch.stack([image.permute(1, 2, 0) for image in images])
        return whole.permute(0, 3, 1, 2)
    return torch.stack(list(images))


def _stacked(values: Sequence[Any]) -> Any:
    """One tensor of numbers, or of tensors of one shape; else the list."""
    first = values[0]
    if isinstance(first, (int, float)) and None not in values:
        return torch.tensor(values)
    plain = type(first) is torch.Tensor  # boxes of images are no batch of boxes
    return torch.stack(list(values)) if plain else list(values)


def _tensor(pixels: NDArray[Any]) -> torch.Tensor:
    """As torchvision's ``pil_to_tensor``: batching copies it, so that nothing else has to."""
    writable = torch.from_numpy(pixels if pixels.flags.writeable else pixels.copy())
    return writable[None] if pixels.ndim == 2 else writable.permute(2, 0, 1)
