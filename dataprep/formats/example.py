"""One finished example, and its data set: what sinks are given, check, and give back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from dataprep.errors import ImageError, SinkError
from dataprep.images.decode import orientation_of, shown, sniff, to_pixels
from dataprep.system.messages import printable
from dataprep_schemas.fields import BOX_LABELS, BOXES, MASK, Box, Fields, Kind, Value, present
from dataprep_schemas.manifest import Color

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

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
        fields: what else is said of it, by name: ``{"patient_id": 1, "captions": ("A cat.",)}``.
            What is missing is left out. Boxes are (xmin, ymin, xmax, ymax) as fractions of width
            and height, of the pixels as they are stored in `encoded`; `upright_boxes` are those on
            what is decoded.
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
    fields: Mapping[str, Value] = field(default_factory=dict)

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
        boxes: tuple[Box, ...] = self.fields.get(BOXES.name, ())
        return boxes and BOXES.rules.moved(boxes, self.orientation)[0]

    def mask(self) -> NDArray[np.uint8]:
        """The number of each pixel of `image` and `array`, (height, width); 255 is none.

        All are 255 where the example has no mask.

        Raises:
            ImageError: the mask is damaged, or of another size.
        """
        from dataprep.images import masks, pixels  # late: most data sets have none

        stored = self.fields.get(MASK.name)
        if stored is None:
            levels = masks.nothing(self.height, self.width)
        else:
            levels = masks.read(stored, self.height * self.width)
            if levels.shape != (self.height, self.width):
                raise ImageError(f"its mask has {levels.shape[1]}x{levels.shape[0]} pixels")
        return pixels.upright(levels, self.orientation)

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
        fields: everything else that is said of examples; each may lack it.
    """

    classes: tuple[tuple[str, str], ...] = ()
    multilabel: bool = False
    colorspace: Color = "RGB"
    size: tuple[int, int] | None = None
    fields: Fields = ()

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
        """The example with the fields of this data set alone, in its order.

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
        if not example.fields:
            return example
        found: dict[str, Value] = {}
        for name, kind in _rules_of(self.fields).items():
            value = example.fields.get(name)
            if value is None or value == kind.none:
                continue
            if expected := kind.expected(value):
                raise SinkError(
                    f"its {name} is {printable(repr(value))[:_SHOWN]}, expected {expected}; leave "
                    "out what is missing"
                )
            found[name] = value
        self._check_each(found)
        return replace(example, fields=found)

    def example(
        self,
        key: str,
        encoded: bytes,
        labels: tuple[int, ...],
        *,
        kind: str = "",
        size: tuple[int, int] | None = None,
        fields: Mapping[str, Value] = MappingProxyType({}),
    ) -> Example:
        """An example as it was read, and what this data set says of it.

        Args:
            labels: 0-based.
            kind: its format, if that is stored; else that of the image's own header.
            size: height and width, likewise.
            fields: what says nothing is left out.

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
            present(fields),
        )
        if BOX_LABELS.name in found.fields:
            self._check_each(found.fields)
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

    def _check_each(self, found: Mapping[str, Value]) -> None:
        """Look at what is said of others of the fields one by one, such as of boxes."""
        for name, kind in _rules_of(self.fields).items():
            value, of = found.get(name), found.get(kind.each)
            if value is None or not kind.each:
                continue
            if of is not None and len(value) != len(of):
                raise SinkError(f"there are {len(value)} {name} for {len(of)} {kind.each}")
            if kind.name == BOX_LABELS.kind:
                if not self.multilabel and self.classes:
                    raise SinkError(f"it has {name}; where an image has one label, all show it")
                self._check_labels(value, name)


@lru_cache(64)
def _rules_of(fields: Fields) -> Mapping[str, Kind]:
    return {each.name: each.rules for each in fields}


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
