"""Layouts that image sets are published in, declared: their files, and what stands where in them.

A row of the first table is an image, or a box; the others are joined to it by the columns that both
have. `published` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SPACES: Final = "[ \t]+"
# In a `.mat`: which element of a variable it is, from 1; what it is; and the variable's name.
NUMBER, ITSELF, VARIABLE = "#", "@", "$"
HELPERS: Final = ("class", "name", "image", "x", "y", "width", "height")  # no attributes


@dataclass(frozen=True, slots=True)
class Table:
    """Files of one form, of which those that are there are read."""

    files: str | Mapping[str, str]  # names of files, by the split of all their images if they tell
    columns: str  # in the order of a line; of a `.mat` ``column=FIELD``, or one of the signs above
    skip: int = 0  # lines before the first row
    separator: str = SPACES
    first: str = ""  # a pattern of the first line, where the names of the files may be anybody's
    named: bool = False  # whether the line before the rows names classes: 1, or -1 for no
    variables: tuple[str, ...] = ()  # of a `.mat`
    needed: bool = True  # whether this is not the layout if it is not there

    @property
    def splits(self) -> Mapping[str, str]:
        """Of all its files, by name."""
        return {self.files: ""} if isinstance(self.files, str) else self.files

    @property
    def places(self) -> Mapping[str, str]:
        """Where its columns stand: cells of a line from 1, or what of an element."""
        pairs = (word.split("=") for word in self.columns.split())
        return {word: (*more, str(at))[0] for at, (word, *more) in enumerate(pairs, 1)}


@dataclass(frozen=True, slots=True)
class Layout:
    """A published layout.

    Its columns are ``path``, ``label``, ``split``, ``xmin`` to ``ymax``; ``class``, a number in the
    order of the classes, else the rows are in it; ``name``, a class in words; and attributes.
    """

    name: str
    tables: tuple[Table, ...]
    images: tuple[str, ...] = ()  # folders that may have the images; else they are in RAW
    splits: Mapping[str, str] = field(default_factory=dict)  # by what a column says of them
    says: Mapping[str, str] = field(default_factory=dict)  # columns that are SQL of the tables'
    classes: str = ""  # the file of the table that has all classes
    by_name: bool = False  # whether it is read only where `--listing` names its file


_CORNER: Final = {
    "xmin": "x",
    "ymin": "y",
    "xmax": "(try_cast(x as double) + try_cast(width as double))::varchar",
    "ymax": "(try_cast(y as double) + try_cast(height as double))::varchar",
}
_FROM_1: Final = {it: f"(try_cast({it} as double) - 1)::varchar" for it in ("xmin", "ymin")}


def _celeba(name: str, suffix: str, separator: str, skip: int) -> tuple[Layout, Layout]:
    """CelebA's lists: of `skip` lines before the rows, the last one names columns."""

    def table(name: str, columns: str, *, named: bool = False, more: bool = False) -> Table:
        lines = 2 - skip if more else skip
        file = f"{name}{suffix}"
        return Table(file, columns, lines, separator, named=named, needed=not more)

    more = (
        table("list_eval_partition", "path split", more=True),
        table("identity_CelebA", "path identity", more=True),
    )
    splits = {"0": "train", "1": "validation", "2": "test"}
    marks = table("list_attr_celeba", "path", named=True)
    faces = table("list_bbox_celeba", "path x y width height")
    face = {"label": "'face'", **_CORNER}
    return (
        Layout(name, (marks, *more), ("img_align_celeba", "img_celeba"), splits),
        Layout(f"{name}, faces", (faces, *more), ("img_celeba",), splits, face, by_name=True),
    )


_ALL: Final = (
    *_celeba("CelebA", ".txt", SPACES, 2),
    *_celeba("CelebA as Kaggle has it", ".csv", ",", 1),
    Layout(
        "CUB-200-2011",
        (
            Table("images.txt", "image path"),
            Table("image_class_labels.txt", "image class"),
            Table("classes.txt", "class label"),
            Table("bounding_boxes.txt", "image x y width height"),
            Table("train_test_split.txt", "image split", needed=False),
        ),
        ("images",),
        {"1": "train", "0": "test"},
        _CORNER,
        classes="classes.txt",
    ),
    Layout(
        "Oxford-IIIT Pets",
        (
            Table(
                {"trainval.txt": "train", "test.txt": "test"},
                "path class species breed",
                first=r"\S+_[0-9]+ [0-9]+ [12] [0-9]+",
            ),
        ),
        ("images",),
        says={"label": "regexp_extract(path, '^(.*)_[0-9]+$', 1)"},
        classes="trainval.txt",
    ),
    Layout(
        "Flowers-102",
        (
            Table("imagelabels.mat", "image=# label=@", variables=("labels",)),
            Table("setid.mat", "image=@ split=$", variables=("trnid", "valid", "tstid")),
        ),
        ("jpg",),
        {"trnid": "train", "valid": "validation", "tstid": "test"},
        {"path": "format('image_{:05d}.jpg', try_cast(image as bigint))"},
    ),
    Layout(
        "Stanford Cars",
        (
            Table(
                {"cars_train_annos.mat": "train", "cars_test_annos_withlabels.mat": "test"},
                "path=fname class=class xmin=bbox_x1 ymin=bbox_y1 xmax=bbox_x2 ymax=bbox_y2",
                variables=("annotations",),
            ),
            Table("cars_meta.mat", "class=# label=@", variables=("class_names",)),
        ),
        says={"path": "'cars_' || split || '/' || path", **_FROM_1},
        classes="cars_meta.mat",
    ),
    Layout(
        "Open Images",
        (
            Table(
                {
                    f"{before}{split}-annotations-bbox.csv": split
                    for before in ("", "oidv6-")
                    for split in ("train", "validation", "test")
                },
                "path source label confidence xmin xmax ymin ymax",
                skip=1,
                separator=",",
                first="ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax(,.*)?",
            ),
            Table("class-descriptions-boxable.csv", "label name", separator=","),
        ),
        classes="class-descriptions-boxable.csv",
    ),
)
LAYOUTS: Final = {each.name: each for each in _ALL}
