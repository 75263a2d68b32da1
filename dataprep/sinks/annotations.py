"""What may be said of an example besides its labels, alike in every format that keeps it."""

from __future__ import annotations

from collections.abc import Sequence

from dataprep.errors import SinkError
from dataprep.index import Value
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.system.messages import printable, some_of

MISSING = -(2**63)
"""What stands for a number that is missing, where a format has to say something: no value."""

_LARGEST = 2**63 - 1
_SHOWN = 40


def attributes_to_store(example: Example, info: DatasetInfo) -> dict[str, Value]:
    """The example's attributes, in the data set's order.

    Raises:
        SinkError: one that the data set does not have; a number that is no int64, or the smallest
            one; text that is empty, or that has no UTF-8. It does not name the example.
    """
    names = [name for name, _ in info.attributes]
    if not example.attributes.keys() <= set(names):
        strange = some_of(example.attributes.keys() - set(names))
        known = some_of(names) or "none"
        raise SinkError(f"has the attributes {strange}; those of the data set are: {known}")
    found: dict[str, Value] = {}
    for name, kind in info.attributes:
        value = example.attributes.get(name)
        if value is None:
            continue
        if not (_is_number(value) if kind == "int" else _is_text(value)):
            expected = f"a number from {MISSING + 1} to {_LARGEST}" if kind == "int" else "a text"
            shown = printable(repr(value))[:_SHOWN]
            raise SinkError(
                f"its attribute {name} is {shown}, expected {expected}; leave out what is missing"
            )
        found[name] = value
    return found


def box_labels_to_store(example: Example, info: DatasetInfo) -> tuple[int, ...]:
    """What each box shows; empty if nothing is said of it, or if it is the only label.

    Raises:
        SinkError: an image of the data set has one label, so that there is nothing to say; there
            are not as many as boxes; or there is no such class. It does not name the example.
    """
    if example.box_labels and not info.multilabel:
        raise SinkError(
            "its boxes have labels of their own; in a data set with one label an image "
            "they all show that one"
        )
    check_box_labels(example.box_labels, len(example.boxes), info)
    return example.box_labels


def check_box_labels(labels: Sequence[int], boxes: int, info: DatasetInfo) -> None:
    """Check that they are none, or one a box, and of classes that there are.

    Raises:
        SinkError: they are not. It does not name the example.
    """
    if labels and len(labels) != boxes:
        raise SinkError(f"there are {len(labels)} box labels for {boxes} boxes")
    classes = len(info.classes)
    if not all(0 <= label < (classes or _LARGEST) for label in labels):
        raise SinkError(f"box labels {list(labels)[:20]} are not all of the {classes} classes")


def _is_number(value: Value) -> bool:
    return type(value) is int and MISSING < value <= _LARGEST


def _is_text(value: Value) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
