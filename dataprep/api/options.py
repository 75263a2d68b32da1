"""Every option of ``prepare``, ``convert``, ``stage`` and the like: name, type, default, help.

The commands show this table and parse words with it; the Python calls take the same names as
keywords, with the same defaults, and refuse what is wrong with the same message.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dataprep.api.parameters import (
    Option,
    Parsed,
    byte_size,
    choice,
    directory,
    flag,
    in_section,
    names,
    number,
    option,
    part,
    shard_counts,
    stripes,
)
from dataprep.errors import DataprepError

if TYPE_CHECKING:
    from dataprep.datasets.base import Dataset
    from dataprep.datasets.base import Option as DatasetOption
    from dataprep.system.lustre import Striping

_LEAST_RATE: Final = 100_000  # bytes a second; below, a forgotten unit is likelier than the wish

SECTIONS: Final = ("Input", "Output", "Images", "Order", "This machine", "Cluster")
"""Of the help, in this order."""


def workers_option() -> Option:
    """``--workers`` of the commands that only read."""
    return number("workers", "N", "Cores to use. [default: the cores this process may use]")


def prepare_options(dataset: type[Dataset]) -> list[Option]:
    """The options of a data set: those that all share, with its defaults, and its own.

    Raises:
        DataprepError: it has one that all share, or a default of one that there is not.
    """
    own = [_own_option(option) for option in dataset.OPTIONS]
    input_, output = _places()
    table = [
        *in_section("Input", [*input_, *own]),
        *in_section(
            "Output", [*output, *_sink("tfrecord"), *_sealing("OUT"), _append(), _layout("OUT")]
        ),
        *in_section("Images", _images()),
        *in_section("Order", _order()),
        *_machine(),
        *_cluster(),
    ]
    spelled = Counter(name for option in table for name in option.opts)
    shared = {option.name for option in table}
    wrong = [f"--{option.name}" for option in dataset.OPTIONS if spelled[f"--{option.name}"] > 1]
    wrong += [f"the default of --{name}" for name in dataset.defaults if name not in shared]
    if wrong:
        raise DataprepError(
            f"data set {dataset.name} cannot have {wrong[0]}: that is for options which all data "
            "sets share, and only for those; this is a defect of the data set"
        )
    for one in table:
        if one.name in dataset.defaults:
            one.default = dataset.defaults[one.name]
    return table


def convert_options() -> list[Option]:
    """The options of ``convert``."""
    counts = (
        "E.g. train=1024,validation=128, or one number for every split. [default: as many as OUT "
        "has, if it has several and the format takes as many; else as `dataprep imagenet` chooses]"
    )
    output = [
        directory("to", "OUT2", "Where the new shards and manifest.json go.", required=True),
        *_sink(None),
        option("num_shards", counts, type=Parsed(shard_counts), metavar="COUNTS"),
        flag("overwrite", "First delete what an earlier job made in OUT2."),
        _verify_before_seal(),
        _layout("OUT2"),
    ]
    return [
        *_verification(),
        *in_section("Output", output),
        *in_section("Images", _images_anew()),
        *_machine(),
        *_cluster(),
    ]


def compact_options() -> list[Option]:
    """The options of ``compact``; all else is as the data set was made."""
    return [*_verification(), *_machine(), *_cluster()]


def stage_options() -> list[Option]:
    """The options of ``stage``: what is copied, where to, how, and by whom."""
    splits = "Copy only this split. May be repeated. [default: all]"
    share = (
        "node: give each of N nodes 1/N of the shards; node loads differ by at most one shard. A "
        "split with fewer shards than nodes is copied whole. [default: everything to every node]"
    )
    to = (
        "Put the files directly into DIR. [default: a directory of this job in $DATAPREP_SCRATCH, "
        "$SLURM_TMPDIR, $LOCAL_SCRATCH, $PBS_JOBFS, /mnt/bb/$USER, $TMPDIR, /local/scratch or "
        "/tmp, the first that exists]"
    )
    verify = (
        "How to check the copy. none: compare sizes. copy: also hash what is read, and compare it "
        "with the manifest. reread: also read the copy back from the node's storage."
    )
    broadcast = (
        "mpi: read every byte once and send it to all nodes. Needs the extra mpi, and mpirun or "
        "srun --mpi."
    )
    rank = "This node's number, from 0, where no scheduler or MPI sets it, such as under pdsh."
    rendezvous = (
        "Where nodes coordinate: HOST:PORT of node 0, or none. [default: the job's first node, if "
        "the scheduler names it]"
    )
    shared = "Let several of your jobs on a node use one copy; give it in all of them."
    bandwidth = "Read at most this much a second on each node, e.g. 500MB. [default: no limit]"
    meeting = "Give up if not all nodes have come after this long; nothing is copied then."
    seconds: dict[str, Any] = {"type": click.FloatRange(min=1), "metavar": "SECONDS"}
    return [
        option("split", splits, multiple=True, metavar="NAME"),
        choice("share", ["node"], None, share),
        directory("to", "DIR", to),
        flag("shared", shared),
        choice("verify", ["none", "copy", "reread"], "copy", verify),
        option("bandwidth", bandwidth, type=byte_size(_LEAST_RATE), metavar="SIZE"),
        choice("broadcast", ["mpi"], None, broadcast),
        number("rank", "N", rank, least=0),
        number("world_size", "N", "Number of nodes."),
        option("rendezvous", rendezvous, metavar="HOST:PORT"),
        option("rendezvous_seconds", meeting, default=300, **seconds),
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


def chosen_striping(values: Mapping[str, Any]) -> Striping:
    """What the Lustre options say; by default automatic, and silent where there is no Lustre."""
    from dataprep.system.lustre import Striping

    count, most, pool = (
        values[name] for name in ("lustre_stripe", "lustre_max_stripes", "lustre_pool")
    )
    asked = (count, most, pool) != (None, None, None)
    return Striping(count=count or "auto", most=most, pool=pool or "", asked=asked)


def summary_of(dataset: type[Dataset]) -> str:
    """What a data set says of itself."""
    return inspect.cleandoc(dataset.summary)


def _own_option(option: DatasetOption) -> Option:
    kind: Any = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.file:
        kind = click.Path(path_type=Path, dir_okay=False, exists=True)
    # Not click's own metavar, which would show choices as it normalizes them: `-` as `_`.
    metavar = f"[{'|'.join(option.choices)}]" if option.choices else option.metavar
    return Option(
        f"--{option.name}",
        help_text=option.help,
        type=kind,
        metavar=metavar,
        default=option.default,
    )


def _places() -> tuple[list[Option], list[Option]]:
    """Of the input, and of the output."""
    raw = "Where the raw images are, as they were published; the layout is detected."
    out = "Where the shards and manifest.json go."
    index = "Keep the index of the raw data here, to share it between outputs. [default: in OUT]"
    splits = "Only these, e.g. train,validation. [default: all]"
    limit = "Only N images of each split, or P percent of them."
    exclude = (
        "Leave out these images: a CSV with the columns split and key, as `dataprep lint "
        "--write_exclude` writes, or a name a line."
    )
    # That RAW is a directory is for the data set to say.
    path = click.Path(path_type=Path)
    return [
        directory("raw_data_dir", "RAW", raw, also="raw", required=True, type=path),
        option("splits", splits, type=Parsed(names), metavar="NAMES"),
        option("limit", limit, type=Parsed(part), metavar="N|P%"),
        option("exclude", exclude, type=click.Path(path_type=Path), metavar="FILE", rare=True),
        directory("index_dir", "DIR", index, rare=True),
    ], [directory("local_scratch_dir", "OUT", out, also="out", required=True)]


def _verification() -> list[Option]:
    levels = ["size", "hash", "records", "decode"]
    check = "How OUT is verified first; see `dataprep verify`."
    return in_section("Input", [choice("check", levels, "hash", check)])


def _layout(out: str) -> Option:
    text = f"Shards in {out}/train, {out}/validation and so on, or all directly in {out}."
    return choice("layout", ["split", "flat"], "split", text, rare=True)


def _append() -> Option:
    return flag(
        "append",
        "Add the images that OUT, which is sealed, does not have yet, in shards of their own.",
    )


def _order() -> list[Option]:
    shuffle = "How to order the images. [default: stratified for train, none for validation]"
    return [
        choice("shuffle", ["stratified", "global", "none"], None, shuffle),
        number("seed", "N", "Random seed for shuffling.", least=0, default=0),
    ]


def _images() -> list[Option]:
    filters = "[box|bilinear|bicubic|mitchell|lanczos]"
    encoding = "keep: good images byte for byte. raw: pixels, for formats that store them."
    exif = "auto: turn upright what is encoded anew; apply: encode anew what is not upright."
    check = "How far to decode images that are passed through."
    depth = "Bits of a grey value; keep: 16-bit grey PNGs keep theirs."
    size = "256: the shorter side; 320x256: exactly WIDTHxHEIGHT."
    most = "Reject larger image files."
    antialiasing = "Antialiasing filter of --resize."
    return [
        option("resize", size, metavar="SIZE"),
        option("center_crop", "Cut this square, last of all.", type=int, metavar="SIDE"),
        option("quality", "Of JPEGs that are encoded anew.", type=int, default=95),
        choice("encoding", ["keep", "jpeg", "png", "raw"], "keep", encoding),
        choice("color", ["keep", "rgb", "gray"], "keep", "keep: grey images stay grey."),
        choice("check", ["header", "bitstream", "pixels"], "bitstream", check),
        option("filter", antialiasing, metavar=filters, default="bicubic", rare=True),
        choice("depth", ["8", "keep"], "8", depth, rare=True),
        option("max_image_bytes", most, type=int, default=256 << 20, metavar="BYTES", rare=True),
        choice("exif", ["auto", "apply", "ignore"], "auto", exif, rare=True),
    ]


ANEW: Final = ("resize", "center_crop", "quality", "encoding", "color", "filter")
"""Options of ``convert`` that decode the images and encode them anew."""


def _images_anew() -> list[Option]:
    quality = "Of JPEGs that are encoded anew; alone, all images become such. [default: 95]"
    encoding = "[default: JPEG stays JPEG, and PNG stays PNG; arrays become PNG]"
    texts = {"quality": quality, "encoding": encoding, "color": "[default: as in OUT]"}
    table = [option for option in _images() if option.name in ANEW]
    for one in table:
        one.default = one.show_default = None
        one.help = texts.get(str(one.name), one.help)
    return table


def _sink(default: str | None) -> list[Option]:
    """``--sink`` and what belongs to it; without a default it must be given."""
    sink = "The format to write; `dataprep sinks` lists them."
    own = "An option of the format; `dataprep sinks` lists them. May be repeated."
    datum = "--sink lmdb: image files, or arrays of pixels, all of one size."
    return [
        option("sink", sink, metavar="NAME", default=default, required=default is None),
        option("sink_option", own, multiple=True, metavar="NAME=VALUE", rare=True),
        choice("datum", ["encoded", "raw"], None, datum, rare=True),
    ]


def _verify_before_seal() -> Option:
    text = (
        "Read every shard again before manifest.json is written, and compare its hash with what "
        "was written. What is damaged is made anew by the same command."
    )
    return flag("verify_before_seal", text)


def _sealing(out: str) -> list[Option]:
    counts = (
        "E.g. train=1024,validation=128, or one number for every split. [default: that, or fewer "
        "so that each holds 100; at most 64 for hdf5 and hdf5-arrays; 1 for formats with one file "
        "a split]"
    )
    stats = (
        "Put image statistics into the manifest: sizes, formats and, where pixels are decoded "
        "anyway, channel means. mean: and, with --sink lmdb, Caffe's mean image."
    )
    bare: dict[str, Any] = {"is_flag": False, "flag_value": "on", "show_default": False}
    bad = "Seal the data set although up to so many images were rejected."
    overwrite = f"First delete what an earlier job made in {out}, and index the raw data anew."
    return [
        option("num_shards", counts, type=Parsed(shard_counts), metavar="COUNTS"),
        flag("overwrite", overwrite),
        option("max_bad", bad, default="0", metavar="N|P%"),
        _verify_before_seal(),
        choice("stats", ["off", "on", "mean"], "off", stats, **bare),
    ]


def _machine() -> list[Option]:
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
    build = (
        "Build LMDB and HDF5 files here, then copy them. [default: node-local scratch if the "
        "output is on a network file system]"
    )
    there = click.Path(path_type=Path, file_okay=False, exists=True, writable=True)
    table = [
        number("workers", "N", workers),
        option("io_limit", limit, type=byte_size(_LEAST_RATE), metavar="SIZE"),
        option("nice", nice, type=click.IntRange(0, 19), metavar="N", rare=True),
        directory("build_dir", "DIR", build, type=there, rare=True),
    ]
    return in_section("This machine", table)


PATIENCE: Final = 300
"""Seconds without any of Dask's workers before a run gives up."""


def _cluster() -> list[Option]:
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
    stripe = (
        "On Lustre, the layout of the directories that are written: auto: by the size of the "
        "files, unless the site has a progressive layout; COUNT: so many stripes, -1: on all "
        "targets; pfl: a progressive layout; off: none is set. [default: auto, but a layout "
        "that somebody chose is kept]"
    )
    kind, metavar = stripes("auto", "pfl", "off"), "[auto|COUNT|pfl|off]"
    table = [
        option("runner", runner, default="direct", metavar="NAME"),
        option("dask_client_address", address, metavar="ADDRESS", rare=True),
        option("dask_scheduler_file", written, type=file, metavar="FILE", rare=True),
        option("dask_slurm", slurm, metavar="WHAT", rare=True),
        option("dask_patience", patience, type=seconds, metavar="SECONDS", rare=True),
        option("lustre_stripe", stripe, type=kind, metavar=metavar, rare=True),
        *lustre_limits(),
    ]
    return in_section("Cluster", table)


def lustre_limits() -> list[Option]:
    """How far a layout may go; also of ``dataprep stripe``."""
    most = "Never more stripes a file than this, e.g. the site's limit."
    pool = "Of the targets to use, where the site has several, e.g. flash."
    return [
        number("lustre_max_stripes", "N", most, rare=True),
        option("lustre_pool", pool, metavar="NAME", rare=True),
    ]
