"""``manifest.json``: what a sealed data set says about itself, as frozen types.

A type is everything at once: the parser, the checker of ranges and patterns, and, by
`manifest_schema`, the published JSON Schema. Dictionaries by split are in the order of its name.
"""

from __future__ import annotations

from itertools import chain
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from dataprep_schemas.fields import Field
from dataprep_schemas.fields import FieldName as FieldName  # the page of the form has both

# In Python, $ also matches before a newline at the end.
_END = r"$(?!\n)"

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}", max_length=64)]
# Of every (key, size, labels, fields) of some images, in any order: MD5 of each, combined by
# exclusive or. It tells changes, and is no proof against forgery.
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{32}", max_length=32)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Positive = Annotated[int, Meta(gt=0, lt=2**53)]
Text = Annotated[str, Meta(pattern=r"^[^\x00]*$", max_length=1 << 16)]
# Identifier or name of a class.
Label = Annotated[str, Meta(pattern=r"^[^\x00]*$", max_length=1 << 12)]
# Name of an option, a format, a data set or a library.
Option = Annotated[str, Meta(pattern=f"^[A-Za-z0-9_.-]+{_END}", max_length=100)]
# Files and directories are called after it.
SplitName = Annotated[str, Meta(pattern=rf"^[^/\x00-\x1f.-][^/\x00-\x1f]*{_END}", max_length=255)]
_KEPT = r"\.dataprep|(manifest\.json|part\.json|records\.parquet)$"
# Relative to the directory of the manifest, with ``/``; leads neither out of it nor to what
# dataprep keeps there for itself.
FilePath = Annotated[
    str,
    Meta(
        # No part of it is empty, . or .., nor begins with a hyphen.
        pattern=rf"^(?!/|{_KEPT})(?!-|.*/-|\.{{0,2}}(/|$)|.*/\.{{0,2}}(/|$))[^\x00-\x1f]+{_END}",
        max_length=1 << 12,
    ),
]
# (identifier, name) of every class; the position is the 0-based class index.
Classes: TypeAlias = tuple[tuple[Label, Label], ...]
Options: TypeAlias = dict[Option, Text]
Versions: TypeAlias = dict[Option, Text]
Layout: TypeAlias = Literal["split", "flat"]
Shuffle: TypeAlias = Literal["stratified", "global", "none"]
Color: TypeAlias = Literal["RGB", "Grayscale"]

MOST_SHARDS = 1 << 20  # of all splits together


class Value(Struct, frozen=True, forbid_unknown_fields=True):
    """Something that the manifest says."""


class ImageRecipe(Value, frozen=True, kw_only=True):
    """How images were checked and converted: options of the command line, and constants.

    Attributes:
        options: by name, as on the command line.
        passes: forms that are kept byte for byte where nothing changes.
        max_pixels: images of more were rejected.
        chroma: subsampling of JPEGs that were encoded anew on request.
        repair_chroma: the same of those that were repaired.
        repair_quality: quality of those.
    """

    options: Options
    passes: tuple[Literal["JPEG", "PNG"], ...]
    max_pixels: Positive
    chroma: Option
    repair_chroma: Option
    repair_quality: Annotated[int, Meta(ge=1, le=100)]


class SinkConfig(Value, frozen=True):
    """A format and its options.

    Attributes:
        name: that of ``--sink``; formats.md has a section on each.
        config: its options, all of them.
    """

    name: Option
    config: Options


class Examples(Value, frozen=True, omit_defaults=True):
    """What is true of every example.

    Attributes:
        multilabel: whether an image has any number of labels, none included; else each has one.
        colorspace: what readers are to decode to.
        size: (height, width) in pixels, if all images have the same.
        fields: what else is said of examples, each of which may lack it.
    """

    multilabel: bool
    colorspace: Color
    size: tuple[Positive, Positive] | None
    fields: tuple[Field, ...] = ()


class Input(Value, frozen=True):
    """What a split was made from.

    Attributes:
        images: how many there are, also those that were rejected.
        bytes: of their files in the raw data.
        digest: of the images, as the raw data has them.
    """

    images: Positive
    bytes: Count
    digest: Digest


class Unmatched(Value, frozen=True):
    """Images that are listed but not there, or there but not listed.

    Attributes:
        missing: how many are listed only.
        unlisted: how many are there only.
        first: the names of a few of each.
    """

    missing: Count
    unlisted: Count
    first: dict[Literal["missing", "unlisted"], tuple[Text, ...]]


class Excluded(Value, frozen=True):
    """What the user left out (--exclude).

    Attributes:
        images: how many.
        digest: of their names, the exclusive or of the MD5 of each.
    """

    images: Count
    digest: Digest


class Decided(Value, frozen=True, omit_defaults=True):
    """What people decided (--decisions).

    Attributes:
        files: of each file of decisions, in the order in which they were given.
        left_out: how many images were left out, when they were applied.
        relabelled: how many got other labels, those of classes that were merged among them.
        moved: how many came into another split.
        classes: what a class is called, by what it was called; empty if its images lost it.
        input: by split, what the images were made from that decisions were applied to, as the raw
            data has them; also those that were added later.
    """

    files: tuple[Sha256, ...]
    left_out: Count
    relabelled: Count
    moved: Count
    classes: dict[Label, Label]
    input: dict[SplitName, Input]


class Selected(Value, frozen=True, omit_defaults=True):
    """What was taken of a data set, and what was changed; empty where nothing was.

    Attributes:
        splits: those taken.
        where: a condition in SQL over its table of records.
        sample: a share of each split, ``1/10``.
        stratified: whether that is a share of each set of labels.
        excluded: the file of the images that were left out.
        relabelled: that of the labels that images got.
        decided: what people decided; null if that was not asked for.
        split_by: the column that tells the split.
        name: what is before its keys.
    """

    splits: tuple[SplitName, ...] = ()
    where: Text = ""
    sample: Annotated[str, Meta(pattern=f"^[0-9]{{1,20}}/[0-9]{{1,20}}{_END}")] = ""
    stratified: bool = False
    excluded: Sha256 | None = None
    relabelled: Sha256 | None = None
    decided: Decided | None = None
    split_by: Text = ""
    name: Text = ""


class Ancestor(Value, frozen=True, omit_defaults=True):
    """A data set that was converted, or that something was selected from.

    Attributes:
        manifest_sha256: the hash that its manifest has of itself.
        sink: its format.
        versions: of what made it.
        image: its recipe, if images were made anew from it.
        selected: null if it was taken as it is, in its order.
    """

    manifest_sha256: Sha256
    sink: SinkConfig
    versions: Versions
    image: ImageRecipe | None = None
    selected: Selected | None = None


class Identity(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that shapes the bytes of a data set besides the images' own.

    Attributes:
        dataset: e.g. ``imagenet``.
        dataset_config: the data set's own options, such as how it was split.
        seed: of the shuffle.
        limit: images of each split that were taken at most, or a share of them, ``10%``.
        folds: how many the images of a split were put in.
        shuffle: by split, how the images were put in order when they came from the raw data.
        image: what was done to the images.
        classes_sha256: of the list of classes; see *Hashes*.
        unmatched: of the raw data.
        counts: what the scan counted, by what it is.
        excluded: what the user left out.
        input: by split, the images that were found.
        num_shards: by split.
        sink: the format.
        examples: what is true of every example.
        layout: whether shards are in directories called after the splits, or ``flat``.
        lineage: the data sets that this one was made from, the latest first; where there were
            several, each is followed by its own.
        versions: of what shapes the bytes; of a data set that grew, those of the last time.
    """

    dataset: Option
    dataset_config: Options
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    limit: Positive | Annotated[str, Meta(pattern=f"^([0-9.e-]+%|[0-9]+/[0-9]+){_END}")] | None = (
        None
    )
    folds: Positive | None = None
    shuffle: dict[SplitName, Shuffle]
    image: ImageRecipe
    classes_sha256: Sha256
    unmatched: Unmatched
    counts: dict[Text, Count]
    excluded: Excluded | None = None
    input: Annotated[dict[SplitName, Input], Meta(min_length=1)]
    num_shards: Annotated[dict[SplitName, Positive], Meta(min_length=1)]
    sink: SinkConfig
    examples: Examples
    layout: Layout
    lineage: tuple[Ancestor, ...] = ()
    versions: Versions

    def __post_init__(self) -> None:
        """Refuse more shards than can be listed, and splits made of nothing."""
        if sum(self.num_shards.values()) > MOST_SHARDS:
            raise ValueError(f"num_shards: more than {MOST_SHARDS:,}")
        if not self.num_shards.keys() <= self.input.keys() & self.shuffle.keys():
            raise ValueError("num_shards: a split that `input` or `shuffle` does not have")


class File(Value, frozen=True, gc=False):
    """A file of the data set.

    Attributes:
        path: from the directory of the manifest.
        bytes: its size.
        sha256: of all its bytes.
    """

    path: FilePath
    bytes: Count
    sha256: Sha256


class RecordsFile(File, frozen=True):
    """The table of records, a row for every image that was found; see *records.parquet*.

    Attributes:
        path: from the directory of the manifest.
        bytes: its size.
        sha256: of all its bytes.
        rows: how many it has.
    """

    path: Literal["records.parquet"]
    rows: Count


class Shard(Value, frozen=True, gc=False):
    """A shard.

    Attributes:
        records: how many it holds.
        files: the data first, then the format's sidecars.
    """

    records: Count
    files: Annotated[tuple[File, ...], Meta(min_length=1)]

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(file.bytes for file in self.files)


class Statuses(Value, frozen=True, kw_only=True):
    """Rows of each status in the table of records; those repaired and warned are records.

    Attributes:
        rejected: images that cannot be used.
        repaired: records stored in another form than they came in.
        warned: records of which the decoder complained.
        missing: images that are listed but not there.
        unlisted: images that are there but not listed.
        ignored: files that are no images.
        excluded: images that were left out.
    """

    rejected: Count
    repaired: Count
    warned: Count
    missing: Count
    unlisted: Count
    ignored: Count
    excluded: Count


class Totals(Statuses, frozen=True, kw_only=True):
    """Records, and rows of each status, of all splits and of none.

    Attributes:
        records: in all shards.
    """

    records: Count


class Range(Value, frozen=True):
    """Smallest, mean and largest.

    Attributes:
        min: the smallest.
        mean: rounded.
        max: the largest.
    """

    min: Count | None
    mean: float | None
    max: Count | None


class TotalRange(Range, frozen=True):
    """The same, and the sum.

    Attributes:
        total: of all images.
    """

    total: Count


class Histogram(Value, frozen=True):
    """Images by bin.

    Attributes:
        edges: ascending.
        images: how many are below the first edge, from each edge to below the next one, and from
            the last edge on; one more than edges.
    """

    edges: tuple[int | float, ...]
    images: tuple[Count, ...]


class Statistics(Value, frozen=True):
    """Of the images of a split as they are stored (--stats).

    Attributes:
        images: how many.
        bytes: of one image.
        formats: images by ``JPEG``, ``PNG`` or ``RAW``, arrays of pixels.
        height: in pixels.
        width: in pixels.
        shorter_side: in pixels.
        aspect_ratio: width / height.
        pixels: how many were counted for `mean` and `std`; 0 if images were not decoded.
        mean: of levels 0 to 255, one number a channel in RGB order, over all pixels of all images
            together; null if none were decoded.
        std: the population's standard deviation, likewise.
    """

    images: Count
    bytes: TotalRange
    formats: dict[Option, Count]
    height: Range
    width: Range
    shorter_side: Histogram
    aspect_ratio: Histogram
    pixels: Count
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


class Split(Statuses, frozen=True, kw_only=True, omit_defaults=True):
    """A split.

    Attributes:
        images_found: records, and images rejected.
        records: in its shards.
        bytes: of its shards' files.
        records_per_shard: smallest and largest.
        class_spread: largest difference of any class's count between any two shards.
        label_set_spread: the same of any set of labels that examples have together; 0 where they
            have one label each.
        class_records: records by 0-based class index.
        shards: in the order of their numbers, from 0.
        files: made once from all shards, such as a list of them.
        statistics: null without ``--stats``.
    """

    images_found: Count
    records: Count
    bytes: Count
    records_per_shard: tuple[Count, Count]
    class_spread: Count
    label_set_spread: Count
    class_records: dict[Annotated[str, Meta(pattern=f"^(0|[1-9][0-9]{{0,9}}){_END}")], Positive]
    shards: Annotated[tuple[Shard, ...], Meta(min_length=1, max_length=MOST_SHARDS)]
    files: tuple[File, ...]
    statistics: Statistics | None

    def __post_init__(self) -> None:
        """Refuse sums that are not those of the shards."""
        counts = [shard.records for shard in self.shards]
        said = self.records, self.records_per_shard, self.images_found, self.bytes
        records, size = sum(counts), sum(shard.bytes for shard in self.shards)
        if said != (records, (min(counts), max(counts)), records + self.rejected, size):
            raise ValueError("records, images or bytes are not those of the shards")


class GenerationSplit(Value, frozen=True):
    """How much of a split was made at one time.

    Attributes:
        shards: how many, behind those of the generations before.
        records: in them.
    """

    shards: Positive
    records: Positive


class Generation(Value, frozen=True):
    """What was made first, or what one --append added.

    Attributes:
        splits: by name, what was made of each.
        input: what that was made from.
        versions: of what made it.
    """

    splits: Annotated[dict[SplitName, GenerationSplit], Meta(min_length=1)]
    input: Annotated[dict[SplitName, Input], Meta(min_length=1)]
    versions: Versions


class Manifest(Identity, frozen=True, kw_only=True, tag_field="format", tag="dataprep-manifest-2"):
    """What a sealed data set says about itself.

    Attributes:
        classes: (identifier, name) of each; the position is the 0-based label.
        records_table: the table of records.
        totals: what the table has, counted.
        splits: by name, what is in each.
        generations: what was made first and what each --append added, in this order, which is
            that of each split's shards; empty if nothing was added, or all was compacted since.
        sha256: of the same file without this line; see *Hashes*.
    """

    classes: Classes
    records_table: RecordsFile
    totals: Totals
    splits: Annotated[dict[SplitName, Split], Meta(min_length=1)]
    generations: tuple[Generation, ...] = ()
    sha256: Sha256 = ""

    def __post_init__(self) -> None:
        """Refuse what contradicts itself: splits, sums, files and classes."""
        super().__post_init__()
        splits = self.splits.values()
        if {name: len(split.shards) for name, split in self.splits.items()} != self.num_shards:
            raise ValueError("num_shards: not the number of shards of each split")
        if sum(split.records for split in splits) != self.totals.records:
            raise ValueError("totals: records are not those of the splits")
        numbers = map(int, chain.from_iterable(split.class_records for split in splits))
        if max(numbers, default=-1) >= len(self.classes):
            raise ValueError("splits: class_records has a class that is not in the list")
        paths = [file.path for file in self.files()]
        if len({*paths}) < len(paths):
            raise ValueError("splits: a file is named twice")

    def shards(self) -> list[Shard]:
        """All shards, by split and number."""
        return [shard for split in self.splits.values() for shard in split.shards]

    def files(self) -> list[File]:
        """Every file but the table of records and the manifest."""
        of_splits = (split.files for split in self.splits.values())
        return [*chain.from_iterable(chain((shard.files for shard in self.shards()), of_splits))]
