"""Examples that both LMDB sinks are tested with, cheap to make: only headers are true."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from dataprep.sinks.base import DatasetInfo, ShardName, Sink, WrittenFile
from dataprep.sinks.example import Example

CLASSES = tuple((f"n{number:08d}", f"class {number}") for number in range(14))
SINGLE = DatasetInfo(classes=CLASSES)
MULTI = DatasetInfo(classes=CLASSES, multilabel=True)
RAW = DatasetInfo(classes=CLASSES, size=(5, 4))
WHOLE = ShardName("train", 0, 1)


@functools.cache
def tiny(form: str, height: int, width: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), (10, 200, 30)).save(file, form)
    return file.getvalue()


def example(number: int, info: DatasetInfo = SINGLE, size: int = 0) -> Example:
    """An image of at least ``size`` bytes, of every length modulo a page in the long run."""
    labels = (
        tuple(label for label in range(14) if number * 7919 >> label & 1)
        if info.multilabel
        else (number % 14,)
    )
    height, width, form = 5, 4, "RAW"
    encoded = bytes((number * 31 + place) % 256 for place in range(60))
    if info.size is None:
        height, width = 3 + number % 5, 4 + number % 3
        form = "PNG" if number % 4 == 3 else "JPEG"
        encoded = tiny(form, height, width)
    encoded += bytes((number + place) % 256 for place in range(16)) * -(
        -(size - len(encoded)) // 16
    )
    return Example(
        key=f"{info.classes[number % 14][0]}/ä_{number}.JPEG",
        encoded=encoded,
        format=form,
        height=height,
        width=width,
        colorspace="RGB",
        labels=labels,
        synset=info.identifiers(labels),
        class_name=info.names(labels),
    )


def places(sink: Sink, folder: Path) -> list[Path]:
    """Where the sink puts a whole split, below ``folder``; the directories exist."""
    paths = [folder / path for path in sink.paths(WHOLE, "split")]
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
        return writer.close()
    finally:
        writer.abandon()
