"""``dataprep diff``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dataprep.api.calls import diff
from dataprep.api.options import workers_option
from dataprep.cli.output import PLACE, json_option, show
from dataprep.cli.signals import watched
from dataprep.errors import DatasetError
from dataprep.system.messages import counted

if TYPE_CHECKING:
    from dataprep.sealed.diff import Difference


@click.command(
    "diff",
    params=[
        click.Argument(["a"], type=PLACE),
        click.Argument(["b"], type=PLACE),
        workers_option(),
        json_option("Difference"),
    ],
)
def command(a: Path | str, b: Path | str, workers: int | None, json: bool) -> None:
    """Compare two data sets, A and B: keys, labels, boxes, captions, attributes and images.

    Format, shards and order may differ. The tables of records are compared, with the hashes of the
    images; only if either data set stores pixel arrays are shards read, and pixels compared. Exit
    code 1 if the examples differ.
    """
    with watched("nothing was changed") as display:
        found = diff(a, b, workers=workers, progress=display)
    show(found, json=json, lines=_lines(found, a, b))
    if not found.same:
        raise DatasetError(f"{a} and {b} do not hold the same examples")


def _lines(found: Difference, a: Path | str, b: Path | str) -> Iterator[str]:
    yield from found.missing
    for split in found.splits:
        yield from (f"{split.split}: {text}" for text in split.examples)
        if split.same:
            order = "the same order" if split.same_order else "another order"
            what = f"the same {counted(split.records[0], 'example')}, in {order}"
        else:
            moved = f" ({split.moved:,} in another split of {b})" if split.moved else ""
            what = (
                f"{split.only_a:,} only in {a}{moved}, {split.only_b:,} only in {b}, "
                f"{split.relabelled:,} with other labels, "
                f"{split.changed - split.relabelled:,} with another image, boxes, captions or "
                "attributes"
            )
        yield f"{split.split}: {what}"
    if found.same:
        images = "pixels" if found.pixels else "image bytes"
        yield f"same: keys, labels, boxes, captions, attributes and {images}"
    elif found.versions:
        yield (
            f"made with {'; '.join(found.versions)}: images that are encoded anew may differ for "
            "that; make both with the same versions"
        )
