"""``dataprep convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dataprep.cli.engine_options import ENGINE, chosen_engine
from dataprep.cli.outcome import describe_outcome
from dataprep.cli.resource_options import RESOURCES, within_limits
from dataprep.cli.sink_options import chosen_options, sink_options
from dataprep.cli.striping_options import LUSTRE, chosen_striping
from dataprep.cli.values import shard_counts


@click.command()
@click.argument("source", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="OUT2",
    help="Where the new shards and manifest.json go.",
)
@click.option(
    "--num_shards",
    metavar="COUNTS",
    help="E.g. train=1024,validation=128, or one number for every split. [default: as many as OUT "
    "has, if it has several and the format takes as many; else as `dataprep imagenet` chooses]",
)
@click.option(
    "--layout",
    type=click.Choice(["split", "flat"]),
    default="split",
    show_default=True,
    help="Shards in OUT2/train and OUT2/validation, or all directly in OUT2.",
)
@sink_options(default=None)
@click.option(
    "--check",
    type=click.Choice(["size", "hash", "records", "decode"]),
    default="hash",
    show_default=True,
    help="How OUT is verified first; see `dataprep verify`.",
)
@RESOURCES
@click.option("--overwrite", is_flag=True, help="First delete what an earlier job made in OUT2.")
@LUSTRE
@ENGINE
def command(**options: Any) -> None:
    """Make another format of the data set in OUT, without its raw data.

    Order, labels and image bytes stay; arrays of pixels become PNG where a format stores image
    files. The manifest says what it was made from. Resumes like any other job.
    """
    from dataprep.build.convert_job import ConvertRequest
    from dataprep.cli.progress import TerminalReporter
    from dataprep.cli.stopping import resumable
    from dataprep.cli.verifying import verify_bar

    request = ConvertRequest(
        source=options["source"],
        out=options["out"],
        sink=options["sink"],
        sink_options=chosen_options(options),
        layout=options["layout"],
        num_shards=shard_counts(options["num_shards"]),
        build_dir=options["build_dir"],
        overwrite=options["overwrite"],
        striping=chosen_striping(options),
    )
    how = "finished shards are kept; run the same command again to resume"
    with resumable(how):
        from dataprep_pipelines.run import convert

        engine = chosen_engine(options)
        reporter = TerminalReporter()
        with (
            within_limits(options, here=engine.is_local),
            verify_bar(request.source) as checking,
        ):
            outcome = convert(request, engine, reporter, level=options["check"], checking=checking)
    reporter.line(describe_outcome(request.out, outcome))
