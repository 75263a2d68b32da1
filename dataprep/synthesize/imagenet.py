"""A made-up ImageNet: official layout, names and classes, photograph-like pictures.

An image is a function of its name and its kind, so that a larger set differs from a smaller one in
what is added, and both layouts hold the same bytes.
"""

from __future__ import annotations

import math
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from dataprep.synthesize.files import (
    DEFECTS,
    Defect,
    NamedFile,
    Written,
    drawn,
    keyed_seed,
    require,
    saved,
    spoil,
    tar_member,
    write_folder,
    write_tar,
    writing_to,
)
from dataprep.synthesize.photograph import photograph
from dataprep_schemas import imagenet_classes, imagenet_validation_synsets

Layout: TypeAlias = Literal["tar", "tree"]
# JPEGs of three and one components, one of four as Adobe writes it, a PNG named .JPEG; or damaged.
Kind: TypeAlias = Literal["rgb", "grey", "cmyk", "png"] | Defect
Classes: TypeAlias = Iterable[tuple[str, Iterable[NamedFile]]]

TRAIN_TAR = "ILSVRC2012_img_train.tar"
VALIDATION_TAR = "ILSVRC2012_img_val.tar"

# Positions counted over all training images. They start at 1 so that the first image is
# an ordinary one, and are low so that the smallest sets have them.
_ODD: dict[int, Kind] = {1: "cmyk", 3: "png"}
_GREY = 2
_GREY_EVERY = 50  # 2 %, as in ImageNet
# (quality, Pillow's name of the chroma subsampling, share), counted on real files: two thirds
# are resized pictures at quality 96; the others come as their cameras left them.
_SETTINGS = (
    (96, "4:4:4", 0.70),
    (80, "4:4:4", 0.08),
    (75, "4:2:0", 0.08),
    (85, "4:2:0", 0.10),
    (92, "4:2:0", 0.04),
)


@dataclass(frozen=True)
class PlannedImage:
    """One image to be made."""

    synset: str
    name: str  # of the file
    kind: Kind = "rgb"


def synthesize_imagenet(
    directory: Path,
    *,
    classes: int = 10,
    images_per_class: int = 30,
    validation_images: int = 50,
    layout: Layout = "tar",
    defects: bool = False,
) -> Written:
    """Write a made-up ImageNet; equal arguments give equal bytes.

    Args:
        directory: where to; made if missing, else it must be empty.
        classes: how many classes, spread over the 1000 official ones.
        images_per_class: training images in each.
        validation_images: the first so many, each with its official class.
        layout: ``tar`` as downloaded, ``tree`` as unpacked.
        defects: add damaged training images, one of each kind.

    Raises:
        UsageError: a number is outside what ImageNet has.
        DatasetError: the directory holds something, or cannot be written.
    """
    training = plan_training(classes, images_per_class, defects=defects)
    validation = plan_validation(validation_images)
    images, sizes = [*validation, *training], list[int]()
    contents = drawn(_encoded, images, sizes)
    files = ((image.name, content) for image, content in zip(images, contents, strict=True))
    with writing_to(directory), closing(contents):
        write = _write_tars if layout == "tar" else _write_tree
        write(directory, islice(files, len(validation)), _by_class(training, files))
    return Written(len(images), sum(sizes))


def plan_training(classes: int, images_per_class: int, *, defects: bool) -> list[PlannedImage]:
    """The training images, in ASCII order of class and name, which is the original's.

    Raises:
        UsageError: a number is outside what ImageNet has.
    """
    official = imagenet_classes()
    require("classes", classes, 1, len(official))
    require("images_per_class", images_per_class, 1, 10**6)
    step = len(official) / classes
    images = []
    for place in range(classes):
        synset = official[int((place + 0.5) * step)][0]
        for index in range(images_per_class):
            position = place * images_per_class + index
            kind = _ODD.get(position, _colour(position))
            images.append(PlannedImage(synset, _training_name(synset, index), kind))
        for number, defect in enumerate(DEFECTS if defects else ()):
            if number % classes == place:
                name = _training_name(synset, images_per_class + number)
                images.append(PlannedImage(synset, name, defect))
    return sorted(images, key=lambda image: (image.synset, image.name))


def plan_validation(number: int) -> list[PlannedImage]:
    """The first so many of the 50,000 validation images, with their official classes."""
    return [
        PlannedImage(synset, f"ILSVRC2012_val_{position + 1:08d}.JPEG", _colour(position))
        for position, synset in enumerate(imagenet_validation_synsets()[:number])
    ]


def _colour(position: int) -> Kind:
    return "grey" if position % _GREY_EVERY == _GREY else "rgb"


def _training_name(synset: str, index: int) -> str:
    """The file name of a class's image number `index`, counted from 0.

    The numbers have gaps and no leading zeros, like the original's: ASCII order is not
    numeric order, and code that counts on either shows it.
    """
    gap = keyed_seed("name", synset, index) % 10
    return f"{synset}_{10 * index + gap}.JPEG"


def _encoded(image: PlannedImage) -> bytes:
    """Make one image file; runs in several threads."""
    own = keyed_seed(0, "image", image.name)
    hue = keyed_seed(0, "class", image.synset) / 2**128 * math.tau
    encoded = encode(photograph(own, hue), image.kind, own)
    return spoil(encoded, image.kind) if image.kind in DEFECTS else encoded


def encode(pixels: NDArray[np.uint8], kind: Kind, seed: int) -> bytes:
    """Write a picture as a file of the given kind; the seed decides on quality and subsampling."""
    image = Image.fromarray(pixels)
    if kind == "png":
        return saved(image, "PNG")
    if kind == "cmyk":
        return saved(image.convert("CMYK"), "JPEG", quality=90)
    shares = [share for *_, share in _SETTINGS]
    choice = np.random.default_rng([seed, 1]).choice(len(_SETTINGS), p=shares)
    quality, subsampling, _ = _SETTINGS[int(choice)]
    if kind == "grey":
        return saved(image.convert("L"), "JPEG", quality=quality)
    return saved(image, "JPEG", quality=quality, subsampling=subsampling)


def _by_class(images: Iterable[PlannedImage], files: Iterator[NamedFile]) -> Classes:
    """Each class with its files, as they come."""
    for synset, group in groupby(images, key=lambda image: image.synset):
        yield synset, islice(files, len([*group]))


def _write_tree(directory: Path, validation: Iterable[NamedFile], training: Classes) -> None:
    """Write ``train/<synset>/*`` and ``validation/*``."""
    write_folder(directory / "validation", validation)
    for synset, files in training:
        write_folder(directory / "train" / synset, files)


def _write_tars(directory: Path, validation: Iterable[NamedFile], training: Classes) -> None:
    """Write the flat tar of validation images, and that of one tar a class."""
    with (directory / VALIDATION_TAR).open("wb") as stream:
        write_tar(stream, validation)
    with tarfile.open(directory / TRAIN_TAR, "w", format=tarfile.GNU_FORMAT) as archive:
        for synset, files in training:
            with tempfile.TemporaryFile(dir=directory) as inner:
                write_tar(inner, files)
                member = tar_member(f"{synset}.tar", inner.tell())
                inner.seek(0)
                archive.addfile(member, inner)
