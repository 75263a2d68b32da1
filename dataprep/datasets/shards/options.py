"""The options of the shards data set."""

from __future__ import annotations

from typing import Final

from dataprep.datasets.base import Option

OPTIONS: Final = (
    Option(
        "files", "Only files whose names or paths match, such as 'train-*.tar'.", metavar="PATTERN"
    ),
    Option(
        "label_field",
        "The field that is the label: cls, json.label, label, image/class/label, …  [default: the "
        "only one that may be]",
        metavar="NAME",
    ),
    Option(
        "image_field",
        "The field that is the image, where there are several: jpg, image, …",
        metavar="NAME",
    ),
    Option(
        "key_field",
        "The field that names the image, or number: the file's name and the sample's number.  "
        "[default: one that is called so, or the file name that the sample has]",
        metavar="NAME|number",
    ),
    Option(
        "caption_field",
        "The field of texts that describe the image, or of lists of them: txt, json.caption, …",
        metavar="NAME",
    ),
    Option(
        "attribute_fields",
        "Fields that are kept as attributes of each image, such as age,json.view; or all.",
        metavar="NAME,...|all",
    ),
    Option(
        "classes",
        "A list of the classes in the order of their numbers: one a line, optionally with a TAB "
        "and its name after it.",
        metavar="FILE",
        file=True,
    ),
    Option(
        "label_base",
        "The number of the first class. auto: 0 if it occurs; 1 if not, and all others do.",
        "auto",
        choices=("auto", "0", "1"),
    ),
    Option("unlabelled", "Take all images that there are, without classes.", flag=True),
    Option(
        "split_name",
        "The split of all images, if no name of a file tells one.",
        "train",
        metavar="NAME",
    ),
)
