"""Examples that the tests of formats share, cheap to make; and how they are written and read."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from dataprep.formats import DatasetInfo, Example, ShardName, Sink, WrittenFile
from dataprep_schemas.fields import BOXES

CLASSES = tuple((f"n{number:08d}", f"class {number}") for number in range(14))
SINGLE = DatasetInfo(classes=CLASSES)
MULTI = DatasetInfo(classes=CLASSES, multilabel=True, colorspace="Grayscale")
RAW = DatasetInfo(classes=CLASSES, size=(5, 4))


@functools.cache
def picture(number: int, form: str = "JPEG", comment: bytes = b"") -> bytes:
    file = io.BytesIO()
    image = Image.new("RGB", (20 + number % 5, 16), (number * 40 % 256, 90, 30))
    image.save(file, form, **({"comment": comment} if comment else {}))
    return file.getvalue()


def example(number: int, info: DatasetInfo = SINGLE, size: int = 0, **changes: Any) -> Example:
    """An image of at least ``size`` bytes, of every length modulo a page in the long run."""
    several = tuple(range(number % 4, 14, 3))[: number % 6]
    labels = changes.pop("labels", several if info.multilabel else (number % 14,))
    if info.size is None:
        height, width, form = 16, 20 + number % 5, "PNG" if number % 7 == 3 else "JPEG"
        encoded = picture(number % 1000, form)
    else:
        (height, width), form = info.size, "RAW"
        encoded = bytes((number * 31 + place) % 256 for place in range(3 * height * width))
    if len(encoded) < size:
        encoded += bytes((number + place) % 256 for place in range(16)) * (
            (size - len(encoded)) // 16 + 1
        )
    made = Example(
        key=f"n{number:08d}/{number}.JPEG",
        encoded=encoded,
        format=form,
        height=height,
        width=width,
        colorspace=info.colorspace,
        labels=labels,
        synset=info.identifiers(labels),
        class_name=info.names(labels),
        fields={"boxes": ((0.0, 0.25, 0.5, 1.0),)} if number % 2 and BOXES in info.fields else {},
    )
    return replace(made, **changes)


def places(sink: Sink, folder: Path) -> list[Path]:
    """Where the sink puts a whole split, below ``folder``; the directories exist."""
    paths = [folder / path for path in sink.paths(ShardName("train", 0, 1), "split")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    return paths


def write(
    sink: Sink, paths: Sequence[Path], info: DatasetInfo, examples: Sequence[Example]
) -> Sequence[WrittenFile]:
    writer = sink.open(paths, info)
    try:
        for one in examples:
            writer.write(one)
        written = writer.close()
        assert [file.bytes for file in written] == [path.stat().st_size for path in paths]
        return written
    finally:
        writer.abandon()


def read(sink: Sink, paths: Sequence[Path], info: DatasetInfo) -> list[Example]:
    with sink.reader(paths, info) as reader:
        return list(reader)
