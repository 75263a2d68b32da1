"""The options of the folder data set: what they are, and what they mean together."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from dataprep.archives.listing import clean_path
from dataprep.datasets.lists import FORMATS
from dataprep.datasets.splits import SPLIT_FOLDERS, Cut, parse_share, parse_split
from dataprep.errors import UsageError
from dataprep.options import FILE, StrPath, option, stated
from dataprep.system.messages import printable, some_of

HASHED: Final = ("study", "patient")  # what of DICOM headers is kept as a keyed hash only
DICOM_ATTRIBUTES: Final = (
    *("view", "laterality", "body_part", "age", "sex", "manufacturer"),
    *("row_spacing", "column_spacing", *HASHED, "age_years"),
)

NO_LISTING: Final = "none"  # the value of ``--listing`` that says that folders tell the classes
_NEED_LISTING: Final = (
    *("split_column", "label_separator", "no_label", "label_columns", "caption_column"),
    "attribute_columns",
    "mask_column",
)
_AS_IN: Final = "as in train=0.8,validation=0.1,test=0.1 or train=2/3,test=1/3"
_ROUNDED: Final = Fraction(1, 10**9)  # floats from Python


def _columns(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names with commas between them, or in double quotes, as CSV has them."""
    lines = [value.replace("\n", " ")] if isinstance(value, str) else []
    found = next(csv.reader(lines, skipinitialspace=True), []) if lines else [*value]
    return tuple(filter(None, map(str.strip, found)))


def _dicom_attributes(value: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_columns(value)))
    if names == ("all",):
        return DICOM_ATTRIBUTES[:-1]
    if unknown := [name for name in names if name not in DICOM_ATTRIBUTES]:
        raise ValueError(
            f"{some_of(unknown)}: expected all, or some of {', '.join(DICOM_ATTRIBUTES)}"
        )
    return names


def _numbers(value: str | Mapping[int, int]) -> dict[int, int]:
    pairs = [*value.items()] if isinstance(value, Mapping) else []
    for part in value.split(",") if isinstance(value, str) else ():
        before, _, after = (it.strip() for it in part.partition("="))
        if not (before.isdecimal() and after.isdecimal()):
            raise ValueError(f"{part!r} is no FROM=TO, as in 255=1")
        pairs.append((int(before), int(after)))
    if not all(0 <= number < 256 for pair in pairs for number in pair):
        raise ValueError(f"{value!r}: expected numbers from 0 to 255")
    return dict(sorted(pairs))


def _place(value: StrPath) -> str:
    return os.fspath(value)


def _inside(value: str) -> str:
    try:
        return clean_path(value)
    except ValueError as error:
        raise ValueError(f"{printable(value)}: {error}") from error


def _shares(value: str | Mapping[str, float | str | Fraction]) -> dict[str, Fraction]:
    pairs = [*value.items()] if isinstance(value, Mapping) else []
    for part in value.split(",") if isinstance(value, str) else ():
        name, equals, text = part.partition("=")
        if not equals:
            raise ValueError(f"{value!r}: {part!r} is no SPLIT=SHARE, {_AS_IN}")
        pairs.append((name, text.strip()))
    shares = {parse_split(name): parse_share(share) for name, share in pairs}
    total = sum(shares.values(), Fraction(0))
    if abs(total - 1) > _ROUNDED:
        raise ValueError(f"the shares add up to {float(total)!r}, expected 1, {_AS_IN}")
    return shares


@dataclass(frozen=True, kw_only=True)
class FolderOptions:
    """What the user says of a folder of images.

    Attributes:
        split_column: None: ``split``, if there is one; empty: none.
        attribute_columns: ``("all",)``: all that are not used otherwise.
    """

    listed: str | None = option(
        "A file that lists the images: path,label[,split] as CSV, TSV, JSON lines or Parquet, or "
        "lines `path label` (.txt); one a split, with commas, if their names tell it; or "
        "annotations, several with commas: COCO's .json, YOLO's data.yaml, or the "
        "folder of Pascal VOC's .xml or LabelMe's .json; or the first file of a published layout "
        "(docs/folder.md). A path, or a name in the raw directory. Without it, or with none, "
        "folders tell the classes; or a metadata.csv, .jsonl or .parquet beside the images, as "
        "Hugging Face has it.",
        None,
        name="listing",
        metavar="FILE",
        parse=_place,
    )
    unlabelled: bool = option(
        "Take all images that there are, in whatever folders, without classes.", False
    )
    path_column: str = option("The listing's column of paths.", "path", metavar="NAME")
    label_column: str = option("The listing's column of labels.", "label", metavar="NAME")
    split_column: str | None = option(
        "The listing's column of splits; '' for none. [default: split, if there is one]",
        None,
        metavar="NAME",
    )
    label_separator: str = option(
        "What separates the labels in a cell of the listing, such as '|'; then an image may have "
        "any number of labels.",
        "",
        metavar="TEXT",
    )
    no_label: str = option(
        "A label of the listing that means none, such as 'No Finding'; then an image may have no "
        "labels.",
        "",
        metavar="TEXT",
    )
    label_columns: tuple[str, ...] = option(
        "The listing's columns that are classes, in this order: 1 where an image has it, 0 or "
        "nothing where not, -1 where that is uncertain. An image may have any number.",
        (),
        metavar="NAME,...",
        parse=_columns,
    )
    uncertain: Literal["keep", "positive", "negative", "exclude"] | None = option(
        "What a -1 in --label_columns becomes: keep: -1 in `records.labels`; or positive, "
        "negative; exclude: the image is left out. [default: keep]",
        None,
    )
    caption_column: str = option(
        "The listing's column of captions: a text, or, in JSON lines and Parquet, a list of them.",
        "",
        metavar="NAME",
    )
    attribute_columns: tuple[str, ...] = option(
        "The listing's columns that are kept as attributes of each image, such as age,sex; or all "
        "that are not used otherwise.",
        (),
        metavar="NAME,...|all",
        parse=_columns,
    )
    mask_dir: str = option(
        "The folder of the images' masks, which has the tree that the images have: a path in the "
        "raw directory or in its archives, or the name of such folders anywhere. A mask has a "
        "number for each pixel: of a grey or indexed picture, 255 for none.",
        "",
        metavar="PATH",
        parse=_inside,
    )
    mask_suffix: str = option(
        "What the name of a mask ends with, instead of the image's suffix, such as _mask.png; or "
        "IMAGE=MASK, such as _leftImg8bit=_gtFine_labelIds. Without --mask_dir, masks are beside "
        "their images.",
        "",
        metavar="[IMAGE=]MASK",
    )
    mask_column: tuple[str, ...] = option(
        "The listing's column of masks: paths, in --mask_dir or else the raw directory; or "
        "columns with runs of pixels, `start length start length`, as numbers 1, 2 and so on.",
        (),
        metavar="NAME,...",
        parse=_columns,
    )
    mask_runs: Literal["rows", "columns"] | None = option(
        "How --mask_column's runs count the pixels, from 1: along rows, as CheXmask's do, or "
        "down columns, as most of Kaggle's.",
        None,
    )
    mask_outlines: bool = option(
        "Make masks of what COCO's annotations outline, each category its number: 1, 2 and so on "
        "in the order of the ids; 255 where different ones overlap. Needs pycocotools.",
        False,
    )
    mask_values: Mapping[int, int] | None = option(
        "Numbers of masks that become others, such as 255=1 where 255 is a class.",
        None,
        metavar="FROM=TO,...",
        parse=_numbers,
    )
    mask_classes: Path | None = option(
        "A list of what the numbers of masks mean: a name a line, from 0; or `number<TAB>name`.",
        None,
        **FILE,
    )
    inside: str = option(
        "Take only what is below this path, in the raw directory or in its archives, as if all "
        "started there.",
        "",
        metavar="PATH",
        parse=_inside,
    )
    class_from: Literal["top", "path"] = option(
        "The class of an image in folders: the top folder, as torchvision and Keras have it, or "
        "the whole folder path, such as a/airfield.",
        "top",
    )
    classes: Path | None = option(
        "A list of the classes that fixes their order: one a line, optionally with a TAB and "
        "its name after it. Needed where part of a data set is to have the whole's labels.",
        None,
        **FILE,
    )
    folders: Literal["auto", "never"] = option(
        f"Whether top folders named {SPLIT_FOLDERS} are splits; never: they are classes.",
        "auto",
        name="split_folders",
    )
    split_name: str = option(
        "The split of all images, if nothing else tells one.",
        "train",
        metavar="NAME",
        parse=parse_split,
    )
    fractions: Mapping[str, Fraction] | None = option(
        "Cut the images, those of each class, into splits of these shares, which add up to 1: "
        "train=0.8,validation=0.1,test=0.1.",
        None,
        metavar="SPLIT=SHARE,...",
        parse=_shares,
    )
    stratified: bool | None = option(
        "Whether --fractions are shares of each class (of several labels, the rarest counts); "
        "else a hash alone sends each image somewhere. [default: they are]",
        None,
        name="stratify",
    )
    splits_from: Path | None = option(
        "Leave what is assigned where it is, and let --fractions assign only what is new: a "
        "finished data set, perhaps OUT itself, or a .csv or .parquet with key,split[,group].",
        None,
        metavar="OLD",
        place="any",
        exists=True,
    )
    split_seed: int = option("Random seed of --fractions.", 0, metavar="NUMBER")
    group_by: str = option(
        "What is never in two splits: an image (path), a folder's images (folder), or the images "
        "with one value in a column of the listing, such as patient, or of --dicom_attributes "
        "(patient, study).",
        "path",
        metavar="path|folder|COLUMN",
    )
    dicom_attributes: tuple[str, ...] = option(
        "What of the headers of DICOM images is kept as attributes: view, laterality, body_part, "
        "age (in decades), age_years, sex, manufacturer, row_spacing, column_spacing (in mm), "
        "study, patient; all: these without age_years. The last two are hashed with --hash_key.",
        (),
        metavar="NAME,...|all",
        parse=_dicom_attributes,
    )
    frames: Literal["first", "middle", "all"] | None = option(
        "Of DICOM of several frames: the first, the middle one, or all, each an image with the "
        "key NAME#1, NAME#2, …, and never in two splits. [default: they are refused]",
        None,
    )
    hash_key: Path | None = option(
        "A file with the secret key of hashes; openssl rand -hex 32 > FILE makes one.",
        None,
        **FILE,
    )
    hash_keys: bool = option(
        "Make keys hashes of the images' paths, with --hash_key, where these may name people.",
        False,
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be together.

        Raises:
            UsageError: names it.
        """
        given = stated(self)
        if self.annotations:
            of_headers = "dicom_attributes", "hash_keys", "frames"
            alone = (*_NEED_LISTING, "classes", *of_headers, "unlabelled")
            if found := [name for name in alone if name in given]:
                raise UsageError(f"--{found[0]} cannot be used with annotations; leave it out")
        elif odd := [it for it in self.listings if it.suffix.lower() not in (*FORMATS, ".mat")]:
            raise UsageError(
                f"--listing {printable(odd[0].name)}: expected a name that ends in "
                f"{', '.join(FORMATS)}; rename it"
            )
        for name in ("stratify", "splits_from"):
            if (name in given or (name == "stratify" and not self.stratify)) and not self.cut:
                raise UsageError(f"--{name} needs --fractions, the shares that it is about")
        if self.splits_from is not None and not self.stratify:
            raise UsageError(
                "--splits_from with --no_stratify: there a hash alone sends each image somewhere; "
                "leave one of them out"
            )
        self._check_label_columns(given)
        self._check_masks()
        hashed = [f"--dicom_attributes {name}" for name in HASHED if name in self.dicom_attributes]
        hashed += ["--hash_keys"] if self.hash_keys else []
        if hashed and self.hash_key is None:
            raise UsageError(
                f"{hashed[0]} needs --hash_key FILE, since without a secret any hash can be "
                "guessed; make it with: openssl rand -hex 32 > FILE"
            )

    def _check_label_columns(self, given: Mapping[str, object]) -> None:
        columns = self.label_columns
        if not columns and self.uncertain:
            raise UsageError("--uncertain needs --label_columns, whose -1 it is about")
        kinds = ("label_separator", "no_label", "classes", "unlabelled")
        others = [name for name in kinds if name in given]
        others += ["label_column"] * (self.label_column != "label")
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

    @property
    def has_masks(self) -> bool:
        """Whether anything tells masks."""
        return bool(self.mask_dir or self.mask_suffix or self.mask_column or self.mask_outlines)

    def _check_masks(self) -> None:
        if self.mask_outlines and not self.annotations:
            raise UsageError("--mask_outlines needs COCO's annotations (--listing FILE.json)")
        if self.frames == "all" and self.has_masks:
            raise UsageError("--frames all with masks, of which there is one a file: leave one out")
        if self.mask_outlines and (self.mask_dir or self.mask_suffix):
            raise UsageError("--mask_outlines with masks in files: leave one of them out")
        if len(self.mask_column) > 1 and self.mask_runs is None:
            raise UsageError(
                "--mask_column names several columns, which have runs of pixels: give --mask_runs "
                "rows or columns"
            )
        if self.mask_runs is not None and not self.mask_column:
            raise UsageError("--mask_runs needs --mask_column, the columns that have the runs")
        if (self.mask_values or self.mask_classes) and not self.has_masks:
            raise UsageError(
                "--mask_values and --mask_classes are about masks: give --mask_dir, --mask_suffix, "
                "--mask_column or --mask_outlines"
            )

    def refuse_options_of_listings(self) -> None:
        """Refuse options that are about a listing, where there is none.

        Raises:
            UsageError: names one.
        """
        if alone := [name for name in _NEED_LISTING if name in stated(self)]:
            raise UsageError(f"--{alone[0]} needs --listing, the file it is about")
        if self.group_by not in ("path", "folder") and not self.groups_by_header:
            raise UsageError(
                f"--group_by {printable(self.group_by)}: without --listing there are no columns; "
                "expected path or folder, or patient or study beside --dicom_attributes with that"
            )

    @property
    def listing_ruled_out(self) -> bool:
        """Whether the user said that there is no listing."""
        return self.listed == NO_LISTING

    @cached_property
    def annotations(self) -> tuple[Path, ...]:
        """COCO's files, folders of VOC or LabelMe, or YOLO's file, as `listings`; or none."""
        names = [name.strip() for name in (self.listed or NO_LISTING).split(",")]
        folders = not any(name in ("", NO_LISTING) or Path(name).suffix for name in names)
        suffixes = {Path(name).suffix.lower() for name in names}
        yolo = len(names) == 1 and suffixes <= {".yaml", ".yml"}
        if not (folders or yolo or suffixes == {".json"}):
            return ()
        return tuple(path.absolute() if path.exists() else path for path in map(Path, names))

    @cached_property
    def listings(self) -> tuple[Path, ...]:
        """The files that list the images, absolute, or relative to the raw directory."""
        if self.listed in (None, NO_LISTING) or self.annotations:
            return ()
        names = [name.strip() for name in str(self.listed).split(",")]
        if not all(Path(name).suffix.lower() in FORMATS for name in names):
            names = [str(self.listed)]  # its name has a comma
        return tuple(path.absolute() if path.exists() else path for path in map(Path, names))

    @property
    def split_folders(self) -> bool:
        """Whether top folders of such names are splits."""
        return self.folders == "auto"

    @property
    def stratify(self) -> bool:
        """Whether images are cut when all are known, by their labels; else each by itself."""
        return self.stratified is not False

    @cached_property
    def cut(self) -> Cut | None:
        """How to cut the images into splits; None: they are not cut."""
        if self.fractions is None:
            return None
        # The order in which they are named must not matter; the rest is what no share is needed
        # for.
        rest = "train" if "train" in self.fractions else min(self.fractions)
        others = tuple((it, self.fractions[it]) for it in sorted(self.fractions) if it != rest)
        return Cut(self.split_seed, others, rest)

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
