"""What formats share: which labels, boxes and attributes they take, and what they give back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from dataprep.errors import ImageError, SinkError, UsageError
from dataprep.images.sniff import sniff
from dataprep.index import Value
from dataprep.sinks.base import DatasetInfo
from dataprep.sinks.example import Example
from dataprep.system.messages import printable, some_of

MISSING = -(2**63)
"""What stands for a number that is missing, where a format has to say something: no value."""

_LARGEST = 2**63 - 1
_SHOWN = 40


def import_reader(package: str, *modules: str, install: str) -> Any:
    """A library that reads the format, to prove ours right, without its dependencies' warnings.

    Raises:
        UsageError: it cannot be imported; ``install`` is what to give pip.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for module in modules:
                import_module(f"{package}.{module}")
            return import_module(package)
    except ImportError as error:
        raise UsageError(
            f"{package} cannot be imported ({error}): pip install {install}"
        ) from error


@contextmanager
def located(place: str) -> Iterator[None]:
    """Say in an error where it was found, and the way out."""
    try:
        yield
    except (SinkError, ImageError) as error:
        raise SinkError(f"{place}: {error}; make the shard again") from error


@contextmanager
def naming(example: Example) -> Iterator[None]:
    """Say in an error which example it is about."""
    try:
        yield
    except SinkError as error:
        raise SinkError(f"{example.key!r}: {error}") from error


def labels_to_store(example: Example, info: DatasetInfo) -> tuple[int, ...]:
    """The example's labels, if this data set can have them.

    Raises:
        SinkError: not exactly one of a single-label data set, or no class of it. It does not name
            the example.
    """
    labels = example.labels
    if not info.multilabel and len(labels) != 1:
        raise SinkError(f"has {len(labels)} labels in a data set with one label an image")
    limit = len(info.classes) or (0 if info.multilabel else _LARGEST)
    if not all(0 <= label < limit for label in labels):
        raise SinkError(f"labels {_listed(labels)} are not all of the {len(info.classes)} classes")
    return labels


def label_found(label: int, info: DatasetInfo) -> tuple[int, ...]:
    """The only label, as read.

    Raises:
        SinkError: there is no such class.
    """
    if not 0 <= label < (len(info.classes) or _LARGEST):
        raise SinkError(
            f"its label is {label}, but there are {len(info.classes) or 'some'} classes"
        )
    return (label,)


def flags_found(flags: Sequence[float], info: DatasetInfo) -> tuple[int, ...]:
    """The labels of a vector, as read, of zeros and ones.

    Raises:
        SinkError: it has other numbers, or not one for each class.
    """
    classes = len(info.classes)
    if (classes and len(flags) != classes) or not set(flags) <= {0, 1}:
        raise SinkError(
            f"its labels are {_listed(flags)}, expected {classes or 'only'} zeros and ones"
        )
    return tuple(label for label, flag in enumerate(flags) if flag)


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
        raise SinkError(f"box labels {_listed(labels)} are not all of the {classes} classes")


def from_image(
    key: str,
    encoded: bytes,
    labels: tuple[int, ...],
    info: DatasetInfo,
    attributes: Mapping[str, Value] | None = None,
) -> Example:
    """An example of a format that leaves format and size to the image's header.

    Raises:
        ImageError: it is no image.
    """
    seen = sniff(encoded)
    return Example(
        key=key,
        encoded=encoded,
        format=seen.format,
        height=seen.height,
        width=seen.width,
        colorspace=info.colorspace,
        labels=labels,
        synset=info.identifiers(labels),
        class_name=info.names(labels),
        attributes=attributes or {},
    )


def _listed(numbers: Sequence[float]) -> str:
    return str(list(numbers[:20]))


def _is_number(value: Value) -> bool:
    return type(value) is int and MISSING < value <= _LARGEST


def _is_text(value: Value) -> bool:
    try:
        return isinstance(value, str) and bool(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return False
