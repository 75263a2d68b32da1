"""``dataprep synthesize``: made-up raw data, for a first try and for tests."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.synthesize.chestxray14 import ChestXray14Layout
    from dataprep.synthesize.files import Progress
    from dataprep.synthesize.imagenet import Layout

Command: TypeAlias = Callable[..., Any]

_DIRECTORY = click.argument("directory", type=click.Path(path_type=Path))
_MEANINGS = {
    "cmyk": "a CMYK JPEG",
    "png": "a PNG named .JPEG",
    "truncated": "damaged: a file that ends too early",
    "garbage": "damaged: random bytes",
    "empty": "damaged: an empty file",
    "html": "damaged: an HTML page",
    "rgba": "an RGBA PNG of greys",
    "palette": "a PNG with a palette",
    "sixteen_bit": "a PNG with 16 bits of grey",
    "missing": "listed, and missing",
    "unlisted": "there, and not listed",
}


def _number(name: str, default: int, words: str) -> Callable[[Command], Command]:
    return click.option(name, type=int, default=default, show_default=True, help=words)


@click.group(name="synthesize")
def command() -> None:
    """Write made-up raw data in the layout of a real data set."""


@command.command(name="imagenet")
@_DIRECTORY
@click.option(
    "--layout",
    type=click.Choice(["tar", "tree"]),
    default="tar",
    show_default=True,
    help="The original archives, or the same unpacked into train/ and validation/.",
)
@_number("--classes", 10, "Number of classes, spread over the 1000 official ones.")
@_number("--images_per_class", 30, "Training images in each class.")
@_number(
    "--validation_images",
    50,
    "The first so many of the 50,000 validation images, with their official classes.",
)
@click.option("--defects", is_flag=True, help="Add four damaged training images.")
@_number("--seed", 0, "Another seed, other pictures.")
def imagenet(directory: Path, layout: Layout, **options: Any) -> None:
    """Write a made-up ImageNet to DIRECTORY, about 110 KB an image.

    The pictures are computed, not photographed, but have the statistics of photographs,
    and a few are odd in the ways in which ImageNet's are. Equal options give equal bytes.
    """
    # Imported late, so that `dataprep --help` needs neither numpy nor Pillow.
    from dataprep.synthesize.imagenet import synthesize_imagenet

    with _bar() as progress:
        done = synthesize_imagenet(directory, layout=layout, progress=progress, **options)
    mean = done.image_bytes / (done.training_images + done.validation_images) / 1000
    click.echo(
        f"wrote {directory} (layout {layout}): {done.training_images} training images in "
        f"{counted(done.classes, 'class', 'classes')}, {done.validation_images} validation images, "
        f"{done.image_bytes / 1e6:.1f} MB, {mean:.0f} KB an image"
    )
    click.echo(f"grey images: {done.grey_images}")
    for image in done.special_images:
        click.echo(f"special: {image.synset}/{image.name} is {_MEANINGS[image.kind]}")
    _say_next("imagenet", directory)


@command.command(name="chestxray14")
@_DIRECTORY
@click.option(
    "--layout",
    type=click.Choice(["tar.gz", "tar", "zip", "folders", "flat"]),
    default="tar.gz",
    show_default=True,
    help="The published archives, the same as tars or zips, unpacked into images_0NN/images/, "
    "or all in one images/.",
)
@_number("--patients", 60, "Number of made-up patients, with 3.6 images each in the mean.")
@_number("--archives", 12, "Number of archives.")
@_number("--size", 256, "Pixels a side; the original has 1024.")
@click.option(
    "--defects",
    is_flag=True,
    help="Truncate one image, leave out another, and add one that is not listed.",
)
@_number("--seed", 0, "Another seed, other pictures.")
def chestxray14(directory: Path, layout: ChestXray14Layout, patients: int, **options: Any) -> None:
    """Write a made-up ChestX-ray14 of the NIH to DIRECTORY.

    About 31 KB an image at the default size, 430 KB at the original's 1024. The pictures are
    computed, but look like radiographs of the chest; two are RGBA, one has a palette and one
    16 bits. Equal options give equal bytes.
    """
    from dataprep.synthesize.chestxray14 import synthesize_chestxray14

    with _bar() as progress:
        done = synthesize_chestxray14(
            directory, layout=layout, patients=patients, progress=progress, **options
        )
    cut = "" if layout == "flat" else f" in {counted(done.archives, 'archive')}"
    click.echo(
        f"wrote {directory} (layout {layout}): {counted(done.images, 'image')} of "
        f"{counted(patients, 'patient')}{cut}, {sized(done.image_bytes)}, "
        f"{done.image_bytes / done.images / 1000:.1f} KB an image"
    )
    click.echo(f"with {', '.join(done.documents)}")
    for image in done.special_images:
        if image.special is not None:
            click.echo(f"special: {image.name} is {_MEANINGS[image.special]}")
    _say_next("chestxray14", directory)


@contextmanager
def _bar() -> Iterator[Progress]:
    from tqdm import tqdm

    with tqdm(unit="image", disable=not sys.stderr.isatty(), leave=False) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield progress


def _say_next(name: str, directory: Path) -> None:
    quoted = shlex.quote(str(directory))
    click.echo(f"next:\n  dataprep {name} --raw_data_dir {quoted} --local_scratch_dir OUT")
