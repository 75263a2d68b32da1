"""What the user asked for, in the library's words, and made to fit what the format can hold."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from dataprep.errors import UsageError
from dataprep.options import (
    EVERY_SPLIT,
    FILE,
    StrPath,
    assignments,
    counts,
    like,
    names,
    option,
    part,
    rate,
)
from dataprep.plugins import load_sink
from dataprep.recipe import Color, Encoding, Filter, Recipe, Resize
from dataprep.remote.store import address_of
from dataprep.system.lustre import Striping, stripes
from dataprep.system.messages import printable
from dataprep.system.shares import read_share, share_text
from dataprep.tables.chosen import Selection
from dataprep_schemas.manifest import Layout, Shuffle

if TYPE_CHECKING:  # they load Pillow, which --help does without
    from dataprep.datasets import Found
    from dataprep.formats import DatasetInfo, Sink


def raw_place(value: StrPath) -> Path:
    """A directory, absolute, or the address of one in a bucket."""
    if not os.fspath(value):
        raise TypeError
    return Path(value) if address_of(value) else Path(value).absolute()


@dataclass(frozen=True, slots=True)
class MaxBad:
    """How many rejected images are acceptable: a number, or a share of all images."""

    number: int = 0
    share: Fraction | None = None

    @classmethod
    def parse(cls, value: float | str | Fraction) -> MaxBad:
        """``12`` or ``0.5%``.

        Raises:
            ValueError: anything else.
        """
        text = str(value).strip()
        if re.fullmatch(r"[0-9]+", text):
            return cls(number=int(text))
        try:
            return cls(share=read_share(text))
        except ValueError:
            raise ValueError(
                f"{printable(text)}: expected a number such as 5, or a share such as 0.1%"
            ) from None

    def allows(self, rejected: int, images: int) -> bool:
        """Whether that many of that many may be missing."""
        return rejected <= (self.number if self.share is None else self.share * images)

    def __str__(self) -> str:
        """As the user would write it."""
        return str(self.number) if self.share is None else share_text(self.share)


_COUNTS: Final = "Shards of each split, e.g. train=1024,validation=128, or one number for all."
_AS_PREPARED: Final = "[default: as `dataprep imagenet` chooses]"


@dataclass(frozen=True, kw_only=True)
class Building:
    """Where formats that are not written from front to back are built."""

    section: ClassVar = "This machine"

    build_dir: Path | None = option(
        "Directory in which to build LMDB and HDF5 files before they are copied. [default: "
        "node-local scratch if the output is on a network file system]",
        None,
        metavar="DIR",
        place="directory",
        exists=True,
        utf8=True,
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class OutputRequest(Building):
    """What the user asked for of shards, whatever they are made from."""

    section: ClassVar = "Output"

    out: Path = option(
        "Directory for the shards and manifest.json.",
        also="local_scratch_dir",
        metavar="OUT",
        place="directory",
        utf8=True,
    )
    sink: str = option("Output format; `dataprep sinks` lists them.", "tfrecord", metavar="NAME")
    sink_options: Mapping[str, str] = option(
        "Option of the format; `dataprep sinks` lists them. May be repeated.",
        {},
        name="sink_option",
        metavar="NAME=VALUE",
        parse=assignments,
        repeated=True,
        rare=True,
    )
    num_shards: Mapping[str, int] | None = option(
        f"{_COUNTS} [default: train 1024, others 128; fewer below 100 images a shard or where the "
        "format asks for fewer]",
        None,
        metavar="COUNTS",
        parse=counts,
    )
    overwrite: bool = option(
        "Delete what an earlier job made in OUT first, and index the raw data again.", False
    )
    verify_before_seal: bool = option(
        "Read every shard back and compare its hash before manifest.json is written; the same "
        "command then replaces damaged shards.",
        False,
    )
    layout: Layout = option(
        "Shards in OUT/train, OUT/validation and so on, or all in OUT itself.", "split", rare=True
    )
    striping: Striping = field(default_factory=Striping)

    def load_sink(self) -> Sink:
        """The format, which can be written here; raises as `dataprep.plugins.load_sink` does."""
        sink = load_sink(self.sink, self.sink_options)
        sink.require()
        return sink


@dataclass(frozen=True, kw_only=True)
class RawRequest:
    """What the user asked for of raw data."""

    section: ClassVar = "Input"

    raw: Path = option(
        "Directory of the raw images as published; the layout is detected.",
        also="raw_data_dir",
        metavar="RAW",
        parse=raw_place,  # that it is a directory is for the data set to say
        place="any",
    )
    splits: tuple[str, ...] | None = option(
        "Only these splits, e.g. train,validation. [default: all]",
        None,
        metavar="NAMES",
        parse=names,
    )
    limit: int | Fraction | None = option(
        "Only N images of each split, or P percent of them.", None, metavar="N|P%", parse=part
    )
    exclude: Path | None = option(
        "Images to leave out: a CSV with the columns split and key, such as `dataprep lint "
        "--write_exclude` writes, or one name per line.",
        None,
        metavar="FILE",
        rare=True,
    )
    links: Literal["follow", "inside"] = option(
        "Links in RAW that lead out of it: follow, as people link to what lies elsewhere; inside: "
        "stop the run, where somebody else has made RAW.",
        "follow",
        rare=True,
    )
    index_dir: Path | None = option(
        "Directory for the index of the raw data, to share it between outputs. [default: in OUT]",
        None,
        metavar="DIR",
        place="directory",
        utf8=True,
        rare=True,
    )


@dataclass(frozen=True, kw_only=True)
class Request(OutputRequest, RawRequest):
    """What the user asked for; the command line's options under their names.

    Attributes:
        dataset_options: of the data set alone; see `dataprep.datasets.Dataset.Options`.
    """

    max_bad: MaxBad = option(
        "Rejected images to tolerate.", MaxBad(), section="Output", metavar="N|P%"
    )
    append: bool = option(
        "Add the images that the finished data set in OUT does not have yet, as new shards.",
        False,
        section="Output",
    )
    shuffle: Shuffle | None = option(
        "Order of the images. [default: stratified for train, none for validation]",
        None,
        section="Order",
    )
    seed: int = option(
        "Random seed of the shuffle.", 0, section="Order", metavar="N", least=0, most=2**63 - 1
    )
    folds: int | None = option(
        "Number the images of each split 0 to K-1 for cross-validation, as the attribute fold. "
        "Folds have about as many of every label each, and no group is in two.",
        None,
        section="Order",
        metavar="K",
        least=2,
    )
    dataset: str
    dataset_options: Mapping[str, Any] = field(default_factory=dict)
    recipe: Recipe

    @property
    def said_limit(self) -> int | str | None:
        """`limit` as a manifest has it."""
        return share_text(self.limit) if isinstance(self.limit, Fraction) else self.limit

    def shuffle_of(self, split: str) -> Shuffle:
        """How the images of a split are ordered: as asked, or as is usual."""
        return self.shuffle or usual_shuffle(split)


def usual_shuffle(split: str) -> Shuffle:
    """How the images of a split are ordered unless the user says so."""
    return "stratified" if split == "train" else "none"


@dataclass(frozen=True, kw_only=True)
class ConvertRequest(OutputRequest):
    """The same of what is made of finished data sets.

    Attributes:
        recipe: what is done to the images; None: they stay as they are.
        selection: what is taken and changed, and put in order anew; None: all, in its order.
        classes: a list of the classes that there are to be; None: those that there are.
        shuffle: None: as it was.
        seed: None: as it was.
    """

    out: Path = like(
        OutputRequest,
        "out",
        help="Directory for the new shards and manifest.json.",
        name="to",
        also="",
        metavar="OUT2",
    )
    sink: str = like(OutputRequest, "sink", default=MISSING)
    num_shards: Mapping[str, int] | None = like(
        OutputRequest,
        "num_shards",
        help=f"{_COUNTS} [default: as many as OUT has, if it has several and the format takes as "
        "many; else as `dataprep imagenet` chooses]",
    )
    overwrite: bool = like(
        OutputRequest, "overwrite", help="Delete what an earlier job made in OUT2 first."
    )
    layout: Layout = like(
        OutputRequest,
        "layout",
        help="Shards in OUT2/train, OUT2/validation and so on, or all in OUT2 itself.",
    )
    sources: tuple[Path, ...]
    recipe: Recipe | None = None
    selection: Selection | None = None
    classes: Path | None = None
    shuffle: Shuffle | None = None
    seed: int | None = None


@dataclass(frozen=True, kw_only=True)
class SelectRequest(ConvertRequest):
    """The same of chosen images of finished data sets; a `ConvertRequest` that has a selection."""

    sink: str = like(
        OutputRequest, "sink", default="", help="Output format. [default: that of SRC]", shown=False
    )
    num_shards: Mapping[str, int] | None = like(
        OutputRequest, "num_shards", help=f"{_COUNTS} {_AS_PREPARED}"
    )
    classes: Path | None = option(
        "A list of the classes, one a line. [default: those of the data sets]",
        None,
        section="Input",
        **FILE,
    )
    shuffle: Shuffle | None = like(
        Request, "shuffle", help="Order of the images. [default: as it was]"
    )
    seed: int | None = like(
        Request, "seed", default=None, help="Random seed of the shuffle. [default: as it was]"
    )


@dataclass(frozen=True, kw_only=True)
class ImagesAnew:
    """What is to be done to images of finished data sets; None, or no: they stay as they are."""

    section: ClassVar = "Images"

    resize: Resize | None = like(Recipe, "resize")
    center_crop: int | None = like(Recipe, "center_crop")
    quality: int | None = like(
        Recipe,
        "quality",
        default=None,
        help="JPEG quality for re-encoded images. Given alone, all images become JPEGs. "
        "[default: 95]",
    )
    encoding: Encoding | None = like(
        Recipe,
        "encoding",
        default=None,
        help="Encoding to store. [default: JPEG and PNG stay; pixel arrays become PNG]",
    )
    color: Color | None = like(
        Recipe, "color", default=None, help="Colours to store. [default: as in OUT]"
    )
    filter: Filter | None = like(Recipe, "filter", default=None)
    strip_metadata: bool = like(Recipe, "strip_metadata")

    @property
    def recipe(self) -> Recipe | None:
        """What all of it asks for; None: nothing."""
        chosen = {name: value for name, value in vars(self).items() if value not in (None, False)}
        if not chosen:
            return None
        if [*chosen] == ["quality"]:
            chosen["encoding"] = "jpeg"
        # Files stay what they are, JPEG or PNG, unless --encoding says otherwise.
        return Recipe(passes=("JPEG", "PNG"), **chosen)


@dataclass(frozen=True, kw_only=True)
class SourceCheck:
    """How far data sets are verified before anything is made of them."""

    verify: Literal["size", "hash", "records", "decode", "reader"] = option(
        "How far to verify the files of OUT first; see `dataprep verify`.", "hash"
    )


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a job may use of this machine."""

    section: ClassVar = "This machine"

    workers: int | None = option(
        "Cores of this machine to use; with one of Beam's runners, threads of each of its workers. "
        "Dask's workers have threads of their own. [default: all cores that this process may use]",
        None,
        metavar="N",
        least=1,
    )
    io_limit: int | None = option(
        "Bytes a second that all processes on this machine together may read and write, e.g. "
        "200MB. [default: no limit]",
        None,
        metavar="SIZE",
        parse=rate,
    )


@dataclass(frozen=True, kw_only=True)
class Running:
    """Where a job runs."""

    section: ClassVar = "Cluster"

    runner: str = option(
        "direct: this machine. dask: a Dask cluster. Or one of Beam's runners, e.g. FlinkRunner, "
        "whose own options follow `--`.",
        "direct",
        metavar="NAME",
    )
    dask_client_address: str | None = option(
        "Address of a Dask scheduler, e.g. tls://10.0.0.1:8786.", None, metavar="ADDRESS", rare=True
    )
    dask_scheduler_file: Path | None = option(
        "File to which a Dask scheduler writes its address, as that of dask-mpi does.",
        None,
        metavar="FILE",
        place="file",
        rare=True,
    )
    dask_slurm: str | None = option(
        "Start Dask's workers as Slurm jobs, and end them afterwards: "
        "nodes=4,cores=16,memory=32GB[,partition=,account=,walltime=,...].",
        None,
        metavar="WHAT",
        rare=True,
    )
    dask_timeout: float = option(
        "Give up after this long without a worker.", 300, metavar="SECONDS", least=1, rare=True
    )


@dataclass(frozen=True, kw_only=True)
class Lustre:
    """How directories are laid out."""

    section: ClassVar = "Cluster"

    lustre_stripe: int | Literal["auto", "off"] | None = option(
        "Lustre layout of the directories that are written. auto: by the size of the files, "
        "unless the site has a progressive layout. COUNT: this many stripes, -1: all targets. "
        "off: set none. [default: auto, but a layout that was chosen before is kept]",
        None,
        metavar="[auto|COUNT|off]",
        parse=stripes,
        rare=True,
    )
    lustre_pool: str | None = option(
        "Pool of the targets to use, where the site has several, e.g. flash.",
        None,
        metavar="NAME",
        rare=True,
    )


def settle(request: Request, found: Found) -> Request:
    """The request with the recipe that the data set and the format need.

    Raises:
        UsageError: the two cannot be brought together, or there is no such split.
    """
    if found.splits is not None:
        check_splits(request.num_shards, found.splits)
    sink = request.load_sink()
    recipe = recipe_for(request.recipe, sink)
    # Where only the scan can tell the classes, what the format needs is asked for all the same.
    classes = found.classes or [("?", "?")]
    sink.check(describe_examples(classes, recipe, found))
    return replace(request, recipe=recipe)


def check_splits(num_shards: Mapping[str, int] | None, splits: Collection[str]) -> None:
    """Refuse shard counts of splits that there are not.

    Raises:
        UsageError: names one.
    """
    for name in num_shards or {}:
        if name not in splits and name != EVERY_SPLIT:
            known = ", ".join(sorted(splits))
            raise UsageError(f"--num_shards {name}=…: the splits are {known}")


def recipe_for(recipe: Recipe, sink: Sink) -> Recipe:
    """The recipe that makes what a format stores.

    Arrays are stored as they are, all of one size and with one number of channels.

    Raises:
        UsageError: it asks for what the format does not store.
    """
    if not sink.pixels:
        if recipe.encoding == "raw":
            raise UsageError(
                f"--encoding raw: sink {sink.name} stores encoded images; pixels are stored by "
                "--sink hdf5-arrays, hdf5-caffe, or lmdb with --sink_option datum=raw"
            )
        return recipe
    if recipe.encoding not in ("keep", "raw") or recipe.depth == "keep":
        option = "--depth keep" if recipe.depth == "keep" else f"--encoding {recipe.encoding}"
        raise UsageError(
            f"{option}: sink {sink.name} stores 8-bit pixels, not encoded images; leave it out"
        )
    return replace(recipe, encoding="raw", color="rgb" if recipe.color == "keep" else recipe.color)


def describe_examples(
    classes: Sequence[tuple[str, str]], recipe: Recipe, found: Found
) -> DatasetInfo:
    """What is true of every example that the recipe makes of a data set's images."""
    from dataprep.formats import DatasetInfo

    return DatasetInfo(
        classes=tuple(classes),
        multilabel=found.multilabel,
        # The TPU script says RGB of grey JPEGs too: what readers decode to.
        colorspace="Grayscale" if recipe.color == "gray" else "RGB",
        size=recipe.fixed_size,
        fields=found.fields,
    )
