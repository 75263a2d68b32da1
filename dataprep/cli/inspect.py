"""``dataprep inspect``."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from dataprep.errors import DatasetError
from dataprep.wording import counted, printable, sized


@click.command()
@click.argument("target", metavar="OUT|SHARD", type=click.Path(path_type=Path))
@click.option(
    "--records",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many records of a shard to show.",
)
@click.option("--sink", default="tfrecord", show_default=True, help="The format of a lone SHARD.")
def command(target: Path, records: int, sink: str) -> None:
    """Show what is in a data set (OUT, from its manifest) or in one shard."""
    from dataprep.manifest import read_manifest

    if target.is_dir():
        _show_manifest(target, read_manifest(target))
    elif target.is_file():
        _show_shard(target, records, sink)
    else:
        raise DatasetError(f"{target}: no such file or directory")


def _show_manifest(out: Path, manifest: dict[str, Any]) -> None:
    click.echo(f"{out}: {manifest['dataset']}, {manifest['sink']['name']}, seed {manifest['seed']}")
    for name, split in manifest["splits"].items():
        smallest, largest = split["records_per_shard"]
        size = f"{largest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
        click.echo(
            f"{name}: {split['records']:,} records of {split['images_found']:,} images, "
            f"{sized(split['bytes'])}, {len(split['class_records'])} classes, "
            f"shuffle {manifest['shuffle'][name]}"
        )
        click.echo(
            f"  {counted(len(split['shards']), 'shard')} of {size} records; "
            f"no class differs by more than {split['class_spread']} between two shards"
        )
        click.echo(
            f"  {len(split['rejected'])} rejected, {len(split['noted'])} noted, "
            f"{len(split['ignored'])} ignored; first shard {split['shards'][0]['files'][0]['path']}"
        )


def _show_shard(shard: Path, count: int, sink: str) -> None:
    from dataprep.plugins import load_sink

    if shard.stat().st_size == 0:
        click.echo("0 records: the file is empty")
    for number, example in enumerate(islice(load_sink(sink).read([shard]), count)):
        click.echo(
            f"{number}: {printable(example.filename)}  class {example.class_index} "
            f"{example.synset} {example.class_name}  {example.width}x{example.height} "
            f"{example.colorspace} {example.format}  {len(example.encoded):,} bytes"
            + (f"  {len(example.boxes)} boxes" if example.boxes else "")
        )
