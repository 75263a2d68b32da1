"""Which images a made-up ImageNet consists of: names, classes and kinds, no pixels.

An image is a function of its name, its kind and the seed, so a larger set differs from a
smaller one in what is added, and both layouts hold the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dataprep.errors import UsageError
from dataprep.synthesize.defects import DEFECTS, Defect
from dataprep.synthesize.imagenet.encoding import Kind
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

Split = Literal["train", "validation"]

# Positions counted over all training images. They start at 1 so that the first image is
# an ordinary one, and are low so that the smallest sets have them.
_CMYK, _GREY, _PNG = 1, 2, 3
_GREY_EVERY = 50  # 2 %, as in ImageNet


@dataclass(frozen=True)
class PlannedImage:
    """One image to be made.

    Args:
        split: training or validation.
        synset: WordNet id of its class.
        name: file name, without directories.
        kind: how it is encoded.
        defect: how it is spoilt, if it is.
    """

    split: Split
    synset: str
    name: str
    kind: Kind = "rgb"
    defect: Defect | None = None


@dataclass(frozen=True)
class ImageNetPlan:
    """The contents of a set, as a function of what the user asked for.

    Args:
        classes: how many of the 1000 official classes.
        images_per_class: training images in each.
        validation_images: the first so many of the 50,000 validation images.
        defects: whether to add damaged training images.

    Raises:
        UsageError: a number is outside what ImageNet has.
    """

    classes: int = 10
    images_per_class: int = 30
    validation_images: int = 50
    defects: bool = False

    def __post_init__(self) -> None:
        limits = (
            ("classes", self.classes, len(imagenet_classes())),
            ("images_per_class", self.images_per_class, 10**6),
            ("validation_images", self.validation_images, len(imagenet_validation_synsets())),
        )
        for name, value, most in limits:
            if not 1 <= value <= most:
                raise UsageError(f"{name} is {value}; it must be between 1 and {most}")

    @property
    def total(self) -> int:
        """Number of image files, the damaged ones included."""
        damaged = len(DEFECTS) if self.defects else 0
        return self.classes * self.images_per_class + self.validation_images + damaged

    @property
    def synsets(self) -> tuple[str, ...]:
        """The classes, spread evenly over the official ones, in ASCII order."""
        official = imagenet_classes()
        step = len(official) / self.classes
        return tuple(official[int((i + 0.5) * step)][0] for i in range(self.classes))

    def training(self) -> Iterator[PlannedImage]:
        """The training images, in ASCII order of class and name, which is the original's."""
        for position, synset in enumerate(self.synsets):
            images = [
                self._training_image(synset, position * self.images_per_class + i, i)
                for i in range(self.images_per_class)
            ]
            if self.defects:
                images += self._damaged(synset, position)
            yield from sorted(images, key=lambda image: image.name)

    def validation(self) -> Iterator[PlannedImage]:
        """The validation images in order of their number, with their official classes."""
        synsets = imagenet_validation_synsets()[: self.validation_images]
        for position, synset in enumerate(synsets):
            name = f"ILSVRC2012_val_{position + 1:08d}.JPEG"
            kind: Kind = "grey" if position % _GREY_EVERY == _GREY else "rgb"
            yield PlannedImage("validation", synset, name, kind)

    def _training_image(self, synset: str, position: int, index: int) -> PlannedImage:
        kind: Kind = "rgb"
        if position == _CMYK:
            kind = "cmyk"
        elif position == _PNG:
            kind = "png"
        elif position % _GREY_EVERY == _GREY:
            kind = "grey"
        return PlannedImage("train", synset, training_name(synset, index), kind)

    def _damaged(self, synset: str, position: int) -> list[PlannedImage]:
        """The damaged images of one class; they are spread over the classes."""
        return [
            PlannedImage(
                "train", synset, training_name(synset, self.images_per_class + i), defect=defect
            )
            for i, defect in enumerate(DEFECTS)
            if i % self.classes == position
        ]


def training_name(synset: str, index: int) -> str:
    """The file name of a class's image number `index`, counted from 0.

    The numbers have gaps and no leading zeros, like the original's: ASCII order is not
    numeric order, and code that counts on either shows it.
    """
    gap = keyed_seed("name", synset, index) % 10
    return f"{synset}_{10 * index + gap}.JPEG"


def keyed_seed(*key: str | int) -> int:
    """A 128-bit seed from a key; equal on every machine, unlike ``hash()``."""
    text = "/".join(map(str, key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "big")
