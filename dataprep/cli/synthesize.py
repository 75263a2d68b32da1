"""``dataprep synthesize``: made-up raw data, for a first try and for tests."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dataprep.synthesize.imagenet import Summary
    from dataprep.synthesize.layouts import Layout

_MEANINGS = {
    "cmyk": "a CMYK JPEG",
    "png": "a PNG named .JPEG",
    "truncated": "damaged: a JPEG that ends too early",
    "garbage": "damaged: random bytes",
    "empty": "damaged: an empty file",
    "html": "damaged: an HTML page",
}


@click.group(name="synthesize")
def command() -> None:
    """Write made-up raw data in the layout of a real data set."""


@command.command(name="imagenet")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--layout",
    type=click.Choice(["tar", "tree"]),
    default="tar",
    show_default=True,
    help="The original archives, or the same unpacked into train/ and validation/.",
)
@click.option(
    "--classes",
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="Number of classes, spread over the 1000 official ones.",
)
@click.option(
    "--images_per_class",
    type=click.IntRange(1, 1_000_000),
    default=30,
    show_default=True,
    help="Training images in each class.",
)
@click.option(
    "--validation_images",
    type=click.IntRange(1, 50_000),
    default=50,
    show_default=True,
    help="The first so many of the 50,000 validation images, with their official classes.",
)
@click.option("--defects", is_flag=True, help="Add four damaged training images.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed, other pictures."
)
@click.option("--overwrite", is_flag=True, help="Replace what this command wrote there earlier.")
def imagenet(
    directory: Path,
    layout: Layout,
    classes: int,
    images_per_class: int,
    validation_images: int,
    defects: bool,
    seed: int,
    overwrite: bool,
) -> None:
    """Write a made-up ImageNet to DIRECTORY, about 110 KB an image.

    The pictures are computed, not photographed, but have the statistics of photographs,
    and a few are odd in the ways in which ImageNet's are. Equal options give equal bytes.
    """
    # Imported late, so that `dataprep --help` needs neither numpy nor Pillow.
    from tqdm import tqdm

    from dataprep.synthesize.imagenet import synthesize_imagenet
    from dataprep.synthesize.plan import ImageNetPlan

    plan = ImageNetPlan(classes, images_per_class, validation_images, defects)
    quiet = not sys.stderr.isatty()
    with tqdm(total=plan.total, unit="image", disable=quiet, leave=False) as bar:
        summary = synthesize_imagenet(
            directory,
            classes=classes,
            images_per_class=images_per_class,
            validation_images=validation_images,
            layout=layout,
            defects=defects,
            seed=seed,
            overwrite=overwrite,
            progress=bar.update,
        )
    _report(summary)


def _report(summary: Summary) -> None:
    images = summary.training_images + summary.validation_images
    mean = summary.image_bytes / images / 1000
    click.echo(
        f"wrote {summary.directory} (layout {summary.layout}): "
        f"{summary.training_images} training images in {len(summary.synsets)} classes, "
        f"{summary.validation_images} validation images, "
        f"{summary.image_bytes / 1e6:.1f} MB, {mean:.0f} KB an image"
    )
    click.echo(f"grey images: {summary.grey_images}")
    for image in summary.special_images:
        click.echo(f"special: {image.synset}/{image.name} is {_MEANINGS[image.special]}")
    click.echo("next:")
    directory = shlex.quote(str(summary.directory))
    click.echo(f"  dataprep imagenet --raw_data_dir {directory} --local_scratch_dir OUT")
