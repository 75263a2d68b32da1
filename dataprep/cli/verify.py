"""``dataprep verify``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from dataprep.errors import DatasetError
from dataprep.wording import sized


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--level",
    type=click.Choice(["size", "hash", "records", "decode"]),
    default="hash",
    show_default=True,
    help="size: files are there. hash: and unchanged. records: and well-formed, with the right "
    "labels. decode: and every image decodes.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), metavar="N", help="Cores to use. [default: all]"
)
def command(out: Path, level: str, workers: int | None) -> None:
    """Check a finished data set against its manifest, naming every bad shard.

    OUT is the directory that holds manifest.json. Exit code 1 if anything is wrong.
    """
    from tqdm import tqdm

    from dataprep.manifest import read_manifest
    from dataprep.verify import LEVELS, verify

    threads = workers or len(os.sched_getaffinity(0))
    total = sum(split["bytes"] for split in read_manifest(out)["splits"].values())
    with tqdm(
        desc="verify",
        total=total,
        unit="B",
        unit_scale=True,
        leave=False,
        disable=not sys.stderr.isatty(),
    ) as bar:
        checked = LEVELS[LEVELS.index(level)]
        found = verify(out, checked, threads=threads, progress=bar.update)
    for problem in found.problems:
        click.echo(f"bad: {problem.path}: {problem.what}")
    if found.problems:
        bad = len({problem.path for problem in found.problems})
        raise DatasetError(
            f"{out}: {bad} of {found.files} files bad; delete damaged shards and run the "
            "command that made the data set again: it makes only those anew"
        )
    click.echo(
        f"{out}: {found.files} files, {sized(found.bytes)}, {found.records:,} records: "
        f"all good ({level})"
    )
