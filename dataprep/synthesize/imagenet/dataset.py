"""A made-up ImageNet: official layout, names and classes, photograph-like pictures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from dataprep.synthesize.defects import Defect, spoil
from dataprep.synthesize.imagenet.encoding import Kind, encode
from dataprep.synthesize.imagenet.layouts import (
    FINAL_NAMES,
    Layout,
    TarWriter,
    TreeWriter,
    is_imagenet_name,
)
from dataprep.synthesize.imagenet.photograph import Look, class_look, photograph
from dataprep.synthesize.imagenet.plan import ImageNetPlan, PlannedImage, keyed_seed
from dataprep.synthesize.parallel import ordered_map
from dataprep.synthesize.staging import staged
from dataprep.synthesize.tar_members import NamedFile
from dataprep.system.cores import usable_cores

_Painted: TypeAlias = tuple[PlannedImage, bytes]


@dataclass(frozen=True)
class SpecialImage:
    """A training image that a reader has to treat apart.

    Args:
        synset: its class.
        name: its file name.
        special: what is odd about it.
    """

    synset: str
    name: str
    special: Kind | Defect


@dataclass(frozen=True)
class Summary:
    """What was written.

    Args:
        directory: where.
        layout: how.
        synsets: the training classes.
        training_images: training image files, damaged ones included.
        validation_images: validation image files.
        image_bytes: size of all image files together.
        grey_images: how many of them have one component.
        special_images: the CMYK image, the PNG and the damaged ones.
    """

    directory: Path
    layout: Layout
    synsets: tuple[str, ...]
    training_images: int
    validation_images: int
    image_bytes: int
    grey_images: int
    special_images: tuple[SpecialImage, ...]


def synthesize_imagenet(
    directory: Path,
    *,
    classes: int = 10,
    images_per_class: int = 30,
    validation_images: int = 50,
    layout: Layout = "tar",
    defects: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Summary:
    """Write a made-up ImageNet; equal arguments give equal bytes.

    Args:
        directory: where to; made if missing.
        classes: how many classes, spread over the 1000 official ones.
        images_per_class: training images in each.
        validation_images: the first so many, each with its official class.
        layout: ``tar`` as downloaded, ``tree`` as unpacked.
        defects: add damaged training images, one of each kind.
        seed: another one gives other pictures under the same names.
        overwrite: replace a set that this function wrote earlier.
        threads: how many draw; by default as many as there are cores to use.
        progress: called with the number of images finished since the last call.

    Returns:
        Counts, sizes and the special images.

    Raises:
        UsageError: a number is outside what ImageNet has.
        DatasetError: the directory holds something else, or cannot be written.
    """
    plan = ImageNetPlan(classes, images_per_class, validation_images, defects)
    count = threads or usable_cores()
    tally = _Tally(progress)
    with (
        staged(directory, FINAL_NAMES[layout], is_imagenet_name, overwrite=overwrite) as staging,
        ThreadPoolExecutor(count, thread_name_prefix="synthesize") as executor,
    ):
        paint = partial(_paint, seed)
        writer = TarWriter(staging) if layout == "tar" else TreeWriter(staging)
        validation = ordered_map(executor, paint, plan.validation(), 4 * count)
        writer.validation(map(tally.count, validation))
        training = ordered_map(executor, paint, plan.training(), 4 * count)
        writer.training(
            (synset, map(tally.count, painted))
            for synset, painted in groupby(training, key=lambda item: item[0].synset)
        )
    return Summary(
        directory=directory,
        layout=layout,
        synsets=plan.synsets,
        training_images=plan.total - plan.validation_images,
        validation_images=plan.validation_images,
        image_bytes=tally.image_bytes,
        grey_images=tally.grey_images,
        special_images=tuple(tally.special_images),
    )


def _paint(seed: int, image: PlannedImage) -> _Painted:
    """Make one image; runs in several threads."""
    own_seed = keyed_seed(seed, "image", image.name)
    encoded = encode(photograph(own_seed, _look(seed, image.synset)), image.kind, own_seed)
    if image.defect is not None:
        encoded = spoil(encoded, image.defect, own_seed)
    return image, encoded


@lru_cache(maxsize=1000)
def _look(seed: int, synset: str) -> Look:
    return class_look(keyed_seed(seed, "class", synset))


class _Tally:
    """Takes note of the images on their way to the disk."""

    def __init__(self, progress: Callable[[int], object] | None) -> None:
        self._progress = progress
        self.image_bytes = 0
        self.grey_images = 0
        self.special_images: list[SpecialImage] = []

    def count(self, painted: _Painted) -> NamedFile:
        """Pass an image on as a named file."""
        image, encoded = painted
        self.image_bytes += len(encoded)
        self.grey_images += image.kind == "grey"
        special = image.defect or image.kind
        if special not in ("rgb", "grey"):
            self.special_images.append(SpecialImage(image.synset, image.name, special))
        if self._progress is not None:
            self._progress(1)
        return image.name, encoded
