"""``dataprep inspect``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from dataprep.errors import DatasetError
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Sink
from dataprep.wording import counted, printable, sized

_CAFFE = "data.mdb"  # what is in an LMDB directory
_SUFFIXES = {".h5": "hdf5", ".lmdb": "lmdb-torch", ".rec": "recordio", ".tar": "webdataset"}


@click.command()
@click.argument("target", metavar="OUT|SHARD", type=click.Path(path_type=Path))
@click.option(
    "--records",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="How many records of a shard to show.",
)
@click.option(
    "--sink",
    metavar="NAME",
    help="The format of a lone SHARD. [default: what the manifest above it says, or its name]",
)
def command(target: Path, records: int, sink: str | None) -> None:
    """Show what is in a data set (OUT, from its manifest) or in one shard."""
    from dataprep.manifest import NAME, read_manifest

    if not target.exists():
        raise DatasetError(f"{target}: no such file or directory")
    if target.is_dir() and not (target / _CAFFE).is_file():
        _show_manifest(target, read_manifest(target))
        return
    shard = target / _CAFFE if target.is_dir() else target
    out = next((parent for parent in shard.absolute().parents if (parent / NAME).exists()), None)
    listed = None if out is None or sink is not None else _listed(out, shard)
    chosen = listed or (load_sink(sink or _by_name(shard)), [shard], DatasetInfo())
    _show_shard(*chosen, records)


def _show_manifest(out: Path, manifest: dict[str, Any]) -> None:
    click.echo(f"{out}: {manifest['dataset']}, {manifest['sink']['name']}, seed {manifest['seed']}")
    for ancestor in manifest.get("lineage", ()):
        click.echo(f"converted from {ancestor['sink']['name']} {ancestor['manifest_sha256'][:12]}")
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


def _listed(out: Path, shard: Path) -> tuple[Sink, list[Path], DatasetInfo] | None:
    """The format, files and labels of a shard that a manifest names."""
    from dataprep.manifest import dataset_info, manifest_sink, read_manifest

    manifest = read_manifest(out)
    for split in manifest["splits"].values():
        for entry in split["shards"]:
            paths = [out / file["path"] for file in entry["files"]]
            if any(path.samefile(shard) for path in paths if path.exists()):
                return manifest_sink(manifest), paths, dataset_info(manifest)
    return None


def _by_name(shard: Path) -> str:
    return "lmdb" if shard.name == _CAFFE else _SUFFIXES.get(shard.suffix, "tfrecord")


def _show_shard(sink: Sink, paths: Sequence[Path], info: DatasetInfo, count: int) -> None:
    if paths[0].stat().st_size == 0:
        click.echo("0 records: the file is empty")
        return
    with sink.reader(paths, info) as reader:
        for number, example in enumerate(islice(reader, count)):
            labels = ", ".join(map(str, example.labels)) or "none"
            click.echo(
                f"{number}: {printable(example.filename)}  class {labels} "
                f"{example.synset} {example.class_name}  {example.width}x{example.height} "
                f"{example.colorspace} {example.format}  {len(example.encoded):,} bytes"
                + (f"  {len(example.boxes)} boxes" if example.boxes else "")
            )
