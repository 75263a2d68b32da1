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


Plane = NDArray[np.float32]

# (width, height, share): a long side of 500 pixels, from Flickr, dominates ImageNet.
_SIZES = (
    (500, 375, 0.45),
    (500, 333, 0.20),
    (375, 500, 0.15),
    (333, 500, 0.06),
    (640, 480, 0.05),
    (1024, 768, 0.02),
    (320, 240, 0.04),
    (128, 96, 0.03),
)
_RADII = (0.03, 0.55)  # smallest and largest shape, of the picture's shorter side
_CONTRASTS = (22.0, 85.0)


def photograph(seed: int, hue: float = 0.0) -> NDArray[np.uint8]:
    """Draw a picture with the statistics of photographs.

    A photograph is not noise: the amplitude of its spatial frequencies falls like 1/f, objects
    occlude each other with sharp or soft edges, colour varies less and more slowly than brightness.
    JPEG sizes and decode times follow from that, so that a test on such pictures tells something
    about real ones. The model is "dead leaves" (occluding textured shapes, sizes by a power law)
    over a 1/f background. The same numpy and Pillow versions on the same kind of processor give
    the same pixels; others may differ by a grey level here and there.

    Args:
        seed: any non-negative integer; the picture is a function of it and the hue.
        hue: main direction of the colours, in radians; what the pictures of a class share.

    Returns:
        RGB pixels, (height, width, 3); the size varies as in ImageNet.
    """
    rng = np.random.default_rng(seed)
    width, height, _ = _SIZES[int(rng.choice(len(_SIZES), p=[share for *_, share in _SIZES]))]
    texture = float(np.exp(rng.normal(0.0, 0.9)))
    detail = _noise(rng, height, width, 0.9)
    colour = _noise(rng, height, width, 1.35) * 7.0
    tint = (0.0, 10.0 * np.cos(hue), 10.0 * np.sin(hue))
    luma = 28.0 * _noise(rng, height, width, 1.6) + min(3.0 * texture, 9.0) * detail
    picture = np.stack([luma, colour + tint[1], tint[2] - colour]).astype(np.float32)
    for _ in range(int(rng.integers(14, 44))):
        _draw_shape(rng, picture, detail, texture, tint)
    contrast = np.clip(rng.normal(58.0, 13.0), *_CONTRASTS)
    picture[0] -= picture[0].mean()
    picture[0] *= contrast / picture[0].std()
    picture[0] += rng.normal(118.0, 24.0)
    picture[1:] += 128.0
    levels = np.clip(picture, 0.0, 255.0).astype(np.uint8)
    return np.asarray(Image.merge("YCbCr", [*map(Image.fromarray, levels)]).convert("RGB"))


def _noise(rng: np.random.Generator, height: int, width: int, exponent: float) -> Plane:
    """Gaussian noise with amplitude 1/f**exponent, mean 0 and deviation 1."""
    rows, columns = np.fft.fftfreq(height)[:, np.newaxis], np.fft.rfftfreq(width)
    squared = rows**2 + columns**2
    squared[0, 0] = np.inf
    white = np.fft.rfft2(rng.standard_normal((height, width), np.float32))
    field = np.fft.irfft2(white * squared ** (-exponent / 2), s=(height, width))
    normal: Plane = (field / field.std()).astype(np.float32)
    return normal


def _draw_shape(
    rng: np.random.Generator,
    picture: Plane,
    detail: Plane,
    texture: float,
    tint: tuple[float, float, float],
) -> None:
    """Cover a part of the picture with an ellipse that has a surface and a shade of its own."""
    height, width = detail.shape
    short = min(height, width)
    # Density of radii r**-2.2: a few large shapes, many small ones, at every scale.
    smallest, largest = ((short * part) ** -1.2 for part in _RADII)
    radius = float(rng.uniform(largest, smallest) ** (-1.0 / 1.2))
    softness = 1.2 + float(rng.exponential(1.2))  # in pixels: what is out of focus has more
    y, x = rng.uniform(0, height), rng.uniform(0, width)
    reach, stretch = 1.6 * radius + softness, float(rng.uniform(0.65, 1.5))
    rows = slice(max(int(y - reach), 0), int(y + reach) + 1)
    columns = slice(max(int(x - reach), 0), int(x + reach) + 1)
    piece = detail[rows, columns]
    down = np.arange(rows.start, rows.start + piece.shape[0], dtype=np.float32)[:, np.newaxis] - y
    across = np.arange(columns.start, columns.start + piece.shape[1], dtype=np.float32) - x
    inside = (radius - np.hypot(down * stretch, across / stretch)).astype(np.float32)
    cover = np.clip(inside / softness + 0.5, 0.0, 1.0)
    gain = min(13.0 * texture * float(np.exp(rng.normal(0.0, 0.6))), 30.0)
    # Falls off towards the edge, so that the shape looks like a body and not like paper.
    surface = piece * gain + inside * (rng.normal(0.0, 22.0) / radius)
    shares = (1.0, *rng.normal(0.0, 0.16, 2))
    for plane, spread, share, centre in zip(picture, (36.0, 11.0, 11.0), shares, tint, strict=True):
        target = surface * share + rng.normal(centre, spread)
        plane[rows, columns] += cover * (target - plane[rows, columns])
