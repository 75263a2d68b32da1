"""Made-up data sets and real small images for the conformance suite; the same in every process."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass, replace

from PIL import Image

from dataprep.example import Example
from dataprep.sinks.base import DatasetInfo, Sink

_SINGLE = DatasetInfo(
    classes=tuple(
        (f"n0144076{number}", name)
        for number, name in enumerate(("tench", "goldfish", "great white shark", "鮫", "café"))
    )
)
_MULTI = DatasetInfo(
    classes=tuple((f"Finding_{number:02d}",) * 2 for number in range(14)),
    multilabel=True,
    colorspace="Grayscale",
)
_SIZE = (6, 8)  # height and width of every image, where all have one size

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
        """What this sink is told: pixels are all of one size."""
        return replace(self.info, size=_SIZE) if sink.pixels else self.info

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
        pixels = random.Random(number).randbytes(height * width * (1 if grey else 3))  # noqa: S311
        image_format = "RAW" if sink.pixels else ("JPEG", "PNG")[number % 3 == 2]
        if not sink.pixels:
            file = io.BytesIO()
            image = Image.frombytes("L" if grey else "RGB", (width, height), pixels)
            image.save(file, image_format)
        labels = self._labels(number)
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
            boxes=((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 1.0))[: number % 3],
        )

    def _labels(self, number: int) -> tuple[int, ...]:
        classes = len(self.info.classes)
        if not self.info.multilabel:
            return ((number * 3 + 1) % classes,)
        all_ = tuple(range(classes))
        return ((), all_, (number % classes,), all_[number % 5 :: 3])[number % 4]


CASES = (
    Case("single-label", _SINGLE),
    Case("multi-label", _MULTI),
    Case("multi-label-one-size", replace(_MULTI, size=_SIZE)),
    Case("grey", replace(_SINGLE, colorspace="Grayscale")),
    Case("one-size", replace(_SINGLE, size=_SIZE)),
)
