"""Made-up data sets and real small images for the conformance suite; the same in every process."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, replace
from typing import Literal

from PIL import Image

from dataprep.sinks.base import DatasetInfo, Sink
from dataprep.sinks.example import Example

_ATTRIBUTES: tuple[tuple[str, Literal["int", "text"]], ...] = (
    ("patient_id", "int"),
    ("view", "text"),
    ("follow_up", "int"),
    ("note", "text"),
)
# Classes may be names of folders, which need not be UTF-8.
_SINGLE = DatasetInfo(
    classes=(
        ("n01440760", "tench"),
        ("n01440761", "goldfish"),
        ("n01440762", "great white shark"),
        ("n01440763", "鮫"),
        ("caf\udce9", "caf\udce9"),
    ),
    attributes=_ATTRIBUTES,
    boxes=True,
)
_MULTI = DatasetInfo(
    classes=(*((f"Finding_{number:02d}",) * 2 for number in range(13)), ("\udcff", "\udcff")),
    multilabel=True,
    colorspace="Grayscale",
    attributes=_ATTRIBUTES,
    boxes=True,
)
_SIZE = (6, 8)  # height and width of every image, where all have one size

# Of numbers the smallest and the largest that there are, of text what is easily mistaken.
_NUMBERS = (1, 0, -1, 2**63 - 1, -(2**63) + 1, 30_805)
_TEXTS = ("PA", "0", "Röntgen, 左", "not utf-8: \udce9", ' "quoted"\n', "None", "x" * 300)

# A format may refuse these with a SinkError, but not change them.
AWKWARD_VALUES: tuple[int | str, ...] = (
    "",
    " spaces ",
    "two\r\nlines",
    "zero at the end\0",
    "no half of a pair: \ud800",
    "x" * 100_000,
    -(2**63),
    2**63,
)

# Keys are data. Those that differ little are told apart all the same.
ODD_KEYS = (
    "n01440764/n01440764_10026.JPEG",
    "n01443537/n01440764_10026.JPEG",
    "n01440764/n01440764_10026.png",
    "n01440764/N01440764_10026.JPEG",
    "n01440764_10026",
    "0",
    "Schäferhund/日本 語.JPEG",
    "not-utf-8/\udce9t\udce9.JPEG",
    "a b/'quoted' \"twice\", and; more.JPEG",
    "-dash",
    ".hidden",
    "../../up.JPEG",
    "C:\\back\\slash.JPEG",
    "100%s {0} $HOME `id`.JPEG",
    "long/" + "x" * 250 + ".JPEG",
)

# A format may refuse these with a SinkError, but not change them.
AWKWARD_KEYS = (
    "",
    "/absolute.JPEG",
    "two\nlines.JPEG",
    "two\r\nlines.JPEG",
    "a\ttab.JPEG",
    "a\0zero.JPEG",
    " spaces ",
    "longest/" + "x" * 900 + ".JPEG",
)


@dataclass(frozen=True)
class Case:
    """A kind of data set."""

    name: str
    info: DatasetInfo

    def info_for(self, sink: Sink) -> DatasetInfo:
        """What this sink is told: pixels are all of one size; nothing that it has no place for."""
        return replace(
            self.info,
            size=_SIZE if sink.pixels else self.info.size,
            boxes=self.info.boxes and sink.keeps_boxes,
            attributes=self.info.attributes if sink.keeps_attributes else (),
        )

    def examples(self, sink: Sink, count: int, first: int = 0) -> list[Example]:
        """``count`` examples that this sink must be able to hold, all different."""
        return [self._example(sink, number) for number in range(first, first + count)]

    def same_size(self, sink: Sink, count: int) -> list[Example]:
        """The same, but all images as large as each other."""
        return [self._example(sink, number, size=_SIZE) for number in range(count)]

    def _example(self, sink: Sink, number: int, size: tuple[int, int] | None = None) -> Example:
        info = self.info
        height, width = size or self.info_for(sink).size or (5 + number % 4, 9 + number % 7)
        # A set of colour images has grey ones among them.
        grey = info.channels == 1 or (number % 5 == 4 and not sink.pixels)
        image_format = "RAW" if sink.pixels else ("JPEG", "PNG")[number % 3 == 2]
        deep = grey and image_format == "PNG" and number % 2 == 0  # 16 bits, as of radiographs
        mode, size_of_pixel = ("I;16", 2) if deep else ("L", 1) if grey else ("RGB", 3)
        pixels = random.Random(number).randbytes(height * width * size_of_pixel)  # noqa: S311
        if not sink.pixels:
            file = io.BytesIO()
            Image.frombytes(mode, (width, height), pixels).save(file, image_format)
        labels = self._labels(number)
        boxes = ((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 1.0))[: number % 3 if info.boxes else 0]
        identifier = info.identifiers(labels) or "none"
        return Example(
            key=f"{identifier}/{number:08d}.{image_format.lower()}",
            encoded=pixels if sink.pixels else file.getvalue(),
            format=image_format,
            height=height,
            width=width,
            colorspace=info.colorspace,
            labels=labels,
            synset=info.identifiers(labels),
            class_name=info.names(labels),
            boxes=boxes,
            box_labels=self._box_labels(number, len(boxes)),
            attributes=self._attributes(number),
        )

    def _labels(self, number: int) -> tuple[int, ...]:
        classes = len(self.info.classes)
        if not self.info.multilabel:
            return ((number * 3 + 1) % classes,)
        all_ = tuple(range(classes))
        return ((), all_, (number % classes,), all_[number % 5 :: 3])[number % 4]

    def _box_labels(self, number: int, boxes: int) -> tuple[int, ...]:
        # Of some it is not known, and a box may show what the image has not for a label.
        if not self.info.multilabel or number % 7 == 1:
            return ()
        return (13, number % 14)[:boxes]

    def _attributes(self, number: int) -> dict[str, int | str]:
        """Some have all, some none, and in any order."""
        known: dict[str, int | str] = {}
        for place, (name, kind) in enumerate(reversed(self.info.attributes)):
            if (number + place) % 4 and number % 10 != 5:
                values: tuple[int | str, ...] = _NUMBERS if kind == "int" else _TEXTS
                known[name] = values[(number + place) % len(values)]
        return known


CASES = (
    Case("single-label", _SINGLE),
    Case("multi-label", _MULTI),
    Case("multi-label-one-size", replace(_MULTI, size=_SIZE)),
    Case("grey", replace(_SINGLE, colorspace="Grayscale", attributes=())),
    Case("one-size", replace(_SINGLE, size=_SIZE, boxes=False, attributes=())),
)
