"""Every option of ``prepare``, ``convert``, ``stage`` and the like: name, type, default, help.

The commands show this table and parse words with it; the Python calls take the same names as
keywords, with the same defaults, and refuse what is wrong with the same message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
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
    share_of,
    stripes,
)
from dataprep.errors import DataprepError, UsageError
from dataprep.system.site import login_site, site, site_file

if TYPE_CHECKING:
    from dataprep.datasets.base import Dataset
    from dataprep.datasets.base import Option as DatasetOption
    from dataprep.system.lustre import Striping

_LEAST_RATE: Final = 100_000  # bytes a second; below, a forgotten unit is likelier than the wish
_ALL_CORES: Final = "[default: all cores that this process may use]"
_QUALITY: Final = "JPEG quality for re-encoded images."
_COUNTS: Final = "Shards of each split, e.g. train=1024,validation=128, or one number for all."
_FOLDS: Final = (
    "Number the images of each split 0 to K-1 for cross-validation, as the attribute fold. "
    "Folds have about as many of every label each, and no group is in two."
)

_LUSTRE: Final = ("lustre_stripe", "lustre_pool")
_OF_SITE: Final = ("bandwidth", "runner", "dask_slurm", *_LUSTRE)
_STRIPES: Final = stripes("auto", "off")

SECTIONS: Final = ("Input", "Output", "Images", "Order", "This machine", "Cluster")
"""Of the help, in this order."""


def workers_option() -> Option:
    """``--workers`` of the commands that only read."""
    return number("workers", "N", f"Cores to use. {_ALL_CORES}")


def prepare_options(dataset: type[Dataset]) -> list[Option]:
    """The options of a data set: those that all share, with its defaults, and its own.

    Raises:
        DataprepError: it has one that all share, or a default of one that there is not.
    """
    own = [_own_option(option) for option in dataset.OPTIONS]
    input_, output = _places()
    table = [
        *in_section("Input", [*input_, *own]),
        *in_section("Output", [*output, *_sink("tfrecord"), *_sealing(), _layout("OUT")]),
        *in_section("Images", _images()),
        *in_section("Order", [*_order(), number("folds", "K", _FOLDS, least=2)]),
        *_machine(),
        *_cluster(),
    ]
    spelled = Counter(name for option in table for name in option.opts)
    spelled.update(["--dry_run", "--json"])  # of the commands
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
        f"{_COUNTS} [default: as many as OUT has, if it has several and the format takes as many; "
        "else as `dataprep imagenet` chooses]"
    )
    output = [
        directory("to", "OUT2", "Directory for the new shards and manifest.json.", required=True),
        *_sink(None),
        option("num_shards", counts, type=Parsed(shard_counts), metavar="COUNTS"),
        flag("overwrite", "Delete what an earlier job made in OUT2 first."),
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


def select_options() -> list[Option]:
    """The options of ``select``: what is taken, what is changed, and how it is stored."""
    splits = "Only these splits, e.g. train,validation. [default: all]"
    where = "Take the images for which this is true, in SQL over records.parquet: \"view = 'PA'\"."
    share = "Take this share of each split, e.g. 0.1 or 10%; that of 0.1 is in that of 0.2."
    each = "Take that share of each set of labels of a split."
    exclude = "Images to leave out: a CSV with the columns split and key, or one name per line."
    relabel = "Labels to give images: a CSV with the columns split, key and label (several: a|b)."
    classes = "A list of the classes, one a line. [default: those of the data sets]"
    column = "The column of records.parquet that tells the split. [default: images stay in theirs]"
    file = click.Path(path_type=Path, dir_okay=False, exists=True)
    taken = [
        option("splits", splits, type=Parsed(names), metavar="NAMES"),
        option("where", where, metavar="SQL"),
        option("sample", share, type=Parsed(share_of), metavar="SHARE"),
        flag("stratify", each),
        option("exclude", exclude, type=file, metavar="FILE"),
        option("relabel", relabel, type=file, metavar="FILE"),
        option("classes", classes, type=file, metavar="FILE"),
        option("split_by", column, metavar="COLUMN"),
    ]
    order = _order()
    for one in order:
        one.default = one.show_default = None
        one.help = f"{str(one.help).partition(' [')[0]} [default: as it was]"
    table = convert_options()
    for one in table:
        if one.name == "sink":
            one.required, one.help = False, "Output format. [default: that of SRC]"
        elif one.name == "num_shards":
            one.help = f"{_COUNTS} [default: as `dataprep imagenet` chooses]"
    return [*in_section("Input", taken), *table, *in_section("Order", order)]


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
    rendezvous = (
        "Where nodes coordinate: HOST:PORT of node 0, or none. Where no scheduler or MPI tells of "
        "nodes, such as under pdsh, set RANK and WORLD_SIZE in the environment of each. [default: "
        "the job's first node, if the scheduler names it]"
    )
    shared = "Let several of your jobs on a node use one copy; give it in all of them."
    bandwidth = "Read at most this much a second on each node, e.g. 500MB. [default: no limit]"
    meeting = "Give up if not all nodes have come after this long; nothing is copied then."
    seconds: dict[str, Any] = {"type": click.FloatRange(min=1), "metavar": "SECONDS"}
    table = [
        option("split", splits, multiple=True, metavar="NAME"),
        choice("share", ["node"], None, share),
        directory("to", "DIR", to),
        flag("shared", shared),
        choice("verify", ["none", "copy", "reread"], "copy", verify),
        option("bandwidth", bandwidth, type=byte_size(_LEAST_RATE), metavar="SIZE"),
        choice("broadcast", ["mpi"], None, broadcast),
        option("rendezvous", rendezvous, metavar="HOST:PORT"),
        option("rendezvous_seconds", meeting, default=300, **seconds),
    ]
    return with_site_defaults(table)


def lint_options() -> list[Option]:
    """The options of ``lint``: what is looked for, and what of it is shown and written down."""
    bits = (
        "Bits of 255 in which perceptual hashes of nearly the same image may differ. [default: 72; "
        "fewer where all images are alike, such as radiographs]"
    )
    ratio = "Largest allowed class-size ratio."
    show = "Findings of each rule to print; --json prints all."
    exclude = (
        "Write the images to leave out as a CSV for --exclude. Of copies one is kept: in test "
        "rather than in validation, and in validation rather than in train."
    )
    file = click.Path(path_type=Path, dir_okay=False)
    return [
        option("rules", "Only these rules. [default: all]", type=Parsed(names), metavar="NAMES"),
        option("distance", bits, type=click.IntRange(0, 127), metavar="BITS"),
        number("fewest", "N", "Smallest class size to accept.", default=10),
        option("imbalance", ratio, type=click.FloatRange(min=1), default=10, metavar="RATIO"),
        number("show", "N", show, least=0, default=10),
        option("write_exclude", exclude, type=file, metavar="FILE"),
    ]


def report_options() -> list[click.Option]:
    """The options of ``report``."""
    page = "Path of the page. [default: OUT/report.html]"
    near = "Whether to look for nearly the same images. [default: up to 400,000 images]"
    return [
        option("to", page, type=click.Path(path_type=Path, dir_okay=False), metavar="FILE"),
        click.Option(["--near/--no_near"], default=None, help=near),
        number("seed", "N", "Random seed that chooses the images.", least=0, default=0),
    ]


def with_site_defaults(table: list[Option], told_only: Sequence[str] = ()) -> list[Option]:
    """The options, with the defaults that the site has for some; their help says so.

    Args:
        told_only: options of which only the help says so.

    Raises:
        UsageError: the site's file is not what it should be.
    """
    here, outside = site(), login_site()
    values = {name: getattr(here, name, None) for name in _OF_SITE}
    values["io_limit"] = outside.login_io_limit if outside else None
    context = click.Context(click.Command("site"))
    for one in table:
        value = values.get(str(one.name))
        if value is None:
            continue
        try:
            one.type_cast_value(context, value)
        except click.BadParameter as error:
            raise UsageError(f"{site_file()}, for --{one.name}: {error.message}") from error
        text = str(one.help).partition(" [default")[0]
        one.help, one.show_default = f"{text} [default: {value}, by {site_file()}]", False
        if one.name not in told_only:
            one.default = value
    return table


def own_values(dataset: type[Dataset], values: Mapping[str, Any]) -> dict[str, str]:
    """What was given for a data set's own options, as it wants it."""
    found = {option.name: values[option.name] for option in dataset.OPTIONS}
    for one in dataset.OPTIONS:
        if one.flag:
            found[one.name] = "yes" if found[one.name] else None
    return {
        # Absolute, because workers need not have this process's working directory.
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in found.items()
        if value is not None
    }


def chosen_striping(values: Mapping[str, Any]) -> Striping:
    """What the Lustre options say; by default automatic, and silent where there is no Lustre."""
    from dataprep.system.lustre import Striping

    count, pool = values["lustre_stripe"], values["lustre_pool"]
    asked, here = bool(count or pool), site()
    if here and not asked:  # so a layout that somebody chose before is kept
        count, pool = _STRIPES.convert(here.lustre_stripe or "auto", None, None), here.lustre_pool
    return Striping(count=count or "auto", pool=pool or "", asked=asked)


def _own_option(option: DatasetOption) -> Option:
    if option.flag:
        return flag(option.name, option.help)
    kind: Any = None
    if option.choices:
        kind = click.Choice(option.choices)
    elif option.file:
        kind = click.Path(path_type=Path, dir_okay=option.directory, exists=True)
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
    raw = "Directory of the raw images as published; the layout is detected."
    out = "Directory for the shards and manifest.json."
    index = (
        "Directory for the index of the raw data, to share it between outputs. [default: in OUT]"
    )
    splits = "Only these splits, e.g. train,validation. [default: all]"
    limit = "Only N images of each split, or P percent of them."
    exclude = (
        "Images to leave out: a CSV with the columns split and key, such as `dataprep lint "
        "--write_exclude` writes, or one name per line."
    )
    links = (
        "Links in RAW that lead out of it: follow, as people link to what lies elsewhere; inside: "
        "stop the run, where somebody else has made RAW."
    )
    # That RAW is a directory is for the data set to say.
    path = click.Path(path_type=Path)
    return [
        directory("raw_data_dir", "RAW", raw, also="raw", required=True, type=path),
        option("splits", splits, type=Parsed(names), metavar="NAMES"),
        option("limit", limit, type=Parsed(part), metavar="N|P%"),
        option("exclude", exclude, type=click.Path(path_type=Path), metavar="FILE", rare=True),
        choice("links", ("follow", "inside"), "follow", links, rare=True),
        directory("index_dir", "DIR", index, rare=True),
    ], [directory("local_scratch_dir", "OUT", out, also="out", required=True)]


def _verification() -> list[Option]:
    levels = ["size", "hash", "records", "decode"]
    check = "How far to verify OUT first; see `dataprep verify`."
    return in_section("Input", [choice("check", levels, "hash", check)])


def _layout(out: str) -> Option:
    text = f"Shards in {out}/train, {out}/validation and so on, or all in {out} itself."
    return choice("layout", ["split", "flat"], "split", text, rare=True)


def _order() -> list[Option]:
    shuffle = "Order of the images. [default: stratified for train, none for validation]"
    return [
        choice("shuffle", ["stratified", "global", "none"], None, shuffle),
        number("seed", "N", "Random seed of the shuffle.", least=0, default=0),
    ]


def _images() -> list[Option]:
    filters = "[box|bilinear|bicubic|lanczos]"
    encoding = "keep: valid images byte for byte. raw: pixels, for formats that store them."
    exif = (
        "auto: turn images upright where they are re-encoded. apply: re-encode images that are "
        "not upright. ignore: leave them as they are."
    )
    check = "How far to decode images that are stored unchanged."
    strip = (
        "Take away what images have beside pixels, such as names, places, comments and thumbnails; "
        "colour profiles and the orientation stay."
    )
    depth = "Bits per sample. keep: what has 16, or a DICOM more than 8, is stored as PNG of 16."
    window = "Of DICOM. file: the window or table it names; full: all values; or CENTER,WIDTH."
    size = "256: the shorter side; 320x256: exactly WIDTHxHEIGHT."
    crop = "After resizing, crop a centred square."
    most = "Reject image files that are larger."
    antialiasing = "Antialiasing filter for --resize."
    return [
        option("resize", size, metavar="SIZE"),
        option("center_crop", crop, type=int, metavar="SIDE"),
        option("quality", _QUALITY, type=int, default=95, metavar="N"),
        choice("encoding", ["keep", "jpeg", "png", "raw"], "keep", encoding),
        choice("color", ["keep", "rgb", "gray"], "keep", "keep: grey images stay grey."),
        choice("check", ["header", "bitstream", "pixels"], "bitstream", check),
        option("filter", antialiasing, metavar=filters, default="bicubic", rare=True),
        choice("depth", ["8", "keep"], "8", depth, rare=True),
        option("dicom_window", window, default="file", metavar="WINDOW", rare=True),
        option("max_image_bytes", most, type=int, default=256 << 20, metavar="BYTES", rare=True),
        choice("exif", ["auto", "apply", "ignore"], "auto", exif, rare=True),
        flag("strip_metadata", strip),
    ]


ANEW: Final = (
    *("resize", "center_crop", "quality", "encoding", "color", "filter"),
    "strip_metadata",
)
"""Options of ``convert`` that change the images."""


def _images_anew() -> list[Option]:
    texts = {
        "quality": f"{_QUALITY} Given alone, all images become JPEGs. [default: 95]",
        "encoding": "Encoding to store. [default: JPEG and PNG stay; pixel arrays become PNG]",
        "color": "Colours to store. [default: as in OUT]",
    }
    table = [option for option in _images() if option.name in ANEW]
    for one in table:
        one.default = one.show_default = None
        one.help = texts.get(str(one.name), one.help)
    return table


def _sink(default: str | None) -> list[Option]:
    """``--sink`` and what belongs to it; without a default it must be given."""
    sink = "Output format; `dataprep sinks` lists them."
    own = "Option of the format; `dataprep sinks` lists them. May be repeated."
    return [
        option("sink", sink, metavar="NAME", default=default, required=default is None),
        option("sink_option", own, multiple=True, metavar="NAME=VALUE", rare=True),
    ]


def _verify_before_seal() -> Option:
    text = (
        "Read every shard back and compare its hash before manifest.json is written; the same "
        "command then replaces damaged shards."
    )
    return flag("verify_before_seal", text)


def _sealing() -> list[Option]:
    counts = (
        f"{_COUNTS} [default: train 1024, others 128; fewer below 100 images a shard or where the "
        "format asks for fewer]"
    )
    stats = (
        "Write image statistics into the manifest: sizes, formats and, where pixels are decoded "
        "anyway, channel means."
    )
    bare: dict[str, Any] = {"is_flag": False, "flag_value": "on", "show_default": False}
    bad = "Rejected images to tolerate."
    overwrite = "Delete what an earlier job made in OUT first, and index the raw data again."
    append = "Add the images that the finished data set in OUT does not have yet, as new shards."
    return [
        option("num_shards", counts, type=Parsed(shard_counts), metavar="COUNTS"),
        flag("overwrite", overwrite),
        option("max_bad", bad, default="0", metavar="N|P%"),
        _verify_before_seal(),
        choice("stats", ["off", "on"], "off", stats, **bare),
        flag("append", append),
    ]


def _machine() -> list[Option]:
    workers = (
        "Cores of this machine to use; with one of Beam's runners, threads of each of its workers. "
        f"Dask's workers have threads of their own. {_ALL_CORES}"
    )
    limit = (
        "Bytes a second that all processes on this machine together may read and write, e.g. "
        "200MB. [default: no limit]"
    )
    build = (
        "Directory in which to build LMDB and HDF5 files before they are copied. [default: "
        "node-local scratch if the output is on a network file system]"
    )
    there = click.Path(path_type=Path, file_okay=False, exists=True, writable=True)
    table = [
        number("workers", "N", workers),
        option("io_limit", limit, type=byte_size(_LEAST_RATE), metavar="SIZE"),
        directory("build_dir", "DIR", build, type=there, rare=True),
    ]
    return in_section("This machine", with_site_defaults(table))


DASK_TIMEOUT: Final = 300
"""Seconds without any of Dask's workers before a run gives up."""


def _cluster() -> list[Option]:
    runner = (
        "direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g. FlinkRunner, "
        "whose own options follow `--`."
    )
    slurm = (
        "Start Dask's workers as Slurm jobs, and end them afterwards: "
        "nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...]."
    )
    address = "Address of a Dask scheduler, e.g. tls://10.0.0.1:8786."
    written = "File to which a Dask scheduler writes its address, as that of dask-mpi does."
    file = click.Path(path_type=Path, dir_okay=False)
    timeout = f"Give up after this long without a worker. [default: {DASK_TIMEOUT}]"
    seconds = click.FloatRange(min=1)
    stripe = (
        "Lustre layout of the directories that are written. auto: by the size of the files, "
        "unless the site has a progressive layout. COUNT: this many stripes, -1: all targets. "
        "off: set none. [default: auto, but a layout that was chosen before is kept]"
    )
    table = [
        option("runner", runner, default="direct", metavar="NAME"),
        option("dask_client_address", address, metavar="ADDRESS", rare=True),
        option("dask_scheduler_file", written, type=file, metavar="FILE", rare=True),
        option("dask_slurm", slurm, metavar="WHAT", rare=True),
        option("dask_timeout", timeout, type=seconds, metavar="SECONDS", rare=True),
        option("lustre_stripe", stripe, type=_STRIPES, metavar="[auto|COUNT|off]", rare=True),
        lustre_pool(),
    ]
    return in_section("Cluster", with_site_defaults(table, told_only=_LUSTRE))


def lustre_pool() -> Option:
    """Also of ``dataprep stripe``."""
    pool = "Pool of the targets to use, where the site has several, e.g. flash."
    return option("lustre_pool", pool, metavar="NAME", rare=True)
