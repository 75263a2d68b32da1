"""``dataprep imagenet``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dataprep.cli.beam_options import beam_options
from dataprep.cli.outcome import describe_outcome
from dataprep.cli.presets import PRESETS, apply_preset, check_preset
from dataprep.cli.sink_options import chosen_options, options, sink_options
from dataprep.cli.values import shard_counts
from dataprep.errors import UsageError

if TYPE_CHECKING:
    from dataprep.assembly.request import Request
    from dataprep.images import Recipe

_places = options(
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

_order = options(
    click.option(
        "--splits", metavar="NAMES", help="Only these, e.g. train,validation. [default: all]"
    ),
    click.option(
        "--num_shards",
        metavar="COUNTS",
        help="E.g. train=1024,validation=128, or one number for every split. [default: that, or "
        "fewer so that each holds 100; at most 64 for hdf5 and hdf5-arrays; 1 for formats with one "
        "file a split]",
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

_image = options(
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

_bad = options(
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

_format = options(
    sink_options(default="tfrecord"),
    click.option(
        "--preset",
        metavar=f"[{'|'.join(PRESETS)}]",
        callback=check_preset,
        help="; ".join(f"{name}: {preset.what}" for name, preset in PRESETS.items()) + ".",
    ),
    click.option(
        "--stats",
        type=click.Choice(["off", "on", "mean"]),
        is_flag=False,
        flag_value="on",
        default="off",
        help="Put image statistics into the manifest: sizes, formats and, where pixels are decoded "
        "anyway, channel means. mean: and, with --sink lmdb, Caffe's mean image.",
    ),
)

_run = options(
    click.option(
        "--workers", type=click.IntRange(min=1), metavar="N", help="Cores to use. [default: all]"
    ),
    click.option(
        "--overwrite",
        is_flag=True,
        help="First delete what an earlier job made in OUT, and index the raw data anew.",
    ),
    beam_options,
)


@click.command()
@_places
@_order
@_image
@_format
@_bad
@_run
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Turn the raw ILSVRC2012 images into shuffled, verified shards.

    Killed at any moment, the same command resumes: only missing shards are made, and the result
    is the same, byte for byte, for any number of workers. Options after -- are Beam's own, e.g.
    -- --runner=FlinkRunner --flink_master=HOST:PORT.
    """
    # Imported here, because Beam takes seconds.
    from dataprep.cli.progress import TerminalReporter
    from dataprep.cli.stopping import resumable

    request = _request(apply_preset(context, values))
    how = "finished shards are kept; run the same command again to resume"
    with resumable(how):
        from dataprep_pipelines.engine import Engine
        from dataprep_pipelines.prepare import prepare

        workers = values["workers"] or len(os.sched_getaffinity(0))
        reporter = TerminalReporter()
        outcome = prepare(request, Engine(workers, values["beam_options"]), reporter)
    reporter.line(describe_outcome(request.out, outcome))


def _request(values: dict[str, Any]) -> Request:
    from dataprep.assembly.request import Request
    from dataprep.assembly.seal import MaxBad

    moves_boxes = values["center_crop"] is not None or values["exif"] == "apply"
    if values["bbox_csv"] is not None and moves_boxes:
        raise UsageError(
            "--bbox_csv cannot be combined with --center_crop or --exif apply, "
            "which move what is in the picture; leave one of them out"
        )
    return Request(
        dataset="imagenet",
        raw=values["raw_data_dir"],
        out=values["local_scratch_dir"],
        recipe=_recipe(values),
        max_bad=MaxBad.parse(values["max_bad"]),
        sink=values["sink"],
        sink_options=chosen_options(values),
        layout=values["layout"],
        splits=_names(values["splits"]),
        num_shards=shard_counts(values["num_shards"]),
        shuffle=values["shuffle"],
        seed=values["seed"],
        limit=values["limit"],
        bbox_csv=values["bbox_csv"],
        index_dir=values["index_dir"],
        build_dir=values["build_dir"],
        keep_rejected=values["keep_rejected"],
        overwrite=values["overwrite"],
    )


def _recipe(values: dict[str, Any]) -> Recipe:
    from dataprep.images import Recipe, Resize

    return Recipe(
        check=values["check"],
        resize=None if values["resize"] is None else Resize.parse(values["resize"]),
        center_crop=values["center_crop"],
        filter=values["resampling"],
        quality=values["quality"],
        encoding=values["encoding"],
        color=values["color"],
        exif=values["exif"],
        statistics=values["stats"],
    )


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
