"""One finished example: what a sink is given to write, and what its reader gives back."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dataprep.index import Box, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.Image import Image


@dataclass(frozen=True, slots=True)
class Example:
    """An image and everything that is said about it.

    Attributes:
        key: unique within the split, e.g. ``n01440764/n01440764_10026.JPEG``.
        encoded: the image file's bytes; or, if `format` is ``RAW``, its uint8 pixels in
            (height, width, channel) order, RGB.
        format: ``JPEG``, ``PNG`` or ``RAW``.
        height: in pixels.
        width: in pixels.
        colorspace: ``RGB`` or ``Grayscale``, what a reader should decode to.
        labels: 0-based indices into the class list, ascending: exactly one where classes exclude
            each other, any number where they do not. A sink adds its format's label base.
        synset: the class's identifier, e.g. ``n01440764``; several are joined with ``|``.
        class_name: the class in words, e.g. ``tench``; likewise.
        boxes: (xmin, ymin, xmax, ymax) as fractions of width and height.
        box_labels: what each box shows, as 0-based class index; empty where every box shows the
            only label.
        attributes: what else is known, by name: ``{"patient_id": 1, "view": "PA"}``. What is
            missing is left out.
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

    def image(self) -> Image:
        """The picture, decoded by Pillow: of mode ``RGB``, or ``L`` where `colorspace` is grey.

        Grey values of 16 bits stay as they are stored.
        """
        from PIL import Image

        if self.format == "RAW":
            return Image.fromarray(self.array())
        with Image.open(io.BytesIO(self.encoded)) as picture:
            if picture.mode.startswith("I;16"):
                picture.load()
                return picture.copy()
            return picture.convert("RGB" if self.channels == 3 else "L")

    def array(self) -> NDArray[Any]:
        """Its pixels, shape (height, width, 3), or (height, width) of grey ones; uint8.

        uint16 where grey values of 16 bits were kept.
        """
        import numpy as np

        if self.format != "RAW":
            return np.asarray(self.image())
        shape = (self.height, self.width) + ((3,) if self.channels == 3 else ())
        return np.frombuffer(self.encoded, np.uint8).reshape(shape)
