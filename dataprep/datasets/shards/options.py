"""The options of the shards data set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dataprep.datasets.splits import parse_split
from dataprep.errors import UsageError
from dataprep.options import FILE, names, option


@dataclass(frozen=True, kw_only=True)
class ShardsOptions:
    """What the user says of what others have packed."""

    files: str = option(
        "Only files whose names or paths match, such as 'train-*.tar'.", "", metavar="PATTERN"
    )
    label_field: str = option(
        "The field that is the label: cls, json.label, label, image/class/label, … [default: the "
        "only one that may be]",
        "",
        metavar="NAME",
    )
    image_field: str = option(
        "The field that is the image, where there are several: jpg, image, …", "", metavar="NAME"
    )
    key_field: str = option(
        "The field that names the image, or number: the file's name and the sample's number. "
        "[default: one that is called so, or the file name that the sample has]",
        "",
        metavar="NAME|number",
    )
    caption_field: str = option(
        "The field of texts that describe the image, or of lists of them: txt, json.caption, …",
        "",
        metavar="NAME",
    )
    attribute_fields: tuple[str, ...] = option(
        "Fields that are kept as attributes of each image, such as age,json.view; or all.",
        (),
        metavar="NAME,...|all",
        parse=names,
    )
    classes: Path | None = option(
        "A list of the classes in the order of their numbers: one a line, optionally with a TAB "
        "and its name after it.",
        None,
        **FILE,
    )
    label_base: Literal["auto", "0", "1"] = option(
        "The number of the first class. auto: 0 if it occurs; 1 if not, and all others do.", "auto"
    )
    unlabelled: bool = option("Take all images that there are, without classes.", False)
    split_name: str = option(
        "The split of all images, if no name of a file tells one.",
        "train",
        metavar="NAME",
        parse=parse_split,
    )

    def __post_init__(self) -> None:
        """Refuse what cannot be together.

        Raises:
            UsageError: names it.
        """
        other = "classes" if self.classes else "label_field" if self.label_field else ""
        if self.unlabelled and other:
            raise UsageError(f"--unlabelled with --{other}; leave one of them out")
