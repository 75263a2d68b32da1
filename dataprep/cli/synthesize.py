"""``dataprep synthesize``: made-up raw data, for a first try and for tests."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.cli.options import number
from dataprep.cli.output import say
from dataprep.system.messages import counted, sized

if TYPE_CHECKING:
    from dataprep.synthesize.files import Written


_DIRECTORY = click.Argument(["directory"], type=click.Path(path_type=Path))


@click.group("synthesize")
def synthesize_command() -> None:
    """Write made-up raw data in the layout of a real data set."""


@synthesize_command.command(
    "imagenet",
    params=[
        _DIRECTORY,
        number("classes", "N", "Classes, of the 1000 official ones.", 10),
        number("images_per_class", "N", "Training images in each class.", 30),
    ],
)
def _imagenet(directory: Path, **options: Any) -> None:
    """Write a made-up ImageNet to DIRECTORY, about 110 KB an image.

    The pictures are computed, not photographed, but have the statistics of photographs,
    and a few are odd in the ways in which ImageNet's are. Equal options give equal bytes.
    """
    # Imported late, so that `dataprep --help` needs neither numpy nor Pillow.
    from dataprep.synthesize.imagenet import synthesize_imagenet

    done = synthesize_imagenet(directory, **options)
    classes = counted(options["classes"], "class", "classes")
    _say_done("imagenet", directory, done, f"in {classes}")


@synthesize_command.command(
    "chestxray14",
    params=[
        _DIRECTORY,
        number("patients", "N", "With 3.6 images each in the mean.", 60),
        number("size", "PIXELS", "Pixels a side; the original has 1024.", 256),
    ],
)
def _chestxray14(directory: Path, **options: Any) -> None:
    """Write a made-up ChestX-ray14 of the NIH to DIRECTORY.

    About 31 KB an image at the default size, 430 KB at the original's 1024. The pictures are
    computed, but look like radiographs of the chest; two are RGBA, one has a palette and one
    16 bits. Equal options give equal bytes.
    """
    from dataprep.synthesize.chestxray14 import synthesize_chestxray14

    done = synthesize_chestxray14(directory, **options)
    _say_done("chestxray14", directory, done, f"of {counted(options['patients'], 'patient')}")


def _say_done(name: str, directory: Path, done: Written, what: str) -> None:
    say(f"wrote {directory}: {counted(done.images, 'image')} {what}, {sized(done.image_bytes)}")
    quoted = shlex.quote(str(directory))
    say("next:", f"  dataprep {name} --raw_data_dir {quoted} --local_scratch_dir OUT")
