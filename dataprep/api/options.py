"""Every option of ``prepare``, ``convert`` and the like: its name, type, default and help, once.

The commands show this table and parse words with it; the Python calls take the same names as
keywords, with the same defaults, and refuse what is wrong with the same message.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dataprep.api.parameters import ByteSize, Names, ShardCounts, nearest, parameters_of
from dataprep.api.striping_options import LUSTRE
from dataprep.errors import DataprepError, UsageError

if TYPE_CHECKING:
    from dataprep.datasets.base import Dataset
    from dataprep.datasets.base import Option as DatasetOption

_LEAST_RATE = 100_000  # bytes a second; below, a forgotten unit is likelier than the wish

SECTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "Input": ("raw_data_dir", "splits", "limit", "index_dir"),
    "Output": (
        *("local_scratch_dir", "to", "sink", "num_shards", "overwrite", "max_bad", "stats"),
        *("preset", "layout", "sink_option", "datum"),
    ),
    "Images": (
        *("resize", "center_crop", "quality", "encoding", "color", "check"),
        *("filter", "depth", "exif"),
    ),
    "Order": ("shuffle", "seed"),
    "This machine": ("workers", "io_limit", "nice", "build_dir"),
    "Cluster": (
        *("runner", "dask_client_address", "dask_scheduler_file", "dask_slurm", "dask_patience"),
        *("lustre_stripe", "lustre_max_stripes", "lustre_pool"),
    ),
}
"""Where ``--help`` shows an option; a data set's own are input."""

LESS_COMMON: Final = frozenset(
    [
        *("index_dir", "layout", "sink_option", "datum", "preset"),
        *("filter", "depth", "exif", "nice", "build_dir", "dask_scheduler_file", "dask_slurm"),
        *("dask_client_address", "dask_patience"),
        *("lustre_stripe", "lustre_max_stripes", "lustre_pool"),
    ]
)
"""What only ``--help-all`` shows."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Options that somebody has published, by name, and what they are for."""

    what: str
    options: Mapping[str, object]


PRESETS: Final[Mapping[str, Preset]] = {
    # NVIDIA's and Intel's MXNet best practice: im2rec --resize 480 --quality 95.
    "mxnet-480": Preset(
        "--sink recordio --resize 480 --quality 95, MXNet's best practice",
        {"sink": "recordio", "resize": "480", "quality": 95},
    ),
    # Radiograph classifiers of the best-practice guide, table 10: 250 x 250 x 1.
    "radiologist": Preset(
        "--resize 250x250 --color gray, radiographs of 250x250x1",
        {"resize": "250x250", "color": "gray"},
    ),
}


def workers_option() -> click.Option:
    """``--workers`` of the commands that only read."""
    help_text = "Cores to use. [default: the cores this process may use]"
    return click.Option(["--workers"], type=click.IntRange(min=1), metavar="N", help=help_text)


def prepare_options(dataset: type[Dataset]) -> list[click.Option]:
    """The options of a data set: those that all share, with its defaults, and its own.

    Raises:
        DataprepError: it has one that all share, or a default of one that there is not.
    """
    own = [_own_option(option) for option in dataset.OPTIONS]
    table = [*_places(), *own, *_order(), *_images(), *_sink("tfrecord"), *_sealing(), *_run()]
    spelled = Counter(name for option in table for name in option.opts)
    shared = {option.name for option in table}
    wrong = [f"--{option.name}" for option in dataset.OPTIONS if spelled[f"--{option.name}"] > 1]
    wrong += [f"the default of --{name}" for name in dataset.defaults if name not in shared]
    if wrong:
        raise DataprepError(
            f"data set {dataset.name} cannot have {wrong[0]}: that is for options which all data "
            "sets share, and only for those; this is a defect of the data set"
        )
    for option in table:
        if option.name in dataset.defaults:
            option.default = dataset.defaults[option.name]
    return table


def convert_options() -> list[click.Option]:
    """The options of ``convert``."""
    counts = (
        "E.g. train=1024,validation=128, or one number for every split. [default: as many as OUT "
        "has, if it has several and the format takes as many; else as `dataprep imagenet` chooses]"
    )
    levels = ["size", "hash", "records", "decode"]
    return [
        _directory("to", "OUT2", "Where the new shards and manifest.json go.", required=True),
        _option("num_shards", counts, type=ShardCounts(), metavar="COUNTS"),
        _layout("OUT2"),
        *_sink(None),
        *_images_anew(),
        _choice("check", levels, "hash", "How OUT is verified first; see `dataprep verify`."),
        *_resources(),
        _flag("overwrite", "First delete what an earlier job made in OUT2."),
        *_lustre(),
        *_engine(),
    ]


def own_values(dataset: type[Dataset], values: Mapping[str, Any]) -> dict[str, str]:
    """What was given for a data set's own options, as it wants it."""
    found = {option.name: values[option.name] for option in dataset.OPTIONS}
    return {
        # Absolute, because workers need not have this process's working directory.
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in found.items()
        if value is not None
    }


def resolve(
    call: str, table: Sequence[click.Option], given: Mapping[str, object]
) -> dict[str, Any]:
    """The value of every option: what was given, converted and checked, or its default.

    Args:
        call: what to call the call in messages.
        table: its options.
        given: by any of an option's names; None is as good as nothing.

    Raises:
        UsageError: there is no such option, it cannot have this value, or one is missing.
    """
    by_name = {name.lstrip("-"): option for option in table for name in option.opts}
    chosen: dict[str, object] = {}
    for name, value in given.items():
        if name not in by_name:
            meant = nearest(name, by_name)
            hint = f"; did you mean {meant}?" if meant else ""
            raise UsageError(f"{call} has no option {name!r}{hint}")
        own = str(by_name[name].name)
        if value is not None and chosen.setdefault(own, value) is not value:
            raise UsageError(f"{call} got {' and '.join(by_name[name].opts)}, which are the same")
    context = click.Context(click.Command(call))
    values: dict[str, Any] = {}
    for option in table:
        own = str(option.name)
        try:
            if own in chosen:
                values[own] = option.process_value(context, _words(option, chosen[own]))
            elif option.required:
                raise click.MissingParameter(ctx=context, param=option)
            else:
                values[own] = _default(option, context)
        except click.ClickException as error:
            raise UsageError(f"{call}: {' '.join(error.format_message().split())}") from error
    return _with_preset(values, chosen)


def _words(option: click.Option, value: object) -> object:
    """A value as click takes it: of an option that may be repeated, a list."""
    if option.multiple and isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    return [value] if option.multiple and isinstance(value, str) else value


def _default(option: click.Option, context: click.Context) -> object:
    value = option.get_default(context)
    # Since click 8.3 there is a mark of its own for no default.
    if value is None or type(value).__name__ == "Sentinel":
        return () if option.multiple else False if option.is_flag else None
    return option.type_cast_value(context, value)


def _with_preset(values: dict[str, Any], chosen: Mapping[str, object]) -> dict[str, Any]:
    name = values.get("preset")
    if name is None:
        return values
    for option, value in PRESETS[name].options.items():
        if option in chosen and values[option] != value:
            raise UsageError(
                f"--preset {name} means --{option} {value}, but --{option} {values[option]} "
                "was given; leave one of them out"
            )
    return {**values, **PRESETS[name].options}


def summary_of(dataset: type[Dataset]) -> str:
    """What a data set says of itself."""
    return inspect.cleandoc(dataset.summary)


def _option(name: str, help_text: str, *, also: str = "", **settings: Any) -> click.Option:
    # Not default=None: since click 8.3 that is a default like any other.
    if settings.get("default") is not None:
        settings.setdefault("show_default", True)
    names = [f"--{also}", f"--{name}"] if also else [f"--{name}"]
    return click.Option([*names, name], help=help_text, **settings)


def _flag(name: str, help_text: str) -> click.Option:
    return click.Option([f"--{name}"], is_flag=True, help=help_text)


def _choice(
    name: str, choices: Sequence[str], default: str | None, help_text: str, **settings: Any
) -> click.Option:
    chosen = {} if default is None else {"default": default}
    return _option(name, help_text, type=click.Choice(choices), **chosen, **settings)


def _number(name: str, metavar: str, help_text: str, least: int = 1, **more: Any) -> click.Option:
    return _option(name, help_text, type=click.IntRange(min=least), metavar=metavar, **more)


def _directory(name: str, metavar: str, help_text: str, **settings: Any) -> click.Option:
    kind = click.Path(path_type=Path, file_okay=False)
    return _option(name, help_text, metavar=metavar, **{"type": kind, **settings})


def _own_option(option: DatasetOption) -> click.Option:
    kind: Any = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.file:
        kind = click.Path(path_type=Path, dir_okay=False, exists=True)
    # Not click's own metavar, which would show choices as it normalizes them: `-` as `_`.
    metavar = f"[{'|'.join(option.choices)}]" if option.choices else option.metavar
    default = {} if option.default is None else {"default": option.default}
    return _option(option.name, option.help, type=kind, metavar=metavar, **default)


def _places() -> list[click.Option]:
    raw = "Where the raw images are, as they were published; the layout is detected."
    out = "Where the shards and manifest.json go."
    index = "Keep the index of the raw data here, to share it between outputs. [default: in OUT]"
    # That RAW is a directory is for the data set to say.
    path = click.Path(path_type=Path)
    return [
        _directory("raw_data_dir", "RAW", raw, also="raw", required=True, type=path),
        _directory("local_scratch_dir", "OUT", out, also="out", required=True),
        _directory("index_dir", "DIR", index),
        _layout("OUT"),
    ]


def _layout(out: str) -> click.Option:
    text = f"Shards in {out}/train, {out}/validation and so on, or all directly in {out}."
    return _choice("layout", ["split", "flat"], "split", text)


def _order() -> list[click.Option]:
    counts = (
        "E.g. train=1024,validation=128, or one number for every split. [default: that, or fewer "
        "so that each holds 100; at most 64 for hdf5 and hdf5-arrays; 1 for formats with one file "
        "a split]"
    )
    shuffle = "How to order the images. [default: stratified for train, none for validation]"
    splits = "Only these, e.g. train,validation. [default: all]"
    return [
        _option("splits", splits, type=Names(), metavar="NAMES"),
        _option("num_shards", counts, type=ShardCounts(), metavar="COUNTS"),
        _choice("shuffle", ["stratified", "global", "none"], None, shuffle),
        _number("seed", "N", "Random seed for shuffling.", least=0, default=0),
        _number("limit", "N", "Only N images of each split."),
    ]


def _images() -> list[click.Option]:
    filters = "[box|bilinear|bicubic|mitchell|lanczos]"
    encoding = "keep: good images byte for byte. raw: pixels, for formats that store them."
    exif = "apply: rotate as the orientation tag says; TensorFlow and Pillow ignore it."
    check = "How far to decode images that are passed through."
    depth = "Bits of a grey value; keep: 16-bit grey PNGs keep theirs."
    return [
        _choice("check", ["header", "bitstream", "pixels"], "bitstream", check),
        _option("resize", "256: the shorter side; 320x256: exactly WIDTHxHEIGHT.", metavar="SIZE"),
        _option("center_crop", "Cut this square, last of all.", type=int, metavar="SIDE"),
        _option("filter", "Antialiasing filter of --resize.", metavar=filters, default="bicubic"),
        _option("quality", "Of JPEGs that are encoded anew.", type=int, default=95),
        _choice("encoding", ["keep", "jpeg", "png", "raw"], "keep", encoding),
        _choice("color", ["keep", "rgb", "gray"], "keep", "keep: grey images stay grey."),
        _choice("depth", ["8", "keep"], "8", depth),
        _choice("exif", ["ignore", "apply"], "ignore", exif),
    ]


ANEW: Final = ("resize", "center_crop", "filter", "quality", "encoding", "color")
"""Options of ``convert`` that decode the images and encode them anew."""


def _images_anew() -> list[click.Option]:
    quality = "Of JPEGs that are encoded anew; alone, all images become such. [default: 95]"
    encoding = "[default: JPEG stays JPEG, and PNG stays PNG; arrays become PNG]"
    texts = {"quality": quality, "encoding": encoding, "color": "[default: as in OUT]"}
    table = [option for option in _images() if option.name in ANEW]
    for option in table:
        option.default = option.show_default = None
        option.help = texts.get(str(option.name), option.help)
    return table


def _sink(default: str | None) -> list[click.Option]:
    """``--sink`` and what belongs to it; without a default it must be given."""
    chosen: dict[str, Any] = {"required": True} if default is None else {"default": default}
    sink = "The format to write; `dataprep sinks` lists them."
    option = "An option of the format; `dataprep sinks` lists them. May be repeated."
    datum = "--sink lmdb: image files, or arrays of pixels, all of one size."
    build = (
        "Build LMDB and HDF5 files here, then copy them. [default: node-local scratch if the "
        "output is on a network file system]"
    )
    there = click.Path(path_type=Path, file_okay=False, exists=True, writable=True)
    return [
        _option("sink", sink, metavar="NAME", **chosen),
        _option("sink_option", option, multiple=True, metavar="NAME=VALUE"),
        _choice("datum", ["encoded", "raw"], None, datum),
        _directory("build_dir", "DIR", build, type=there),
    ]


def _sealing() -> list[click.Option]:
    presets = "; ".join(f"{name}: {preset.what}" for name, preset in PRESETS.items()) + "."
    names = f"[{'|'.join(PRESETS)}]"
    stats = (
        "Put image statistics into the manifest: sizes, formats and, where pixels are decoded "
        "anyway, channel means. mean: and, with --sink lmdb, Caffe's mean image."
    )
    bare: dict[str, Any] = {"is_flag": False, "flag_value": "on", "show_default": False}
    bad = "Seal the data set although up to so many images were rejected."
    return [
        _option("preset", presets, metavar=names, callback=_known_preset),
        _choice("stats", ["off", "on", "mean"], "off", stats, **bare),
        _option("max_bad", bad, default="0", metavar="N|P%"),
    ]


def _known_preset(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    """Refuse an unknown name; click's own choices would take ``-`` and ``_`` for the same."""
    if name is not None and name not in PRESETS:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(PRESETS)}.", context, option)
    return name


def _resources() -> list[click.Option]:
    workers = (
        "Cores of this machine to use. With one of Beam's runners: threads of each of its "
        "workers. It says nothing to Dask's workers, which have threads of their own. [default: "
        "the cores this process may use]"
    )
    nice = "Let other processes of this machine go first: run with this niceness, 1 to 19."
    limit = (
        "Read and write at most so many bytes a second, all processes on this machine together, "
        "e.g. 200MB. [default: no bound]"
    )
    return [
        _number("workers", "N", workers),
        _option("nice", nice, type=click.IntRange(0, 19), metavar="N"),
        _option("io_limit", limit, type=ByteSize(least=_LEAST_RATE), metavar="SIZE"),
    ]


def _run() -> list[click.Option]:
    overwrite = "First delete what an earlier job made in OUT, and index the raw data anew."
    return [*_resources(), _flag("overwrite", overwrite), *_lustre(), *_engine()]


def _lustre() -> list[click.Option]:
    return [option for option in parameters_of(LUSTRE) if isinstance(option, click.Option)]


PATIENCE: Final = 300
"""Seconds without any of Dask's workers before a run gives up."""


def _engine() -> list[click.Option]:
    runner = (
        "direct: this machine. dask: a Dask cluster. Or one of Beam's, e.g. FlinkRunner; its own "
        "options follow `--`."
    )
    slurm = (
        "Start Dask's workers as Slurm jobs, and end them: "
        "nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...]."
    )
    address = "A Dask scheduler, e.g. tcp://10.0.0.1:8786."
    written = "A file in which a Dask scheduler writes its address, as dask-mpi's does."
    file = click.Path(path_type=Path, dir_okay=False)
    patience = f"Give up when there is no Dask worker for so long. [default: {PATIENCE}]"
    seconds = click.FloatRange(min=1)
    return [
        _option("runner", runner, default="direct", metavar="NAME"),
        _option("dask_client_address", address, metavar="ADDRESS"),
        _option("dask_scheduler_file", written, type=file, metavar="FILE"),
        _option("dask_slurm", slurm, metavar="WHAT"),
        _option("dask_patience", patience, type=seconds, metavar="SECONDS"),
    ]
