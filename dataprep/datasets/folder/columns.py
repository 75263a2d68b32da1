"""What the columns of a list say, and the cells of those of labels."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Final
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dataprep.datasets.folder.lookup import with_columns
from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ClassList, ListFile
from dataprep.errors import SourceError, UsageError
from dataprep.system.messages import printable, some_of
from dataprep.tables.arrow import MOST_FIELDS
from dataprep_schemas.fields import NAME, UNCERTAIN

# Before the name of a class that is a column, where columns have their meanings.
CLASS: Final = "class "
KEPT: Final = "attribute "  # before the name of an attribute, there too
RUNS: Final = "mask "  # before the name of a column that has masks, likewise
# What cells of a column that is a class mean, as text.
MARKS: Final = {
    0: ("", "0", "0.0", "false"),
    1: ("1", "1.0", "true"),
    -1: ("-1", "-1.0"),
}
_SAID: Final = {text: mark for mark, texts in MARKS.items() for text in texts}
_BOXES: Final = re.compile(
    "(.*(x_?min|x1)|b?box(es)?|objects?|annotations?|segmentations?|encoded_?pixels|rle)", re.I
)
_SPLITS: Final = re.compile("splits|sub_?set|(data_?)?set|partition|phase|usage", re.I)
_CELLS: Final = 1 << 17  # distinct cells that are remembered

# 2 of 2.0, which is how a table program writes whole numbers of a column with gaps.
POINT: Final = r"^(-?[0-9]+)\.0$"


def find_columns(file: ListFile, options: FolderOptions) -> dict[str, str]:
    """The columns that the options name, or their defaults, by what they say.

    Raises:
        SourceError: one is not there, or is there twice.
        UsageError: it and headers both tell what images are grouped by.
    """
    by_header = [name for name in file.columns if name.lower() == options.group_by]
    if options.groups_by_header and by_header:
        raise UsageError(
            f"--group_by {options.group_by}: {file.name} has a column {by_header[0]}, and "
            "--dicom_attributes has it of the headers; expected one of them; leave it out of "
            "--dicom_attributes to group by the column, or rename the column"
        )
    plain = file.form == "txt"  # its columns have no names that could be others
    split = options.split_column
    if split is None:
        split = next((name for name in file.columns if name.lower() == "split"), "")
    no_column = options.group_by in ("path", "folder") or options.groups_by_header
    columns = {
        "path": "path" if plain else options.path_column,
        "label": "label" if plain else options.label_column,
        "split": split,
        "size": "size" if "size" in file.columns else "",
        "group": "" if no_column else options.group_by,
        "caption": options.caption_column,
        **{f"{CLASS}{name}": name for name in options.label_columns},
        **{f"{RUNS}{name}": name for name in options.mask_column},
    }
    if options.label_columns or options.unlabelled:
        columns["label"] = ""
    columns = {meaning: name for meaning, name in columns.items() if name}
    for meaning, name in columns.items():
        option = "group_by" if meaning == "group" else f"{meaning}_column"
        option = "label_columns" if meaning.startswith(CLASS) else option
        option = "mask_column" if meaning.startswith(RUNS) else option
        advice = f"name the right one with --{option}"
        if meaning == "label":
            advice += ", or give --unlabelled if images have none"
        file.require(name, advice)
    if "split" in columns and options.cut is not None:
        raise SourceError(
            f"{file.name} has a column {printable(columns['split'])}, and --fractions would cut "
            "other splits; expected one of the two; leave --fractions out, or rename the column"
        )
    return columns


def attribute_columns(
    file: ListFile, used: Mapping[str, str], options: FolderOptions
) -> dict[str, str]:
    """The columns that are kept, by attribute: what is no letter or digit becomes ``_``.

    Raises:
        SourceError: they cannot be attributes, or one is not there.
    """
    own: Sequence[str] = options.attribute_columns
    if own == ("all",) and "all" not in file.columns:
        others = {name for meaning, name in used.items() if meaning != "group"}
        own = [name for name in file.columns if name and name not in others]
    columns = {re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_"): name for name in own}
    # The database makes no difference between A and a.
    told_apart = len({name.lower() for name in columns}) == len(own)
    if not (told_apart and len(own) <= MOST_FIELDS and all(map(NAME.fullmatch, columns))):
        raise SourceError(
            f"{file.name}: --attribute_columns {some_of(own)} cannot be attributes; expected "
            f"{MOST_FIELDS:,} at most, with 255 letters and digits at most that tell them "
            "apart; name fewer, or rename them"
        )
    for name in own:
        file.require(name, "name the right one with --attribute_columns")
    return columns


def unread_columns(file: ListFile, used: Collection[str]) -> list[str]:
    """What to say of columns that nothing reads, and that people may expect to be read."""
    others = [name for name in file.columns if name not in used]
    boxes = some_of([name for name in others if _BOXES.fullmatch(name)])
    splits = some_of([name for name in others if _SPLITS.fullmatch(name)])
    said = {
        boxes: "left out: it may have boxes or masks; boxes are read of COCO's form, of columns "
        "such as xmin, ymin, xmax and ymax beside a label, or of --label_column objects",
        splits: "left out: it may have splits; --split_column names the column that has them",
    }
    return [f"{file.name}: {names} {why}" for names, why in said.items() if names]


def labelled(file: ListFile, cells: pa.Table, options: FolderOptions) -> pa.Table:
    """With the labels that the columns of classes say, and those that are uncertain.

    Raises:
        SourceError: a cell says neither.
    """
    classes, said = options.label_columns, pa.array([*_SAID])
    marks = np.empty((len(cells), len(classes)), np.int8)
    for place, name in enumerate(classes):
        column = pc.utf8_trim_whitespace(pc.fill_null(cells[f"{CLASS}{name}"], ""))
        column = pc.utf8_lower(column)
        found = pc.index_in(column, said)
        if found.null_count:
            at = pc.index(found.is_null(), True).as_py()
            raise file.wrong(
                cells["row"][at].as_py(),
                f"{name} {column[at].as_py()}: expected 1, 0, -1 or nothing",
            )
        marks[:, place] = np.array([*_SAID.values()])[found.to_numpy()]
    uncertain = marks == -1
    positive = (marks == 1) | (uncertain & (options.uncertain == "positive"))
    joined = pc.binary_join(_named(uncertain, classes), "|")
    joined = pc.if_else(pc.equal(joined, ""), None, joined)
    columns = {"labels": _named(positive, classes), f"{KEPT}{UNCERTAIN.name}": joined}
    return with_columns(cells, uncertain=pa.array(uncertain.any(axis=1)), **columns)


def _named(chosen: NDArray[np.bool_], classes: Sequence[str]) -> pa.ListArray:
    """The names of the classes that each row has, as lists."""
    ends = np.concatenate([[0], chosen.sum(axis=1).cumsum()]).astype(np.int32)
    names = pa.array(classes, pa.string()).take(pa.array(chosen.nonzero()[1]))
    return pa.ListArray.from_arrays(pa.array(ends), names)


class Labels:
    """Reads cells.

    Args:
        known: the only classes there may be; None if any may.
        typed: whether cells are JSON.
        optional: whether a row may have none, since its image may have others.

    Attributes:
        spelled: how the list spells each label that it has.
        of: the identifiers of the classes in a cell.
    """

    def __init__(
        self, options: FolderOptions, known: ClassList | None, *, typed: bool, optional: bool
    ) -> None:
        self._separator, self._none = options.label_separator, normalize("NFC", options.no_label)
        self._known, self._typed, self._optional = known, typed, optional
        self.spelled: dict[str, set[str]] = {}
        self.of = lru_cache(_CELLS)(self._of)

    @property
    def merged(self) -> Counter[str]:
        """How many labels are spelled in several ways, with an example."""
        several = [sorted(found) for _, found in sorted(self.spelled.items()) if len(found) > 1]
        example = " and ".join(map(repr, several[0])) if several else ""
        return Counter(
            {f"labels spelled in several ways, each one class, such as {example}": len(several)}
        )

    def _of(self, cell: str) -> tuple[str, ...]:
        """The identifiers of the classes in a cell, sorted.

        Raises:
            ValueError: it has none, or one that there may not be.
        """
        separator, none = self._separator, self._none
        value = json.loads(cell) if cell and self._typed else cell
        value = self._list_of(value) if isinstance(value, str) else value
        if isinstance(value, list) and not separator:
            raise ValueError(
                "a list of labels, expected one label; with --label_separator, whatever it is, "
                "there may be several"
            )
        if not isinstance(value, list):
            text = _text(value)
            value = text.split(separator) if separator and text else [] if separator else [value]
        labels = [self._class_of(label) for label in value]
        if (none and labels == [none]) or (self._optional and labels == [""]):
            return ()
        if not all(labels):
            advice = "" if separator else "; --label_separator allows images without labels"
            raise ValueError(f"empty label, expected a class{advice}")
        if none in labels:
            raise ValueError(f"{none}, which means none, beside others")
        known = self._known
        if known and (unknown := [label for label in labels if not known.named(label)]):
            raise ValueError(
                f"unknown label {some_of(unknown)}, expected the classes of {known.place}"
            )
        if len({normalize("NFC", label) for label in labels}) < len(labels):
            raise ValueError("a label twice in one cell, expected names of classes, each once")
        return tuple(sorted(labels))

    def _list_of(self, cell: str) -> object:
        """Of text in brackets the list, in JSON or as Python writes it; else the text."""
        text = cell.strip()
        if re.fullmatch(r"\[.*\]", text, re.DOTALL) and not self._names(text):
            for form in (text, text.replace("'", '"')):
                with suppress(ValueError, RecursionError):
                    return json.loads(form)
        return cell

    def _names(self, text: str) -> bool:
        """Whether an option names a label, spelled so."""
        known = self._known is not None and self._known.named(text)
        return bool(known or text == self._none)

    def _class_of(self, label: object) -> str:
        """A whole number without a point, as Parquet has it, if no option names it with one."""
        text = _text(label)
        name = normalize("NFC", text)  # é is one character, or two
        name = name if self._names(name) else re.sub(POINT, r"\1", name)
        if self._known is not None:
            name = name.strip("/")  # as the list of classes has them
            name = self._known.named(name) or name
        if name and name != self._none:
            self.spelled.setdefault(name, set()).add(text if self._separator else str(label))
        return name


def _text(cell: object) -> str:
    """A label as text: whole numbers without a point, nothing as empty."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)  # what a table program makes of whole numbers
    if isinstance(cell, bool) or cell != cell:  # which is no number
        cell = str(cell).lower()
    if cell is not None and not isinstance(cell, str | int):
        raise ValueError(f"a {type(cell).__name__}, expected text or a whole number")
    return "" if cell is None else str(cell).strip()
