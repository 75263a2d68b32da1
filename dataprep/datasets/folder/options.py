"""The options of the folder data set: what they are, and what they mean together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dataprep.archives.listing import clean_path
from dataprep.datasets.base import Option
from dataprep.datasets.splits import (
    SPLIT_FOLDERS,
    Cut,
    in_usual_order,
    parse_seed,
    parse_share,
    split_name,
)
from dataprep.errors import UsageError
from dataprep.system.messages import printable

OPTIONS: Final = (
    Option(
        "listing",
        "A file that lists the images: path,label[,split] as CSV, TSV, JSON lines or Parquet, or "
        "lines `path label` (.txt); a path, or a name in the raw directory. Without it, or with "
        "none, folders tell the classes.",
        metavar="FILE",
    ),
    Option("path_column", "The listing's column of paths.", "path", metavar="NAME"),
    Option("label_column", "The listing's column of labels.", "label", metavar="NAME"),
    Option(
        "split_column",
        "The listing's column of splits; '' for none.  [default: split, if there is one]",
        metavar="NAME",
    ),
    Option(
        "size_column",
        "The listing's column of file sizes in bytes, which saves one look-up a file; '' for "
        "none.  [default: size, if there is one]",
        metavar="NAME",
    ),
    Option(
        "label_separator",
        "What separates the labels in a cell of the listing, such as '|'; then an image may have "
        "any number of labels.",
        metavar="TEXT",
    ),
    Option(
        "no_label",
        "A label of the listing that means none, such as 'No Finding'; then an image may have no "
        "labels.",
        metavar="TEXT",
    ),
    Option(
        "attribute_columns",
        "The listing's columns that are kept as attributes of each image, such as age,sex; or all "
        "that are not used otherwise.",
        metavar="NAME,...|all",
    ),
    Option(
        "inside",
        "Take only what is below this path, in the raw directory or in its archives, as if all "
        "started there.",
        metavar="PATH",
    ),
    Option(
        "class_from",
        "The class of an image in folders: the top folder, as torchvision and Keras have it, or "
        "the whole folder path, such as a/airfield.",
        "top",
        choices=("top", "path"),
    ),
    Option(
        "classes",
        "A list of the classes that fixes their order: one a line, optionally with a TAB and a "
        "name or number after it. Needed where part of a data set is to have the whole's labels.",
        metavar="FILE",
        file=True,
    ),
    Option(
        "split_folders",
        f"Whether top folders named {SPLIT_FOLDERS} are splits; never: they are classes.",
        "auto",
        choices=("auto", "never"),
    ),
    Option(
        "split_name",
        "The split of all images, if nothing else tells one.",
        "train",
        metavar="NAME",
    ),
    Option(
        "fractions",
        "Cut the images into splits of about these shares, which add up to 1: "
        "train=0.8,validation=0.1,test=0.1.",
        metavar="SPLIT=SHARE,...",
    ),
    Option("split_seed", "Random seed of --fractions.", "0", metavar="NUMBER"),
    Option(
        "group_by",
        "What is never in two splits: an image (path), a folder's images (folder), or the images "
        "with one value in a column of the listing, such as patient.",
        "path",
        metavar="path|folder|COLUMN",
    ),
)

NO_LISTING: Final = "none"
"""The value of ``--listing`` that says that folders tell the classes."""

LISTING_FORMATS: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
}
"""What a listing is, by the suffix of its name."""

_NEED_LISTING: Final = (
    *("split_column", "size_column", "label_separator", "no_label", "attribute_columns"),
)
_PATHS: Final = frozenset({"listing", "classes"})


@dataclass(frozen=True, slots=True)
class ListingOptions:
    """Which file lists the images, and how it is read.

    Attributes:
        path: the file, absolute, or relative to the raw directory.
        format: ``csv``, ``tsv``, ``jsonl``, ``parquet`` or ``txt``.
        path_column: its column of paths.
        label_column: its column of labels.
        split_column: its column of splits; None: ``split``, if there is one; empty: none.
        size_column: its column of sizes; None: ``size``, if there is one; empty: none.
        label_separator: between the labels of one image; empty: an image has one label.
        no_label: the label that means none; empty if there is no such.
        attribute_columns: its columns that become attributes; ``("all",)``: all others.
    """

    path: Path
    format: str
    path_column: str
    label_column: str
    split_column: str | None
    size_column: str | None
    label_separator: str
    no_label: str
    attribute_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FolderOptions:
    """What the user wants of a folder of images.

    Attributes:
        listing: the file that lists the images; None: folders tell the classes.
        listing_ruled_out: whether the user said that there is none.
        inside: the path below which everything starts; empty for the top.
        class_from: ``top`` or ``path``.
        classes: the list of classes; None: they are what is found.
        split_folders: whether folders may be splits.
        split_name: the split where nothing tells one.
        cut: how to cut the images into splits; None: they are not cut.
        splits: the splits that `cut` makes, in the usual order.
        group_by: ``path``, ``folder`` or a column of the listing.
    """

    listing: ListingOptions | None
    listing_ruled_out: bool
    inside: str
    class_from: str
    classes: Path | None
    split_folders: bool
    split_name: str
    cut: Cut | None
    splits: tuple[str, ...]
    group_by: str


def parse_options(options: Mapping[str, str]) -> FolderOptions:
    """What the options say.

    Args:
        options: values by name, defaults included.

    Raises:
        UsageError: a value is not understood, or two contradict each other.
    """
    shares = _shares(options["fractions"]) if "fractions" in options else ()
    parsed = FolderOptions(
        listing=_listing(options),
        listing_ruled_out=options.get("listing") == NO_LISTING,
        inside=_inside(options.get("inside", "")),
        class_from=options["class_from"],
        classes=Path(options["classes"]) if "classes" in options else None,
        split_folders=options["split_folders"] == "auto",
        split_name=_split_name("split_name", options["split_name"]),
        cut=_cut(shares, parse_seed("split_seed", options["split_seed"])),
        splits=in_usual_order(split for split, _ in shares),
        group_by=options["group_by"],
    )
    if parsed.listing is None and parsed.group_by not in ("path", "folder"):
        raise UsageError(
            f"--group_by {printable(parsed.group_by)}: without --listing there are no columns; "
            "expected path or folder"
        )
    if parsed.listing is None and parsed.group_by == "folder" and parsed.cut is None:
        raise UsageError("--group_by folder needs --fractions: without them nothing is cut")
    return parsed


def shaping(options: Mapping[str, str]) -> dict[str, str]:
    """The options that shape the index; no paths."""
    return {name: value for name, value in options.items() if name not in _PATHS}


def _listing(options: Mapping[str, str]) -> ListingOptions | None:
    if options.get("listing", NO_LISTING) == NO_LISTING:
        if alone := [name for name in _NEED_LISTING if name in options]:
            raise UsageError(f"--{alone[0]} needs --listing, the file it is about")
        return None
    path = Path(options["listing"])
    form = LISTING_FORMATS.get(path.suffix.lower())
    if form is None:
        raise UsageError(
            f"--listing {printable(path.name)}: expected a name that ends in "
            f"{', '.join(LISTING_FORMATS)}; rename it"
        )
    separator = options.get("label_separator", "")
    if "label_separator" in options and not separator:
        raise UsageError("--label_separator is empty; expected what separates labels, such as '|'")
    if form == "txt" and separator.isspace():
        raise UsageError("--label_separator: in a .txt listing a space already ends the path")
    columns = options.get("attribute_columns", "").split(",")
    return ListingOptions(
        path=path.absolute() if path.exists() else path,
        format=form,
        path_column=options["path_column"],
        label_column=options["label_column"],
        split_column=options.get("split_column"),
        size_column=options.get("size_column"),
        label_separator=separator,
        no_label=options.get("no_label", ""),
        attribute_columns=tuple(filter(None, map(str.strip, columns))),
    )


def _inside(text: str) -> str:
    try:
        return clean_path(text) if text else ""
    except ValueError as error:
        raise UsageError(
            f"--inside {printable(text)}: {error}; expected a path below the raw directory, such "
            "as data_large"
        ) from error


def _split_name(option: str, text: str) -> str:
    try:
        return split_name(text)
    except ValueError as error:
        raise UsageError(f"--{option} {printable(text)}: {error}") from error


def _shares(text: str) -> tuple[tuple[str, str], ...]:
    shares: dict[str, str] = {}
    for part in text.split(","):
        name, _, share = part.partition("=")
        split = _split_name("fractions", name)
        if split in shares:
            raise UsageError(f"--fractions {printable(text)}: {split} is named twice")
        shares[split] = share.strip()
    return tuple(shares.items())


def _cut(texts: tuple[tuple[str, str], ...], seed: int) -> Cut | None:
    if not texts:
        return None
    shares = {split: parse_share("fractions", share) for split, share in texts}
    if sum(shares.values()) != 1:
        raise UsageError(
            f"--fractions: the shares add up to {float(sum(shares.values())):g}; expected 1, as "
            "in train=0.8,validation=0.1,test=0.1"
        )
    # The order in which they are named must not matter; the rest is what no share is needed for.
    rest = "train" if "train" in shares else min(shares)
    others = tuple((split, shares[split]) for split in sorted(shares) if split != rest)
    return Cut(seed, others, rest)
