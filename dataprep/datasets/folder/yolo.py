"""YOLO's layout: a ``data.yaml`` that names classes and folders of images, and a ``.txt`` an image.

As Ultralytics documents it (https://docs.ultralytics.com/datasets/detect/), and Roboflow and CVAT
export it: a line an object, its class from 0, then the middle, width and height of its box as
fractions of the upright picture; or the corners of an outline. The lines of ``…/images/x.jpg`` are
in ``…/labels/x.txt``; without such a file a picture shows nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import isfinite
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
from PIL import Image

from dataprep.archives.listing import is_image_name
from dataprep.datasets.folder.annotations import Annotated, Annotations, name_of, within
from dataprep.datasets.lists import read_lines
from dataprep.errors import SourceError, UsageError
from dataprep.system.filesystems import walk
from dataprep.system.messages import printable, some_of, unreadable
from dataprep.system.regular_files import read_regular

SUFFIXES: Final = (".yaml", ".yml")

_SPLITS: Final = {"train": "train", "val": "validation", "test": "test"}
_OUTLINES: Final = "outlines of objects, of which the box is kept"
_EXPECTED: Final = (
    "expected CLASS X Y WIDTH HEIGHT, as fractions, or CLASS and three corners or more"
)
_MOST: Final = 2  # of a fraction that leads out of its picture; more are pixels
_LONGEST: Final = 1 << 20  # bytes of a data.yaml
_ORIENTATION: Final = 0x0112  # of EXIF
_LOOKS: Final = 16  # files looked at at once


class _Data(msgspec.Struct, frozen=True):
    names: tuple[str | int, ...] | dict[int, str | int]
    path: str = ""
    train: str | tuple[str, ...] | None = None
    val: str | tuple[str, ...] | None = None
    test: str | tuple[str, ...] | None = None


def read_yolo(raw: Path, path: Path) -> Annotations:
    """What the labels beside the images of all splits say.

    Raises:
        SourceError: a file cannot be read, or is none of YOLO's; or no image is where it says.
        UsageError: what reads YAML is not installed.
    """
    place = name_of(raw, path)
    data, found = _decoded(raw / path, place), Annotations(place, has_boxes=True)
    names = data.names if isinstance(data.names, dict) else dict(enumerate(data.names))
    found.classes = [(place, number, str(name)) for number, name in sorted(names.items())]
    images = [(split, image) for split, image in _images(raw, path, data, place)]
    with ThreadPoolExecutor(_LOOKS) as pool:
        read = pool.map(lambda it: _labels(raw, it[1]), images)
        for (split, image), (lines, size) in zip(images, read, strict=True):
            one = Annotated((image,), printable(image), split=split, drawn_on=size)
            for number, line in lines.items():
                where = f"{printable(labels_of(image))}, line {number}"
                class_, box = _box(line, where, found)
                if class_ not in names:
                    raise SourceError(
                        f"{where}: class {class_}, which {place} has no name for; correct one"
                    )
                found.add_fractions(one, class_, box)
            found.images.append(one)
    return found


def files_of(raw: Path, path: Path) -> list[Path]:
    """The file and those with labels, in the order of their paths."""
    place = name_of(raw, path)
    images = _images(raw, path, _decoded(raw / path, place), place)
    labels = (raw / labels_of(image) for _, image in images)
    return [raw / path, *sorted(it for it in labels if it.exists())]


def labels_of(image: str) -> str:
    """The path of an image's labels: in ``labels`` for ``images``, or beside it."""
    parts = [*PurePosixPath(image).with_suffix(".txt").parts]
    at = max((at for at, part in enumerate(parts[:-1]) if part == "images"), default=None)
    if at is not None:
        parts[at] = "labels"
    return "/".join(parts)


def _decoded(path: Path, place: str) -> _Data:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise UsageError(f"{place} needs PyYAML: pip install pyyaml") from error
    try:
        text = read_regular(path)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if len(text) > _LONGEST:  # which would take minutes to parse
        raise SourceError(
            f"{place} has {len(text):,} bytes; expected a data.yaml of YOLO's, of {_LONGEST:,} at "
            "most; correct the file"
        )
    try:
        return msgspec.convert(yaml.safe_load(text), _Data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise SourceError(
            f"{place} is no data.yaml of YOLO's: {printable(said)}; expected names, and folders of "
            "images as train, val or test"
        ) from error


def _images(raw: Path, path: Path, data: _Data, place: str) -> Iterator[tuple[str, str]]:
    """The split and the path from the raw directory of each image.

    Folders are below ``path`` of the file, or below the file itself, also where exports say
    ``../train/images``.
    """
    base = (raw / path).parent
    for name, split in _SPLITS.items():
        said: Any = getattr(data, name) or ()
        for entry in (said,) if isinstance(said, str) else said:
            tries = (base / data.path / entry, base / entry, base / entry.removeprefix("../"))
            there = [it for it in tries if it.exists() and within(raw, it) is not None]
            if not there:
                raise SourceError(
                    f"{place}: {name} is {printable(entry)}, which is not below the raw directory; "
                    "correct the file"
                )
            yield from ((split, image) for image in _below(raw, there[0]))


def _below(raw: Path, place: Path) -> Iterator[str]:
    """The images in a folder, to any depth, or those that a list names; by their paths."""
    if place.is_dir():
        paths = [
            place / below / entry.name
            for below, entries in walk(place)
            for entry in entries
            if is_image_name(entry.name)
        ]
    else:
        paths = [place.parent / line.strip() for line in read_lines(place).values()]
    # By their names alone: a link's labels are beside the link.
    inside = sorted(os.path.relpath(path, raw) for path in paths)
    if outside := [path for path in inside if path.partition("/")[0] == ".."]:
        raise SourceError(
            f"{printable(place.name)}: {some_of(outside)} not below the raw directory; correct the "
            "list"
        )
    yield from inside


def _labels(raw: Path, image: str) -> tuple[dict[int, str], tuple[float, float] | None]:
    """The lines of an image's labels by number, and the size of the upright picture."""
    path = raw / labels_of(image)
    lines = read_lines(path) if path.exists() else {}
    if not lines:
        return {}, None
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(raw / image) as picture:
            turned = picture.getexif().get(_ORIENTATION, 1) >= 5
            return lines, picture.size[::-1] if turned else picture.size
    except (OSError, ValueError, Image.DecompressionBombError):
        return lines, None  # what is wrong with it is told when it is stored


def _box(line: str, where: str, found: Annotations) -> tuple[int, list[float]]:
    """The class and the box of a line: left, top, right, bottom."""
    try:
        class_, *numbers = [float(cell) for cell in line.split()]
    except ValueError:
        class_, numbers = 0.5, []
    good = class_ == int(class_) and all(isfinite(it) and abs(it) <= _MOST for it in numbers)
    if good and len(numbers) == 4:
        x, y, width, height = numbers
        return int(class_), [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
    if not good or len(numbers) < 6 or len(numbers) % 2:
        raise SourceError(f"{where}: {printable(line[:80])!r}; {_EXPECTED}; correct the file")
    found.counts[_OUTLINES] += 1
    across, down = numbers[::2], numbers[1::2]
    return int(class_), [min(across), min(down), max(across), max(down)]
