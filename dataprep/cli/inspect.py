"""``dataprep inspect``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import click

from dataprep.errors import DatasetError, UsageError
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Sink
from dataprep.system.messages import counted, printable, sized

_CAFFE = "data.mdb"  # what is in an LMDB directory
_SUFFIXES = {".lmdb": "lmdb-torch", ".rec": "recordio", ".tar": "webdataset"}
_HDF5 = ".h5"  # of several formats
_SHOWN = 5  # images that are not just stored
_OF_A_SPLIT = (".txt", ".binaryproto")  # Caffe's list of files, and its mean image


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
    from dataprep.build.manifest import NAME, read_manifest

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
    from dataprep.build.part import present, read_part

    click.echo(f"{out}: {manifest['dataset']}, {manifest['sink']['name']}, seed {manifest['seed']}")
    for ancestor in manifest.get("lineage", ()):
        click.echo(f"converted from {ancestor['sink']['name']} {ancestor['manifest_sha256'][:12]}")
    unmatched = manifest.get("unmatched", {"missing": 0, "unlisted": 0})
    if unmatched["missing"] or unmatched["unlisted"]:
        click.echo(
            f"{counted(unmatched['missing'], 'image')} listed but not there, "
            f"{unmatched['unlisted']:,} there but not listed"
        )
    for what, number in manifest.get("counts", {}).items():
        click.echo(f"{what}: {number:,} in the raw data")
    part = read_part(out, manifest)
    if part is not None:
        absent = [name for name in manifest["splits"] if name not in part.splits]
        click.echo(f"{part} is here" + (f", nothing of {', '.join(absent)}" if absent else ""))
    for name, split in present(out, manifest)["splits"].items():
        whole = manifest["splits"][name]
        if len(split["shards"]) < len(whole["shards"]):
            _show_part(name, split, whole)
            continue
        size = _range_of_shards(split)
        click.echo(
            f"{name}: {split['records']:,} records of {split['images_found']:,} images, "
            f"{sized(split['bytes'])}, {len(split['class_records'])} classes, "
            f"shuffle {manifest['shuffle'][name]}"
        )
        click.echo(
            f"  {counted(len(split['shards']), 'shard')} of {size} records; "
            f"no class differs by more than {split['class_spread']} between two shards"
        )
        counts = ", ".join(f"{split[name]:,} {name}" for name in ("rejected", "repaired", "warned"))
        click.echo(f"  {counts}; first shard {split['shards'][0]['files'][0]['path']}")
        if split["statistics"] and split["statistics"]["images"]:
            _show_statistics(split["statistics"])
    _show_conspicuous(out, manifest)


def _show_conspicuous(out: Path, manifest: dict[str, Any]) -> None:
    """The first images that are not just stored, and why; the table names all."""
    from dataprep.index.records import NAME, conspicuous

    totals = manifest["totals"]
    number = sum(totals.values()) - totals["records"]
    columns = ("status", "split", "key", "reason")
    for status, split, key, reason in conspicuous(out / NAME, columns, most=_SHOWN):
        text = f"{status}: {split}: {key}" if split else f"{status}: {key}"
        click.echo(printable(f"{text}: {reason}" if reason else text))
    if number > _SHOWN:
        click.echo(f"and {number - _SHOWN:,} more; {NAME} names all of them")


def _show_part(name: str, split: dict[str, Any], whole: dict[str, Any]) -> None:
    """What is here of a split, and of how much."""
    click.echo(
        f"{name}: {split['records']:,} of {whole['records']:,} records, {sized(split['bytes'])}"
    )
    click.echo(
        f"  {len(split['shards']):,} of {counted(len(whole['shards']), 'shard')} of "
        f"{_range_of_shards(split)} records; "
        f"first shard {split['shards'][0]['files'][0]['path']}"
    )


def _range_of_shards(split: dict[str, Any]) -> str:
    smallest, largest = split["records_per_shard"]
    return f"{largest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"


def _show_statistics(found: dict[str, Any]) -> None:
    formats = ", ".join(f"{count:,} {kind}" for kind, count in found["formats"].items())
    click.echo(
        f"  {formats}; {_range(found['width'])} wide, {_range(found['height'])} high, "
        f"{sized(found['bytes']['mean'])} an image"
    )
    if found["mean"] is not None:
        channels = "R, G, B" if len(found["mean"]) == 3 else "grey"
        mean, std = (", ".join(f"{value:.2f}" for value in found[key]) for key in ("mean", "std"))
        click.echo(f"  pixels ({channels}; 0 to 255): mean {mean}; standard deviation {std}")


def _range(found: dict[str, Any]) -> str:
    smallest, largest = found["min"], found["max"]
    return f"{smallest}" if smallest == largest else f"{smallest} to {largest}"


def _listed(out: Path, shard: Path) -> tuple[Sink, list[Path], DatasetInfo] | None:
    """The format, files and labels of a shard that a manifest names, or of a file over all shards.

    Raises:
        UsageError: it is a file of the split that holds no records.
    """
    from dataprep.build.manifest import dataset_info, manifest_sink, read_manifest

    manifest = read_manifest(out)
    for split in manifest["splits"].values():
        for entry in split["shards"]:
            paths = [out / file["path"] for file in entry["files"]]
            if any(path.samefile(shard) for path in paths if path.exists()):
                return manifest_sink(manifest), paths, dataset_info(manifest)
        first = Path(split["shards"][0]["files"][0]["path"])
        for file in split["files"]:
            path = out / file["path"]
            if path.exists() and path.samefile(shard):
                if path.suffix != first.suffix:
                    raise _no_shard(shard, f"such as {out / first}")
                return manifest_sink(manifest), [path], dataset_info(manifest)
    return None


def _by_name(shard: Path) -> str:
    """The format of a lone file; HDF5 files say it themselves."""
    if shard.suffix in _OF_A_SPLIT:
        raise _no_shard(shard, "or say its format with --sink")
    if shard.suffix == _HDF5:
        from dataprep.sinks.hdf5_file import formats_of
        from dataprep.sinks.unverified import in_child

        (found,) = in_child(shard, formats_of, shard)
        if found is None:
            raise DatasetError(f"{shard}: it has no attribute dataprep_format, so it is not ours")
        return found
    return "lmdb" if shard.name == _CAFFE else _SUFFIXES.get(shard.suffix, "tfrecord")


def _no_shard(path: Path, instead: str) -> UsageError:
    return UsageError(f"{path} is no shard: it was made once for its split; look at one, {instead}")


def _show_shard(sink: Sink, paths: Sequence[Path], info: DatasetInfo, count: int) -> None:
    from dataprep.sinks.unverified import read_unverified

    if paths[0].stat().st_size == 0:
        click.echo("0 records: the file is empty")
        return
    with closing(read_unverified(sink, paths, info)) as examples:
        for number, example in enumerate(islice(examples, count)):
            labels = ", ".join(map(str, example.labels)) or "none"
            name = example.class_name if example.class_name != example.synset else ""
            click.echo(
                f"{number}: {printable(example.key)}  "
                + " ".join(filter(None, ["class", labels, example.synset, name]))
                + f"  {example.width}x{example.height} "
                f"{example.colorspace} {example.format}  {len(example.encoded):,} bytes"
                + (f"  {counted(len(example.boxes), 'box', 'boxes')}" if example.boxes else "")
                + "".join(f"  {name} {value}" for name, value in example.attributes.items())
            )
