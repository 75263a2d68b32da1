"""``dataprep verify``."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.cli.resource_options import WORKERS
from dataprep.errors import DatasetError
from dataprep.system.cores import usable_cores
from dataprep.system.messages import counted, sized


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--level",
    type=click.Choice(["size", "hash", "records", "decode", "reader"]),
    default="hash",
    show_default=True,
    help="size: files are there. hash: and unchanged. records: and well-formed, with the right "
    "labels. decode: and every image decodes. reader: and the format's own reader agrees.",
)
@WORKERS
def command(out: Path, level: str, workers: int | None) -> None:
    """Check a finished data set against its manifest, naming every bad shard.

    OUT is the directory that holds manifest.json. Exit code 1 if anything is wrong.
    """
    from dataprep.build.manifest import manifest_sink, read_manifest
    from dataprep.build.verify import LEVELS, verify
    from dataprep.cli.verifying import verify_bar

    threads = workers or usable_cores()
    checked = LEVELS[LEVELS.index(level)]
    with verify_bar(out) as progress:
        found = verify(out, checked, threads=threads, progress=progress)
    for problem in found.problems:
        click.echo(f"bad: {problem.path}: {problem.what}")
    if found.problems:
        bad = len({problem.path for problem in found.problems})
        mend = (
            "stage it again"
            if found.part
            else (
                "delete damaged shards and run the command that made the data set again: it makes "
                "only those anew"
            )
        )
        raise DatasetError(f"{out}: {bad} of {found.files} files bad; {mend}")
    if checked == "reader":
        level += f": {manifest_sink(read_manifest(out)).reference}"
    click.echo(
        f"{out}: {counted(found.files, 'file')}, {sized(found.bytes)}, {found.records:,} records: "
        f"all good ({level})" + (f", {found.part}" if found.part else "")
    )
