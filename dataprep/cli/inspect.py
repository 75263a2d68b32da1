"""``dataprep inspect``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any

import click

from dataprep.api.results import as_json
from dataprep.errors import DatasetError, UsageError
from dataprep.plugins import load_sink
from dataprep.records import describe
from dataprep.sinks import DatasetInfo, Sink
from dataprep.sinks.example import Example

_CAFFE = "data.mdb"  # what is in an LMDB directory
_SUFFIXES = {".lmdb": "lmdb-torch", ".rec": "recordio", ".tar": "webdataset"}
_HDF5 = ".h5"  # of several formats
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
@click.option(
    "--json",
    is_flag=True,
    help="Print it as JSON: dataprep.Contents; of a shard, a list of dataprep.Example without "
    "their images.",
)
def command(target: Path, records: int, sink: str | None, json: bool) -> None:
    """Show what is in a data set (OUT, from its manifest) or in one shard."""
    from dataprep.api.calls import inspect
    from dataprep.build.manifest import NAME

    if not target.exists():
        raise DatasetError(f"{target}: no such file or directory")
    if target.is_dir() and not (target / _CAFFE).is_file():
        contents = inspect(target)
        click.echo(as_json(contents) if json else str(contents))
        return
    shard = target / _CAFFE if target.is_dir() else target
    out = next((parent for parent in shard.absolute().parents if (parent / NAME).exists()), None)
    listed = None if out is None or sink is not None else _listed(out, shard)
    chosen = listed or (load_sink(sink or _by_name(shard)), [shard], DatasetInfo())
    examples = _examples(*chosen, records)
    if json:
        click.echo(as_json([_without_image(example) for example in examples]))
    elif not examples and shard.stat().st_size == 0:
        click.echo("0 records: the file is empty")
    for number, example in enumerate(() if json else examples):
        click.echo(f"{number}: {describe(example)}")


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


def _examples(sink: Sink, paths: Sequence[Path], info: DatasetInfo, count: int) -> list[Example]:
    from dataprep.sinks.unverified import read_unverified

    if paths[0].stat().st_size == 0:
        return []
    with closing(read_unverified(sink, paths, info)) as examples:
        return list(islice(examples, count))


def _without_image(example: Example) -> dict[str, Any]:
    shown = {field.name: getattr(example, field.name) for field in fields(example)}
    return {**shown, "encoded": None, "bytes": len(example.encoded)}
