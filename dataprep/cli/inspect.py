"""``dataprep inspect``."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import click

from dataprep.cli.options import flag, number, own
from dataprep.cli.output import PLACE, say, show
from dataprep.errors import DatasetError, UsageError
from dataprep.plugins import load_sink
from dataprep.sinks import DatasetInfo, Sink
from dataprep.sinks.example import Example
from dataprep.system.regular_files import require_regular
from dataprep.training.records import describe

_CAFFE = "data.mdb"  # what is in an LMDB directory
_JSON = (
    "Print the result as JSON: dataprep.Contents; of a shard, a list of dataprep.Example without "
    "images; of raw data, dataprep.Plan."
)
_SINK = "Format of a SHARD that has no manifest above it."
_LABELS = (
    "Print a table of the labels of OUT instead: of each, its images in every split, their share "
    "of the split in percent and, where there is an attribute patient or patient_id, its patients."
)


@click.command(
    "inspect",
    params=[
        click.Argument(["target"], metavar="OUT|SHARD|RAW", type=PLACE),
        number("records", "N", "Records of a shard to show.", 5, least=0),
        own("sink", _SINK, metavar="NAME"),
        flag("json", _JSON),
        own("labels", _LABELS, None, Literal["markdown", "csv"]),
    ],
)
def inspect_command(
    target: Path | str, records: int, sink: str | None, json: bool, labels: str | None
) -> None:
    """Show what is in a data set (OUT), in one of its shards, or in raw data (RAW).

    Of raw data: what it is taken for, and what would be made of it; nothing is written.
    """
    from dataprep.api.contents import inspect

    if isinstance(target, Path) and not target.exists():
        raise DatasetError(f"{target}: no such file or directory; name a data set or a shard")
    if labels is not None:
        from dataprep.api.review import label_table

        say(*label_table(target, labels))
        return
    if isinstance(target, str) or (target.is_dir() and not (target / _CAFFE).is_file()):
        show(inspect(target), json=json)
        return
    shard = target / _CAFFE if target.is_dir() else target
    examples = _first_examples(shard, sink, records)
    lines = (f"{at}: {describe(example)}" for at, example in enumerate(examples))
    show([_without_image(example) for example in examples], json=json, lines=lines)


def _first_examples(shard: Path, sink: str | None, count: int) -> list[Example]:
    from dataprep.sinks.subprocess_reader import read_unverified

    listed = _listed(shard) if sink is None else (load_sink(sink), [shard], DatasetInfo())
    if listed is None:
        raise UsageError(f"{shard}: no manifest.json above says its format; give it with --sink")
    format_, paths, info = listed
    try:
        require_regular(shard)
    except OSError as error:
        raise DatasetError(f"{shard} cannot be read: {error.strerror}; name a shard") from error
    if shard.stat().st_size == 0:
        return []
    with closing(read_unverified(format_, paths, info)) as examples:
        return list(islice(examples, count))


def _listed(shard: Path) -> tuple[Sink, list[Path], DatasetInfo] | None:
    """The format, files and labels of a shard that the manifest above it names."""
    from dataprep.sealed.set import NAME, SealedSet

    out = next((parent for parent in shard.absolute().parents if (parent / NAME).exists()), None)
    if out is None:
        return None
    sealed = SealedSet.read(out)
    for entry in sealed.manifest.shards():
        paths = [out / file.path for file in entry.files]
        if any(path.samefile(shard) for path in paths if path.exists()):
            return sealed.sink, paths, sealed.info
    return None


def _without_image(example: Example) -> dict[str, Any]:
    shown = {field.name: getattr(example, field.name) for field in fields(example)}
    return {**shown, "encoded": None, "bytes": len(example.encoded)}
