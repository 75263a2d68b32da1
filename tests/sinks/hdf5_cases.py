"""Examples and written shards for the tests of the HDF5 formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dataprep.sinks.base import DatasetInfo, FinishedShard, ShardName, Sink
from dataprep.sinks.example import Example

CLASSES = (("n01440764", "tench"), ("n01443537", "goldfish"), ("n01484850", "great white shark"))
ONE = DatasetInfo(CLASSES)
SEVERAL = DatasetInfo(CLASSES, multilabel=True)


def example(
    key: str,
    encoded: bytes,
    labels: tuple[int, ...],
    info: DatasetInfo,
    *,
    format_: str = "JPEG",
    size: tuple[int, int] = (3, 4),
    boxes: tuple[tuple[float, float, float, float], ...] = (),
) -> Example:
    return Example(
        key=key,
        encoded=encoded,
        format=format_,
        height=size[0],
        width=size[1],
        colorspace=info.colorspace,
        labels=labels,
        synset=info.identifiers(labels),
        class_name=info.names(labels),
        boxes=boxes,
    )


def photographs(count: int, info: DatasetInfo = ONE, *, first: int = 0) -> list[Example]:
    """Images of different sizes, with different keys, labels and numbers of boxes."""
    return [
        example(
            f"n01440764/n01440764_{number}.JPEG",
            bytes([number % 251]) * (100 + 37 * number),
            (number % 3,),
            info,
            format_="PNG" if number % 4 == 3 else "JPEG",
            size=(100 + number, 200 + number),
            boxes=((0.125, 0.25, 0.5, 0.75),) * (number % 3),
        )
        for number in range(first, first + count)
    ]


def arrays(count: int, info: DatasetInfo, *, first: int = 0) -> list[Example]:
    """Pixels of the size that ``info`` says."""
    assert info.size is not None
    values = info.size[0] * info.size[1] * info.channels
    return [
        example(
            f"{number}.png",
            bytes((7 * number + value) % 256 for value in range(values)),
            (number % 3,),
            info,
            format_="RAW",
            size=info.size,
        )
        for number in range(first, first + count)
    ]


def write(sink: Sink, path: Path, examples: Sequence[Example], info: DatasetInfo) -> Path:
    writer = sink.open([path], info)
    for each in examples:
        writer.write(each)
    (written,) = writer.close()
    writer.abandon()
    assert written.bytes == path.stat().st_size
    return path


def write_split(
    sink: Sink, out: Path, shards: Sequence[Sequence[Example]], info: DatasetInfo
) -> list[Path]:
    """A split of several shards in ``out``; returns the files made once a split."""
    finished = []
    for number, examples in enumerate(shards):
        names = tuple(sink.paths(ShardName("train", number, len(shards)), "split"))
        (path,) = (out / name for name in names)
        path.parent.mkdir(parents=True, exist_ok=True)
        write(sink, path, examples, info)
        finished.append(FinishedShard((path,), names, len(examples)))
    paths = [out / name for name in sink.split_paths("train", len(shards), "split")]
    temporary = [path.with_name(f".{path.name}.1a2b3c4d.partial") for path in paths]
    files = sink.finish_split(temporary, info, finished, None)
    for path, partial, file in zip(paths, temporary, files, strict=True):
        assert file.bytes == partial.stat().st_size
        partial.rename(path)
    return paths


def read(sink: Sink, path: Path, info: DatasetInfo) -> list[Example]:
    with sink.reader([path], info) as reader:
        return list(reader)
