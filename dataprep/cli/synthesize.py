"""``dataprep synthesize``: made-up raw data, for a first try and for tests."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.synthesize.chestxray14.dataset import ChestXray14Summary
    from dataprep.synthesize.chestxray14.layouts import ChestXray14Layout
    from dataprep.synthesize.chestxray14.patients import CsvVersion
    from dataprep.synthesize.imagenet.dataset import Summary
    from dataprep.synthesize.imagenet.layouts import Layout

_PATH = click.Path(path_type=Path)
_MEANINGS = {
    "cmyk": "a CMYK JPEG",
    "png": "a PNG named .JPEG",
    "truncated": "damaged: a JPEG that ends too early",
    "garbage": "damaged: random bytes",
    "empty": "damaged: an empty file",
    "html": "damaged: an HTML page",
}
_RADIOGRAPH_MEANINGS = {
    "rgba": "an RGBA PNG of greys",
    "palette": "a PNG with a palette",
    "sixteen_bit": "a PNG with 16 bits of grey",
    "truncated": "damaged: a PNG that ends too early",
    "missing": "listed, and missing",
    "unlisted": "there, and not listed",
}


@click.group(name="synthesize")
def command() -> None:
    """Write made-up raw data in the layout of a real data set."""


@command.command(name="imagenet")
@click.argument("directory", type=_PATH)
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

    from dataprep.synthesize.imagenet.dataset import synthesize_imagenet
    from dataprep.synthesize.imagenet.plan import ImageNetPlan

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


@command.command(name="chestxray14")
@click.argument("directory", type=_PATH)
@click.option(
    "--layout",
    type=click.Choice(["tar.gz", "tar", "zip", "folders", "flat"]),
    default="tar.gz",
    show_default=True,
    help="The published archives, the same as tars or zips, unpacked into images_0NN/images/, "
    "or all in one images/.",
)
@click.option(
    "--patients",
    type=click.IntRange(3, 30_805),
    show_default="60",
    help="Number of made-up patients, with 3.6 images each in the mean.",
)
@click.option(
    "--csv_version",
    type=click.Choice(["2017", "2020"]),
    show_default="2020",
    help="Form of the made-up label CSV; that of 2017 has ages such as 058Y and 411.",
)
@click.option(
    "--csv",
    type=_PATH,
    help="Make up the images of this Data_Entry_2017 CSV instead, plain or .gz; it is copied.",
)
@click.option(
    "--train_val_list",
    type=_PATH,
    help="Copy this list for the --csv, plain or .gz. Without lists they are cut by patient.",
)
@click.option("--test_list", type=_PATH, help="Copy this list, too.")
@click.option(
    "--bbox_csv",
    type=_PATH,
    help="Copy this BBox_List_2017.csv for the --csv, plain or .gz. Without it there is none.",
)
@click.option(
    "--archives",
    type=click.IntRange(1, 999),
    default=12,
    show_default=True,
    help="Number of archives, cut in the proportions of the published ones.",
)
@click.option(
    "--size",
    type=click.IntRange(8, 4096),
    default=256,
    show_default=True,
    help="Pixels a side; the original has 1024.",
)
@click.option(
    "--defects",
    is_flag=True,
    help="Truncate one image, leave out another, and add one that is not listed.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed, other patients."
)
@click.option("--overwrite", is_flag=True, help="Replace what this command wrote there earlier.")
def chestxray14(
    directory: Path,
    layout: ChestXray14Layout,
    patients: int | None,
    csv_version: CsvVersion | None,
    csv: Path | None,
    train_val_list: Path | None,
    test_list: Path | None,
    bbox_csv: Path | None,
    archives: int,
    size: int,
    defects: bool,
    seed: int,
    overwrite: bool,
) -> None:
    """Write a made-up ChestX-ray14 of the NIH to DIRECTORY.

    About 31 KB an image at the default size, 430 KB at the original's 1024. The pictures are
    computed, but look like radiographs of the chest; two are RGBA, one has a palette and one
    16 bits. Equal options give equal bytes.
    """
    from tqdm import tqdm

    from dataprep.synthesize.chestxray14.dataset import synthesize_chestxray14
    from dataprep.synthesize.chestxray14.plan import plan_chestxray14

    plan = plan_chestxray14(
        patients=patients,
        csv_version=csv_version,
        csv=csv,
        train_val_list=train_val_list,
        test_list=test_list,
        bbox_csv=bbox_csv,
        archives=archives,
        defects=defects,
        seed=seed,
    )
    quiet = not sys.stderr.isatty()
    with tqdm(total=plan.total, unit="image", disable=quiet, leave=False) as bar:
        summary = synthesize_chestxray14(
            directory, plan, layout=layout, size=size, overwrite=overwrite, progress=bar.update
        )
    _report_radiographs(summary)


def _report_radiographs(summary: ChestXray14Summary) -> None:
    cut = "" if summary.layout == "flat" else f" in {counted(summary.archives, 'archive')}"
    click.echo(
        f"wrote {summary.directory} (layout {summary.layout}): "
        f"{counted(summary.images, 'image')} of {counted(summary.patients, 'patient')}{cut}, "
        f"{sized(summary.image_bytes)}, "
        f"{summary.image_bytes / summary.images / 1000:.1f} KB an image"
    )
    click.echo(f"with {', '.join(summary.documents)}")
    for image in summary.special_images:
        click.echo(f"special: {image.name} is {_RADIOGRAPH_MEANINGS[image.special]}")
    click.echo("next:")
    directory = shlex.quote(str(summary.directory))
    click.echo(f"  dataprep chestxray14 --raw_data_dir {directory} --local_scratch_dir OUT")
