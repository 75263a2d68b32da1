"""``dataprep imagenet``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dataprep.errors import UsageError
from dataprep.wording import counted, sized

if TYPE_CHECKING:
    from dataprep.assembly.request import Request
    from dataprep.images import Recipe

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _options(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_places = _options(
    click.option(
        "--raw_data_dir",
        type=click.Path(path_type=Path),
        required=True,
        metavar="RAW",
        help="Where the raw images are: the original archives, or a tree; the layout is detected.",
    ),
    click.option(
        "--local_scratch_dir",
        type=click.Path(path_type=Path, file_okay=False),
        required=True,
        metavar="OUT",
        help="Where the shards and manifest.json go.",
    ),
    click.option(
        "--index_dir",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Keep the index of the raw data here, to share it between outputs. [default: in OUT]",
    ),
    click.option(
        "--layout",
        type=click.Choice(["split", "flat"]),
        default="split",
        show_default=True,
        help="Shards in OUT/train and OUT/validation, or all directly in OUT.",
    ),
)

_order = _options(
    click.option(
        "--splits", metavar="NAMES", help="Only these, e.g. train,validation. [default: all]"
    ),
    click.option(
        "--num_shards",
        metavar="COUNTS",
        help="E.g. train=1024,validation=128. [default: that, or fewer so that each holds 100]",
    ),
    click.option(
        "--shuffle",
        type=click.Choice(["stratified", "global", "none"]),
        help="How to order the images. [default: stratified for train, none for validation]",
    ),
    click.option(
        "--seed", type=int, default=0, show_default=True, help="Another one, another order."
    ),
    click.option(
        "--limit", type=click.IntRange(min=1), metavar="N", help="Only N images of each split."
    ),
)

_image = _options(
    click.option(
        "--check",
        type=click.Choice(["header", "bitstream", "pixels"]),
        default="bitstream",
        show_default=True,
        help="How far to decode images that are passed through.",
    ),
    click.option(
        "--resize", metavar="SIZE", help="256: the shorter side; 320x256: exactly WIDTHxHEIGHT."
    ),
    click.option("--center_crop", type=int, metavar="SIDE", help="Cut this square, last of all."),
    click.option(
        "--filter",
        "resampling",
        type=click.Choice(["box", "bilinear", "hamming", "bicubic", "lanczos"]),
        default="hamming",
        show_default=True,
        help="Antialiasing filter of --resize.",
    ),
    click.option(
        "--quality", type=int, default=95, show_default=True, help="Of JPEGs that are encoded anew."
    ),
    click.option(
        "--encoding",
        type=click.Choice(["keep", "jpeg", "png"]),
        default="keep",
        show_default=True,
        help="keep: good JPEGs byte for byte.",
    ),
    click.option(
        "--color",
        type=click.Choice(["keep", "rgb", "gray"]),
        default="keep",
        show_default=True,
        help="keep: grey JPEGs stay grey.",
    ),
    click.option(
        "--exif",
        type=click.Choice(["ignore", "apply"]),
        default="ignore",
        show_default=True,
        help="apply: rotate as the orientation tag says; TensorFlow and Pillow ignore it.",
    ),
)

_bad = _options(
    click.option(
        "--max_bad",
        default="0",
        show_default=True,
        metavar="N|P%",
        help="Seal the data set although up to so many images were rejected.",
    ),
    click.option("--keep_rejected", is_flag=True, help="Copy rejected images to OUT/rejected."),
    click.option(
        "--bbox_csv",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        metavar="FILE",
        help="Bounding boxes of training images: name,xmin,ymin,xmax,ymax in fractions.",
    ),
)

_run = _options(
    click.option("--sink", default="tfrecord", show_default=True, help="The format to write."),
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="Cores to use. [default: all]"
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help="First delete what an earlier job made in OUT, and index the raw data anew.",
    ),
    click.argument("beam_options", nargs=-1, type=click.UNPROCESSED, metavar="[-- BEAM_OPTIONS]"),
)


@click.command()
@_places
@_order
@_image
@_bad
@_run
def command(**options: Any) -> None:
    """Turn the raw ILSVRC2012 images into shuffled, verified TFRecord shards.

    Killed at any moment, the same command resumes: only missing shards are made, and the result
    is the same, byte for byte, for any number of workers. Options after -- are Beam's own, e.g.
    -- --runner=FlinkRunner --flink_master=HOST:PORT.
    """
    # Imported here, because Beam takes seconds.
    from dataprep.cli.progress import TerminalReporter
    from dataprep.cli.stopping import resumable

    request = _request(options)
    how = "finished shards are kept; run the same command again to resume"
    with resumable(how):
        from dataprep_pipelines.engine import Engine
        from dataprep_pipelines.prepare import prepare

        workers = options["workers"] or len(os.sched_getaffinity(0))
        reporter = TerminalReporter()
        outcome = prepare(request, Engine(workers, options["beam_options"]), reporter)
    text = f"sealed {request.out / 'manifest.json'}: {counted(outcome.records, 'record')} in "
    text += f"{counted(outcome.shards, 'shard')}, {sized(outcome.bytes)}, "
    text += f"{outcome.rejected} rejected, {outcome.noted} noted"
    reporter.line(text)


def _request(options: dict[str, Any]) -> Request:
    from dataprep.assembly.request import Request
    from dataprep.assembly.seal import MaxBad

    moves_boxes = options["center_crop"] is not None or options["exif"] == "apply"
    if options["bbox_csv"] is not None and moves_boxes:
        raise UsageError(
            "--bbox_csv cannot be combined with --center_crop or --exif apply, "
            "which move what is in the picture; leave one of them out"
        )
    return Request(
        dataset="imagenet",
        raw=options["raw_data_dir"],
        out=options["local_scratch_dir"],
        recipe=_recipe(options),
        max_bad=MaxBad.parse(options["max_bad"]),
        sink=options["sink"],
        layout=options["layout"],
        splits=_names(options["splits"]),
        num_shards=_counts(options["num_shards"]),
        shuffle=options["shuffle"],
        seed=options["seed"],
        limit=options["limit"],
        bbox_csv=options["bbox_csv"],
        index_dir=options["index_dir"],
        keep_rejected=options["keep_rejected"],
        overwrite=options["overwrite"],
    )


def _recipe(options: dict[str, Any]) -> Recipe:
    from dataprep.images import Recipe, Resize

    return Recipe(
        check=options["check"],
        resize=None if options["resize"] is None else Resize.parse(options["resize"]),
        center_crop=options["center_crop"],
        filter=options["resampling"],
        quality=options["quality"],
        encoding=options["encoding"],
        color=options["color"],
        exif=options["exif"],
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _counts(text: str | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for item in [] if text is None else text.split(","):
        name, equals, count = item.strip().partition("=")
        if not equals or not count.isdecimal() or int(count) < 1 or name in counts:
            raise UsageError(
                f"--num_shards {text!r}: expected SPLIT=COUNT once a split, "
                "such as train=1024,validation=128"
            )
        counts[name] = int(count)
    return counts
