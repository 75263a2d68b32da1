"""Which columns of a list say what: those that options name, and those that look like boxes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from dataprep.datasets.folder.options import FolderOptions
from dataprep.datasets.lists import ListFile
from dataprep.errors import SourceError, UsageError
from dataprep.system.messages import printable, some_of
from dataprep.tables.arrow import ATTRIBUTE, MOST_ATTRIBUTES

CLASS: Final = "class "
"""Before the name of a class that is a column, where columns have their meanings."""

_BOXES: Final = re.compile(
    "(.*(x_?min|x1)|b?box(es)?|objects?|annotations?|segmentations?|encoded_?pixels|rle)", re.I
)
_SPLITS: Final = re.compile("splits|sub_?set|(data_?)?set|partition|phase|usage", re.I)


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
    }
    if options.label_columns or options.unlabelled:
        columns["label"] = ""
    columns = {meaning: name for meaning, name in columns.items() if name}
    for meaning, name in columns.items():
        option = "group_by" if meaning == "group" else f"{meaning}_column"
        option = "label_columns" if meaning.startswith(CLASS) else option
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
    if not (told_apart and len(own) <= MOST_ATTRIBUTES and all(map(ATTRIBUTE.fullmatch, columns))):
        raise SourceError(
            f"{file.name}: --attribute_columns {some_of(own)} cannot be attributes; expected "
            f"{MOST_ATTRIBUTES:,} at most, with 255 letters and digits at most that tell them "
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
        boxes: "left out: it may have boxes or masks; boxes are read of annotations in COCO's form",
        splits: "left out: it may have splits; --split_column names the column that has them",
    }
    return [f"{file.name}: {names} {why}" for names, why in said.items() if names]
