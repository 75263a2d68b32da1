"""The options that the commands of all data sets share, in groups."""

from __future__ import annotations

from pathlib import Path

import click

from dataprep.cli.engine_options import ENGINE
from dataprep.cli.presets import PRESETS, check_preset
from dataprep.cli.resource_options import RESOURCES
from dataprep.cli.sink_options import options, sink_options
from dataprep.cli.striping_options import LUSTRE

PLACES = options(
    click.option(
        "--raw_data_dir",
        type=click.Path(path_type=Path),
        required=True,
        metavar="RAW",
        help="Where the raw images are, as they were published; the layout is detected.",
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
        help="Shards in OUT/train, OUT/validation and so on, or all directly in OUT.",
    ),
)

ORDER = options(
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

IMAGE = options(
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
        metavar="[box|bilinear|bicubic|mitchell|lanczos]",
        default="bicubic",
        show_default=True,
        help="Antialiasing filter of --resize.",
    ),
    click.option(
        "--quality", type=int, default=95, show_default=True, help="Of JPEGs that are encoded anew."
    ),
    click.option(
        "--encoding",
        type=click.Choice(["keep", "jpeg", "png", "raw"]),
        default="keep",
        show_default=True,
        help="keep: good images byte for byte. raw: pixels, for formats that store them.",
    ),
    click.option(
        "--color",
        type=click.Choice(["keep", "rgb", "gray"]),
        default="keep",
        show_default=True,
        help="keep: grey images stay grey.",
    ),
    click.option(
        "--depth",
        type=click.Choice(["8", "keep"]),
        default="8",
        show_default=True,
        help="Bits of a grey value; keep: 16-bit grey PNGs keep theirs.",
    ),
    click.option(
        "--exif",
        type=click.Choice(["ignore", "apply"]),
        default="ignore",
        show_default=True,
        help="apply: rotate as the orientation tag says; TensorFlow and Pillow ignore it.",
    ),
)

BAD = options(
    click.option(
        "--max_bad",
        default="0",
        show_default=True,
        metavar="N|P%",
        help="Seal the data set although up to so many images were rejected.",
    ),
    click.option("--keep_rejected", is_flag=True, help="Copy rejected images to OUT/rejected."),
)

FORMAT = options(
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

RUN = options(
    RESOURCES,
    click.option(
        "--overwrite",
        is_flag=True,
        help="First delete what an earlier job made in OUT, and index the raw data anew.",
    ),
    LUSTRE,
    ENGINE,
)
