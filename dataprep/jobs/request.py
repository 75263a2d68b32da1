"""What the user asked for, in the library's words, and made to fit what the format can hold."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from dataprep.datasets import Found
from dataprep.errors import UsageError
from dataprep.images import Recipe
from dataprep.plugins import load_sink
from dataprep.remote.store import address_of
from dataprep.sinks import DatasetInfo, Layout, Sink
from dataprep.system.lustre import Striping
from dataprep.system.messages import printable
from dataprep.system.shares import read_share, share_text

if TYPE_CHECKING:
    from dataprep.tables.selection import Selection
    from dataprep_schemas.manifest import Shuffle

EVERY_SPLIT = "*"
"""In `Request.num_shards`: the count of every split that is not named."""


@dataclass(frozen=True, slots=True)
class MaxBad:
    """How many rejected images are acceptable: a number, or a share of all images."""

    number: int = 0
    share: Fraction | None = None

    @classmethod
    def parse(cls, text: str) -> MaxBad:
        """``"12"`` or ``"0.5%"``.

        Raises:
            UsageError: anything else.
        """
        if re.fullmatch(r"[0-9]+", text):
            return cls(number=int(text))
        try:
            return cls(share=read_share(text))
        except ValueError:
            raise UsageError(
                f"--max_bad {printable(text)}: expected a number such as 5, or a share such as 0.1%"
            ) from None

    def allows(self, rejected: int, images: int) -> bool:
        """Whether that many of that many may be missing."""
        return rejected <= (self.number if self.share is None else self.share * images)

    def __str__(self) -> str:
        """As the user would write it."""
        return str(self.number) if self.share is None else share_text(self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputRequest:
    """What the user asked for of shards, whatever they are made from.

    Attributes:
        build_dir: where formats that are not written from front to back are built; otherwise each
            worker decides.
        verify_before_seal: whether every shard is read again before it is sealed.
    """

    out: Path
    sink: str = "tfrecord"
    sink_options: Mapping[str, str] = field(default_factory=dict)
    layout: Layout = "split"
    num_shards: Mapping[str, int] | None = None
    build_dir: Path | None = None
    overwrite: bool = False
    verify_before_seal: bool = False
    striping: Striping = field(default_factory=Striping)

    def load_sink(self) -> Sink:
        """The format."""
        return load_sink(self.sink, self.sink_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(OutputRequest):
    """What the user asked for; the command line's options under their names."""

    dataset: str
    raw: Path
    recipe: Recipe
    max_bad: MaxBad
    dataset_options: Mapping[str, str] = field(default_factory=dict)
    splits: tuple[str, ...] | None = None
    shuffle: Shuffle | None = None
    seed: int = 0
    limit: int | str | None = None
    folds: int | None = None
    exclude: Path | None = None
    index_dir: Path | None = None
    links: Literal["follow", "inside"] = "follow"
    append: bool = False

    def shuffle_of(self, split: str) -> Shuffle:
        """How the images of a split are ordered: as asked, or as is usual."""
        return self.shuffle or usual_shuffle(split)


def usual_shuffle(split: str) -> Shuffle:
    """How the images of a split are ordered unless the user says so."""
    return "stratified" if split == "train" else "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRequest(OutputRequest):
    """The same of what is made of finished data sets.

    Attributes:
        recipe: what is done to the images; None: they stay as they are.
        selection: what is taken and changed, and put in order anew; None: all, in its order.
        classes: a list of the classes that there are to be; None: those that there are.
        shuffle: None: as it was.
        seed: None: as it was.
    """

    sources: tuple[Path, ...]
    recipe: Recipe | None = None
    selection: Selection | None = None
    classes: Path | None = None
    shuffle: Shuffle | None = None
    seed: int | None = None


AnyRequest = TypeVar("AnyRequest", bound=OutputRequest)


def absolute(request: AnyRequest) -> AnyRequest:
    """The request with absolute paths: workers need not have this process's working directory.

    Raises:
        UsageError: the libraries that write there cannot name a directory.
    """
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    paths: dict[str, Any] = {
        name: value if address_of(value) else value.absolute()
        for name, value in values.items()
        if isinstance(value, Path)
    }
    if "sources" in values:
        paths["sources"] = tuple(path.absolute() for path in values["sources"])
    for name, path in paths.items():
        if name != "raw" and any(0xDC80 <= ord(each) <= 0xDCFF for each in str(path)):
            raise UsageError(
                f"{printable(str(path))} is not UTF-8, and the libraries of Parquet, LMDB and HDF5 "
                "cannot write there; choose or rename a directory"
            )
    return replace(request, **paths)


def settle(request: Request, found: Found) -> Request:
    """The request with the recipe that the data set and the format need.

    Raises:
        UsageError: the two cannot be brought together, the sink or an option does not exist, or
            the list of images to leave out cannot be used.
    """
    sink = request.load_sink()
    recipe = recipe_for(request.recipe, sink)
    if request.exclude is not None:
        from dataprep.tables.exclude import read_exclude  # which loads Arrow

        read_exclude(request.exclude)
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
    return DatasetInfo(
        classes=tuple(classes),
        multilabel=found.multilabel,
        # The TPU script says RGB of grey JPEGs too: what readers decode to.
        colorspace="Grayscale" if recipe.color == "gray" else "RGB",
        size=recipe.fixed_size,
        attributes=tuple((attribute.name, attribute.kind) for attribute in found.attributes),
        boxes=found.has_boxes,
        captions=found.has_captions,
    )
