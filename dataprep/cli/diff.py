"""``dataprep diff``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dataprep.cli.resource_options import WORKERS
from dataprep.errors import DatasetError
from dataprep.system.cores import usable_cores
from dataprep.system.messages import counted


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@WORKERS
def command(a: Path, b: Path, workers: int | None) -> None:
    """Say whether two data sets hold the same examples: keys, labels and images.

    Format, shards and order may differ. If one of them stores arrays of pixels, pixels are
    compared, otherwise the bytes of the image files. Exit code 1 if they do not hold the same.
    """
    from tqdm import tqdm

    from dataprep.build.diff import diff
    from dataprep.build.manifest import read_manifest

    threads = workers or usable_cores()
    total = sum(
        split["records"] for out in (a, b) for split in read_manifest(out)["splits"].values()
    )
    with tqdm(
        desc="diff", total=total, unit="record", leave=False, disable=not sys.stderr.isatty()
    ) as bar:
        found = diff(a, b, threads=threads, progress=bar.update)
    for text in found.missing:
        click.echo(text)
    for split in found.splits:
        for text in split.examples:
            click.echo(f"{split.split}: {text}")
        if split.same:
            order = "the same order" if split.same_order else "another order"
            what = f"the same {counted(split.records[0], 'example')}, in {order}"
        else:
            what = (
                f"{split.only_a:,} only in {a}, {split.only_b:,} only in {b}, "
                f"{split.changed:,} with another image, other labels, boxes or attributes"
            )
            if any(split.repeated):
                what += "; keys that repeat another's: {:,} and {:,}".format(*split.repeated)
        click.echo(f"{split.split}: {what}")
    if not found.same:
        raise DatasetError(f"{a} and {b} do not hold the same examples")
    compared = ["keys", "labels"]
    compared += ["boxes"] * found.boxes + ["attributes"] * found.attributes
    images = "pixels" if found.pixels else "image bytes"
    click.echo(f"same: {', '.join(compared)} and {images}")
