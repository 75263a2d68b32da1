"""The options of the folder data set: what they are, and what they mean together."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from dataprep.archives.listing import clean_path
from dataprep.datasets.base import Option
from dataprep.datasets.lists import FORMATS
from dataprep.datasets.splits import SPLIT_FOLDERS, Cut, parse_seed, parse_share, parse_split
from dataprep.errors import UsageError
from dataprep.system.messages import printable, some_of

OPTIONS: Final = (
    Option(
        "listing",
        "A file that lists the images: path,label[,split] as CSV, TSV, JSON lines or Parquet, or "
        "lines `path label` (.txt); or annotations, several with commas: COCO's .json, or the "
        "folder of Pascal VOC's .xml. A path, or a name in the raw directory. Without it, or with "
        "none, folders tell the classes; or a metadata.csv, .jsonl or .parquet beside the images, "
        "as Hugging Face has it.",
        metavar="FILE",
    ),
    Option(
        "unlabelled",
        "Take all images that there are, in whatever folders, without classes.",
        flag=True,
    ),
    Option("path_column", "The listing's column of paths.", "path", metavar="NAME"),
    Option("label_column", "The listing's column of labels.", "label", metavar="NAME"),
    Option(
        "split_column",
        "The listing's column of splits; '' for none.  [default: split, if there is one]",
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
        "label_columns",
        "The listing's columns that are classes, in this order: 1 where an image has it, 0 or "
        "nothing where not, -1 where that is uncertain. An image may have any number.",
        metavar="NAME,...",
    ),
    Option(
        "uncertain",
        "What a -1 in --label_columns becomes: keep: -1 in `records.labels`; or positive, "
        "negative; exclude: the image is left out.  [default: keep]",
        choices=("keep", "positive", "negative", "exclude"),
    ),
    Option(
        "caption_column",
        "The listing's column of captions: a text, or, in JSON lines and Parquet, a list of them.",
        metavar="NAME",
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
        "A list of the classes that fixes their order: one a line, optionally with a TAB and "
        "its name after it. Needed where part of a data set is to have the whole's labels.",
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
        "Cut the images, those of each class, into splits of these shares, which add up to 1: "
        "train=0.8,validation=0.1,test=0.1.",
        metavar="SPLIT=SHARE,...",
    ),
    Option(
        "stratify",
        "labels: --fractions are shares of each class (of several labels, the rarest counts). "
        "none: a hash alone sends each image somewhere.  [default: labels]",
        choices=("labels", "none"),
    ),
    Option(
        "splits_from",
        "Leave what is assigned where it is, and let --fractions assign only what is new: a "
        "finished data set, perhaps OUT itself, or a .csv or .parquet with key,split[,group].",
        metavar="OLD",
        file=True,
        directory=True,
    ),
    Option("split_seed", "Random seed of --fractions.", "0", metavar="NUMBER"),
    Option(
        "group_by",
        "What is never in two splits: an image (path), a folder's images (folder), or the images "
        "with one value in a column of the listing, such as patient, or of --dicom_attributes "
        "(patient, study).",
        "path",
        metavar="path|folder|COLUMN",
    ),
    Option(
        "dicom_attributes",
        "What of the headers of DICOM images is kept as attributes: view, laterality, body_part, "
        "age (in decades), age_years, sex, manufacturer, pixel_spacing, study, patient; all: these "
        "without age_years. The last two are hashed with --hash_key.",
        metavar="NAME,...|all",
    ),
    Option(
        "hash_key",
        "A file with the secret key of hashes; openssl rand -hex 32 > FILE makes one.",
        metavar="FILE",
        file=True,
    ),
    Option(
        "hash_keys",
        "Make keys hashes of the images' paths, with --hash_key, where these may name people.",
        flag=True,
    ),
)

HASHED: Final = ("study", "patient")
"""What of DICOM headers is kept as a keyed hash only."""

DICOM_ATTRIBUTES: Final = (
    *("view", "laterality", "body_part", "age", "sex", "manufacturer", "pixel_spacing"),
    *HASHED,
    "age_years",
)

NO_LISTING: Final = "none"
"""The value of ``--listing`` that says that folders tell the classes."""

_NEED_LISTING: Final = (
    *("split_column", "label_separator", "no_label", "label_columns", "caption_column"),
    "attribute_columns",
)


@dataclass(frozen=True, slots=True)
class FolderOptions:
    """What the options say; a field is called like its option.

    Attributes:
        listing: the file that lists the images, absolute, or relative to the raw directory; None:
            folders tell the classes.
        annotations: names of COCO's files, or of VOC's folder, likewise; empty: there are none.
        unlabelled: whether images have no classes.
        listing_ruled_out: whether the user said that there is none.
        split_column: None: ``split``, if there is one; empty: none.
        label_columns: each is a class; empty: `label_column` names them.
        uncertain: what becomes of a -1 there; empty: nobody said.
        attribute_columns: ``("all",)``: all that are not used otherwise.
        inside: empty for the top.
        cut: how to cut the images into splits; None: they are not cut.
        stratify: whether they are cut when all are known, by their labels; else each by itself.
        dicom_attributes: of `DICOM_ATTRIBUTES`.
        hash_key: the file with the key of hashes.
        hash_keys: whether keys are hashes.
    """

    listing: Path | None
    annotations: tuple[Path, ...]
    unlabelled: bool
    listing_ruled_out: bool
    path_column: str
    label_column: str
    split_column: str | None
    label_separator: str
    no_label: str
    label_columns: tuple[str, ...]
    uncertain: str
    caption_column: str
    attribute_columns: tuple[str, ...]
    inside: str
    class_from: str
    classes: Path | None
    split_folders: bool
    split_name: str
    cut: Cut | None
    stratify: bool
    splits_from: Path | None
    group_by: str
    dicom_attributes: tuple[str, ...]
    hash_key: Path | None
    hash_keys: bool

    @property
    def groups_by_header(self) -> bool:
        """Whether headers tell what is never in two splits."""
        return self.group_by in HASHED and self.group_by in self.dicom_attributes

    @property
    def hint(self) -> tuple[str, ...]:
        """What could be done where nothing tells any splits."""
        if self.cut or self.split_name != "train":
            return ()
        return ("no splits found: all images are train; see --fractions, which cuts them",)


def parse_options(options: Mapping[str, str]) -> FolderOptions:
    """What the options say.

    Raises:
        UsageError: a value is not understood, or two contradict each other.
    """
    seed = parse_seed("split_seed", options["split_seed"])
    annotations = _annotations(options)
    parsed = FolderOptions(
        listing=None if annotations else _listing(options),
        annotations=annotations,
        unlabelled="unlabelled" in options,
        listing_ruled_out=options.get("listing") == NO_LISTING,
        path_column=options["path_column"],
        label_column=options["label_column"],
        split_column=options.get("split_column"),
        label_separator=options.get("label_separator", ""),
        no_label=options.get("no_label", ""),
        label_columns=_names(options, "label_columns"),
        uncertain=options.get("uncertain", ""),
        caption_column=options.get("caption_column", ""),
        attribute_columns=_names(options, "attribute_columns"),
        inside=_inside(options["inside"]) if "inside" in options else "",
        class_from=options["class_from"],
        classes=Path(options["classes"]) if "classes" in options else None,
        split_folders=options["split_folders"] == "auto",
        split_name=parse_split("split_name", options["split_name"]),
        cut=_cut(options["fractions"], seed) if "fractions" in options else None,
        stratify=options.get("stratify") != "none",
        splits_from=Path(options["splits_from"]) if "splits_from" in options else None,
        group_by=options["group_by"],
        dicom_attributes=_dicom_attributes(options.get("dicom_attributes", "")),
        hash_key=Path(options["hash_key"]) if "hash_key" in options else None,
        hash_keys="hash_keys" in options,
    )
    for name in ("stratify", "splits_from"):
        if name in options and parsed.cut is None:
            raise UsageError(f"--{name} needs --fractions, the shares that it is about")
    if parsed.splits_from is not None and not parsed.stratify:
        raise UsageError(
            "--splits_from with --stratify none: there a hash alone sends each image somewhere; "
            "leave one of them out"
        )
    _check_label_columns(options, parsed.label_columns)
    hashed = [f"--dicom_attributes {name}" for name in HASHED if name in parsed.dicom_attributes]
    hashed += ["--hash_keys"] if parsed.hash_keys else []
    if hashed and parsed.hash_key is None:
        raise UsageError(
            f"{hashed[0]} needs --hash_key FILE, since without a secret any hash can be guessed; "
            "make it with: openssl rand -hex 32 > FILE"
        )
    return parsed


def _dicom_attributes(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if names == ("all",):
        return DICOM_ATTRIBUTES[:-1]
    if unknown := [name for name in names if name not in DICOM_ATTRIBUTES]:
        raise UsageError(
            f"--dicom_attributes {some_of(unknown)}: expected all, or some of "
            f"{', '.join(DICOM_ATTRIBUTES)}"
        )
    return names


def _annotations(options: Mapping[str, str]) -> tuple[Path, ...]:
    """What ``--listing`` names, if that is COCO's files or folders."""
    names = [name.strip() for name in options.get("listing", NO_LISTING).split(",")]
    folders = not any(name in ("", NO_LISTING) or Path(name).suffix for name in names)
    if not (folders or all(name.lower().endswith(".json") for name in names)):
        return ()
    alone = (*_NEED_LISTING, "classes", "dicom_attributes", "hash_keys", "unlabelled")
    if given := [name for name in alone if name in options]:
        raise UsageError(f"--{given[0]} cannot be used with annotations; leave it out")
    return tuple(path.absolute() if path.exists() else path for path in map(Path, names))


def _listing(options: Mapping[str, str]) -> Path | None:
    if options.get("listing", NO_LISTING) == NO_LISTING:
        return None
    path = Path(options["listing"])
    if path.suffix.lower() not in FORMATS:
        raise UsageError(
            f"--listing {printable(path.name)}: expected a name that ends in "
            f"{', '.join(FORMATS)}; rename it"
        )
    return path.absolute() if path.exists() else path


def refuse_options_of_listings(options: Mapping[str, str], parsed: FolderOptions) -> None:
    """Refuse options that are about a listing, where there is none.

    Raises:
        UsageError: names one.
    """
    if alone := [name for name in _NEED_LISTING if name in options]:
        raise UsageError(f"--{alone[0]} needs --listing, the file it is about")
    if parsed.group_by not in ("path", "folder") and not parsed.groups_by_header:
        raise UsageError(
            f"--group_by {printable(parsed.group_by)}: without --listing there are no columns; "
            "expected path or folder, or patient or study beside --dicom_attributes with that"
        )


def _names(options: Mapping[str, str], option: str) -> tuple[str, ...]:
    """Names with commas between them, or in double quotes, as CSV has them."""
    text = options.get(option, "").replace("\n", " ")
    return tuple(filter(None, map(str.strip, next(csv.reader([text], skipinitialspace=True), []))))


def _check_label_columns(options: Mapping[str, str], columns: tuple[str, ...]) -> None:
    if not columns and "uncertain" in options:
        raise UsageError("--uncertain needs --label_columns, whose -1 it is about")
    kinds = ("label_separator", "no_label", "classes", "unlabelled")
    others = [name for name in kinds if name in options]
    others += ["label_column"] * (options["label_column"] != "label")
    if columns and others:
        raise UsageError(
            f"--{others[0]} with --label_columns, which are the classes; leave one of them out"
        )
    # The database makes no difference between A and a.
    told_apart = len({name.lower() for name in columns}) == len(columns)
    if not told_apart or any("|" in name for name in columns):
        raise UsageError(
            f"--label_columns {printable(','.join(columns))}: expected each column once, in "
            "whatever case, without | in its name; rename it in the listing"
        )


def _inside(text: str) -> str:
    try:
        return clean_path(text)
    except ValueError as error:
        raise UsageError(f"--inside {printable(text)}: {error}") from error


_AS_IN: Final = "as in train=0.8,validation=0.1,test=0.1 or train=2/3,test=1/3"
_ROUNDED: Final = Fraction(1, 10**9)  # floats from Python


def _cut(text: str, seed: int) -> Cut:
    shares = {}
    for part in text.split(","):
        name, equals, share = part.partition("=")
        if not equals:
            raise UsageError(f"--fractions {text!r}: {part!r} is no SPLIT=SHARE, {_AS_IN}")
        shares[parse_split("fractions", name)] = parse_share("fractions", share.strip())
    total = sum(shares.values(), Fraction(0))
    if abs(total - 1) > _ROUNDED:
        raise UsageError(
            f"--fractions: the shares add up to {float(total)!r}, expected 1, {_AS_IN}"
        )
    # The order in which they are named must not matter; the rest is what no share is needed for.
    rest = "train" if "train" in shares else min(shares)
    others = tuple((split, shares[split]) for split in sorted(shares) if split != rest)
    return Cut(seed, others, rest)
