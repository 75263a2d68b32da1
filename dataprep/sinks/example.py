"""One finished example, and its data set: what sinks are given, check, and give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from dataprep.errors import ImageError, SinkError
from dataprep.images.decode import orientation_of, shown, sniff, to_pixels
from dataprep.images.pixels import turned
from dataprep.system.messages import printable
from dataprep.tables import Box, Value
from dataprep_schemas.manifest import Color

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

MISSING = -(2**63)
"""What stands for a number that is missing, where a format has to say something: no value."""

_LARGEST = 2**63 - 1
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Example:
    """An image and everything that is said about it.

    Attributes:
        key: unique within the split, e.g. ``n01440764/n01440764_10026.JPEG``.
        encoded: the image file's bytes; or, if `format` is ``RAW``, its uint8 pixels in
            (height, width, channel) order, RGB.
        format: ``JPEG``, ``PNG`` or ``RAW``.
        height: in pixels, as stored: an orientation that EXIF says is not considered.
        width: likewise.
        colorspace: ``RGB`` or ``Grayscale``, what a reader should decode to.
        labels: 0-based indices into the class list, ascending: exactly one where classes exclude
            each other, any number where they do not. A sink adds its format's label base.
        synset: the class's identifier, e.g. ``n01440764``; several are joined with ``|``.
        class_name: the class in words, e.g. ``tench``; likewise.
        boxes: (xmin, ymin, xmax, ymax) as fractions of width and height, of the pixels as they
            are stored in `encoded`; `upright_boxes` are those on what is decoded.
        box_labels: what each box shows, as 0-based class index; empty where every box shows the
            only label.
        attributes: what else is known, by name: ``{"patient_id": 1, "view": "PA"}``. What is
            missing is left out.
        captions: texts that describe the image.
    """

    key: str
    encoded: bytes = field(repr=False)  # nobody wants to see that
    format: str
    height: int
    width: int
    colorspace: str
    labels: tuple[int, ...]
    synset: str
    class_name: str
    boxes: tuple[Box, ...] = ()
    box_labels: tuple[int, ...] = ()
    attributes: Mapping[str, Value] = field(default_factory=dict)
    captions: tuple[str, ...] = ()

    @property
    def class_index(self) -> int:
        """The label, 0-based, of a single-label example.

        Raises:
            ValueError: it has none, or several.
        """
        (label,) = self.labels
        return label

    @property
    def filename(self) -> str:
        """The last component of the key, as the TPU script stores it."""
        return self.key.rpartition("/")[2]

    @property
    def channels(self) -> int:
        """How many channels a reader should decode: 3 for RGB, 1 for Grayscale."""
        return 3 if self.colorspace == "RGB" else 1

    @property
    def orientation(self) -> int:
        """1 to 8, as EXIF in `encoded` says it: by it `image` and `array` turn; 1 without one."""
        return 1 if self.format == "RAW" else orientation_of(self.encoded)

    @property
    def upright_boxes(self) -> tuple[Box, ...]:
        """The boxes as they lie on what `image` and `array` give."""
        return turned(self.boxes, self.orientation)

    def image(self) -> Image:
        """The picture: of mode ``RGB``, or ``L`` where `colorspace` is grey.

        It is turned upright by its `orientation`. Grey values of 16 bits stay as they are stored.
        """
        from PIL import Image

        return Image.fromarray(self.array())

    def array(self) -> NDArray[Any]:
        """Its pixels, upright, shape (height, width, 3), or (height, width) of grey ones; uint8.

        uint16 where grey values of 16 bits were kept. As Pillow gives them; but most JPEGs are
        decoded by libjpeg-turbo alone, which is sooner and without the GIL.
        """
        import numpy as np

        if self.format == "RAW":
            shape = (self.height, self.width) + ((3,) if self.channels == 3 else ())
            return np.frombuffer(self.encoded, np.uint8).reshape(shape)
        return shown(self.encoded, self.channels)


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """What is true of every example of a data set; told to writers and readers.

    Attributes:
        classes: (identifier, name) of every class; the position is the 0-based class index.
            Empty when a lone shard is read and nobody knows them.
        multilabel: an example has any number of labels, as a radiograph has findings; formats
            store a vector of ``len(classes)`` zeros and ones. Otherwise it has exactly one.
        colorspace: ``RGB`` or ``Grayscale``: what readers should decode every image to.
        size: (height, width) in pixels if all images have the same, else None.
        attributes: (name, kind) of everything else that is known of examples, kind ``int`` or
            ``text``; an example may lack it.
        boxes: whether examples may have bounding boxes.
        captions: whether they may have captions.
    """

    classes: tuple[tuple[str, str], ...] = ()
    multilabel: bool = False
    colorspace: Color = "RGB"
    size: tuple[int, int] | None = None
    attributes: tuple[tuple[str, Literal["int", "text"]], ...] = ()
    boxes: bool = False
    captions: bool = False

    @property
    def channels(self) -> int:
        """How many channels a reader should decode: 3 for RGB, 1 for Grayscale."""
        return 3 if self.colorspace == "RGB" else 1

    def identifiers(self, labels: Sequence[int]) -> str:
        """The labels' identifiers, joined with ``|``: ``n01440764``; empty where unknown."""
        return "|".join([self.classes[label][0] for label in labels if label < len(self.classes)])

    def names(self, labels: Sequence[int]) -> str:
        """The labels' names, joined with ``|``: ``tench``; empty where unknown."""
        return "|".join([self.classes[label][1] for label in labels if label < len(self.classes)])

    def multi_hot(self, labels: Sequence[int]) -> list[int]:
        """The labels as a vector of ``len(classes)`` zeros and ones."""
        chosen = frozenset(labels)
        return [int(label in chosen) for label in range(len(self.classes))]

    def labels_of(self, flags: Sequence[float]) -> tuple[int, ...]:
        """The inverse of `multi_hot`.

        Raises:
            SinkError: there are other numbers, or not one for each class.
        """
        classes = len(self.classes)
        if (classes and len(flags) != classes) or not set(flags) <= {0, 1}:
            raise SinkError(f"its labels are {_listed(flags)}, expected {classes or 'only'} 0 or 1")
        return tuple(label for label, flag in enumerate(flags) if flag)

    def to_store(self, example: Example, *, pixels: bool) -> Example:
        """The example with the attributes and captions of this data set alone, in its order.

        Args:
            example: what a format is to hold.
            pixels: whether it holds pixels, of one size, or encoded images.

        Raises:
            SinkError: it is not of this data set. It does not name the example.
        """
        if pixels != (example.format == "RAW"):
            wanted = "RAW pixels" if pixels else "JPEG or PNG; choose a format of pixels"
            raise SinkError(f"its format is {example.format}, expected {wanted}")
        if pixels:
            self._check_pixels(example)
        labels = example.labels
        if not self.multilabel and len(labels) != 1:
            raise SinkError(f"has {len(labels)} labels in a data set with one label an image")
        self._check_labels(labels, "labels")
        if self.boxes:
            self._check_box_labels(example)
        captions = example.captions if self.captions else ()
        if not all(text and _storable(text) for text in captions):
            raise SinkError("one of its captions is empty or no Unicode; leave it out")
        if not (example.attributes or example.captions):
            return example
        found = {
            name: _attribute(name, kind, example.attributes[name])
            for name, kind in self.attributes
            if name in example.attributes
        }
        return replace(example, attributes=found, captions=captions)

    def example(
        self,
        key: str,
        encoded: bytes,
        labels: tuple[int, ...],
        *,
        kind: str = "",
        size: tuple[int, int] | None = None,
        boxes: tuple[Box, ...] = (),
        box_labels: tuple[int, ...] = (),
        attributes: Mapping[str, Value] | None = None,
        captions: tuple[str, ...] = (),
    ) -> Example:
        """An example as it was read, and what this data set says of it.

        Args:
            labels: 0-based.
            kind: its format, if that is stored; else that of the image's own header.
            size: height and width, likewise.

        Raises:
            SinkError: there is no such class.
            ImageError: it is no image.
        """
        if not kind or size is None:
            seen = sniff(encoded)
            kind, size = seen.format, (seen.height, seen.width)
        self._check_labels(labels, "labels")
        found = Example(
            key,
            encoded,
            kind,
            *size,
            self.colorspace,
            labels,
            self.identifiers(labels),
            self.names(labels),
            boxes,
            box_labels,
            attributes or {},
            captions,
        )
        if box_labels:
            self._check_box_labels(found)
        return found

    def _check_pixels(self, example: Example) -> None:
        shape = (*(self.size or (0, 0)), self.channels)
        found = (example.height, example.width, len(example.encoded))
        if found != (shape[0], shape[1], shape[0] * shape[1] * shape[2]):
            raise SinkError(
                "has {} x {} pixels (height x width) in {} bytes, expected {} x {} of {} channels, "
                "as all of the data set".format(*found, *shape)
            )

    def _check_labels(self, labels: Sequence[int], what: str) -> None:
        if labels and not 0 <= min(labels) <= max(labels) < (len(self.classes) or _LARGEST):
            raise SinkError(
                f"{what} {_listed(labels)} are not all of the {len(self.classes)} classes"
            )

    def _check_box_labels(self, example: Example) -> None:
        labels, boxes = example.box_labels, example.boxes
        if labels and not self.multilabel and self.classes:
            raise SinkError("its boxes have labels; where an image has one label, they all show it")
        if labels and len(labels) != len(boxes):
            raise SinkError(f"there are {len(labels)} box labels for {len(boxes)} boxes")
        self._check_labels(labels, "box labels")


def _attribute(name: str, kind: str, value: Value) -> Value:
    """An attribute that every format can hold: a number but `MISSING`, or a text with an end."""
    if kind == "int":
        expected = f"a number from {MISSING + 1} to {_LARGEST}"
        good = type(value) is int and MISSING < value <= _LARGEST
    else:
        expected = "a text"
        good = isinstance(value, str) and bool(value) and _storable(value)
    if not good:
        raise SinkError(
            f"its attribute {name} is {printable(repr(value))[:_SHOWN]}, expected {expected}; "
            "leave out what is missing"
        )
    return value


def _storable(text: str) -> bool:
    try:
        to_bytes(text)
    except UnicodeEncodeError:
        return False
    return True


def to_bytes(text: str) -> bytes:
    """Text as formats store it: UTF-8, or the bytes that it was made of if they were none."""
    return text.encode("utf-8", "surrogateescape")


def to_text(data: bytes) -> str:
    """The inverse of `to_bytes`."""
    return data.decode("utf-8", "surrogateescape")


def as_stored(example: Example, **said: str) -> Example:
    """The example with what a file itself says where the data set says something else, or nothing.

    Args:
        said: values of fields of `Example`; empty ones say nothing.
    """
    other: dict[str, Any] = {
        name: words for name, words in said.items() if words and words != getattr(example, name)
    }
    return replace(example, **other) if other else example


def _listed(numbers: Sequence[float]) -> str:
    return str(list(numbers[:20]))


def pixels_of(example: Example, most: int) -> NDArray[np.uint8]:
    """What an example shows, as formats that store pixels hold it.

    Args:
        most: pixels that an image may have.

    Raises:
        SinkError: it cannot be decoded.
    """
    color: Literal["gray", "rgb"] = "gray" if example.colorspace == "Grayscale" else "rgb"
    size = example.height, example.width
    try:
        return to_pixels(example.encoded, example.format, *size, color, most)
    except ImageError as error:
        raise SinkError(f"{printable(example.key)} cannot be decoded: {error}") from error
