"""``dataprep diff``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.api.calls import diff
from dataprep.api.options import workers_option
from dataprep.api.results import as_json
from dataprep.cli.output import say
from dataprep.cli.signals import watched
from dataprep.errors import DatasetError
from dataprep.system.messages import counted


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", is_flag=True, help="Print what was found as JSON: dataprep.Difference.")
def command(a: Path, b: Path, workers: int | None, json: bool) -> None:
    """Say whether two data sets hold the same examples: keys, labels and images.

    Format, shards and order may differ. If one of them stores arrays of pixels, pixels are
    compared, otherwise the bytes of the image files. Exit code 1 if they do not hold the same.
    """
    with watched("nothing was changed") as display:
        found = diff(a, b, workers=workers, progress=display)
    if json:
        say(*as_json(found).split("\n"))
    for text in () if json else found.missing:
        say(text)
    for split in () if json else found.splits:
        for text in split.examples:
            say(f"{split.split}: {text}")
        if split.same:
            order = "the same order" if split.same_order else "another order"
            what = f"the same {counted(split.records[0], 'example')}, in {order}"
        else:
            what = (
                f"{split.only_a:,} only in {a}, {split.only_b:,} only in {b}, "
                f"{split.changed:,} with another image, other labels, boxes or attributes"
            )
        say(f"{split.split}: {what}")
    if not found.same:
        raise DatasetError(f"{a} and {b} do not hold the same examples")
    if not json:
        compared = ["keys", "labels"]
        compared += ["boxes"] * found.boxes + ["attributes"] * found.attributes
        images = "pixels" if found.pixels else "image bytes"
        say(f"same: {', '.join(compared)} and {images}")


command.params.insert(2, workers_option())
