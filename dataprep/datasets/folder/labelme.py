"""LabelMe's annotations: a ``.json`` an image, mostly beside it, with shapes in pixels from 0.

As its version 5 writes them (https://github.com/wkentaro/labelme), and X-AnyLabeling.
"""

from __future__ import annotations

from math import dist
from pathlib import Path
from typing import Final
from unicodedata import normalize

import msgspec

from dataprep.archives.listing import basename, folder_of, stem_of
from dataprep.datasets.folder.annotations import Annotated, Annotations, name_of
from dataprep.errors import SourceError
from dataprep.system.filesystems import walk
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular

_OUTLINES: Final = "outlines of objects, of which the box is kept"
_OTHERS: Final = "shapes without an inside (lines, points), of which the class alone is kept"
_FLAT: Final = ("line", "linestrip", "point", "points")


class _Shape(msgspec.Struct, frozen=True):
    label: str
    points: tuple[tuple[float, float], ...]
    shape_type: str = "polygon"


class _File(msgspec.Struct, frozen=True):
    shapes: tuple[_Shape, ...]
    imagePath: str = ""  # noqa: N815 - as it is called there
    imageHeight: float | None = 0  # noqa: N815
    imageWidth: float | None = 0  # noqa: N815


def files_of(folder: Path) -> list[Path]:
    """The JSON files in a folder, to any depth, in the order of their paths."""
    found = (Path(entry.path) for _, entries in walk(folder) for entry in entries)
    return sorted(path for path in found if path.suffix == ".json")


def read_labelme(raw: Path, path: Path) -> Annotations:
    """What the JSON files in a folder say of the images.

    Raises:
        SourceError: a file cannot be read, or is none of LabelMe's.
    """
    found = Annotations(f"{name_of(raw, path)}/*.json", has_boxes=True)
    classes: set[str] = set()
    for each in files_of(raw / path):
        stem = stem_of(each.relative_to(raw / path).as_posix())
        place = printable(f"{(raw / path).name}/{stem}.json")
        said = _decoded(each, place)
        name = said.imagePath.strip() or stem
        last, beside = basename(name.replace("\\", "/")), folder_of(stem)
        names = (f"{beside}/{last}", last, name, f"{beside}/{name}", stem)
        image = Annotated(names, printable(f"{stem}.json"))
        for shape in said.shapes:
            classes.add(shape.label)
            id_ = normalize("NFC", shape.label)
            if shape.shape_type in _FLAT:
                found.counts[_OTHERS] += 1
                image.others.add(id_)
                continue
            found.counts[_OUTLINES] += shape.shape_type not in ("rectangle", "mask")
            size = said.imageWidth or 0, said.imageHeight or 0
            found.add_box(image, id_, _sides(shape, place), size)
        found.images.append(image)
    found.classes += [(found.place, normalize("NFC", name), name) for name in sorted(classes)]
    return found


def _sides(shape: _Shape, place: str) -> list[float]:
    """The box round a shape: left, top, right, bottom."""
    points = shape.points
    if len(points) < 2 or not shape.label.strip():
        raise SourceError(
            f"{place}: a {printable(shape.shape_type)} of {len(points)} points, called "
            f"{printable(shape.label)!r}; expected two or more, and a label; correct the file"
        )
    if shape.shape_type == "circle":  # its middle, and a point on it
        (x, y), reach = points[0], dist(*points[:2])
        return [x - reach, y - reach, x + reach, y + reach]
    across, down = zip(*points, strict=True)
    return [min(across), min(down), max(across), max(down)]


def _decoded(path: Path, place: str) -> _File:
    try:
        return msgspec.json.decode(read_regular(path), type=_File)
    except OSError as error:
        raise unreadable(str(path), error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(
            f"{place} is none of LabelMe's: {printable(str(error))}; expected shapes, imagePath, "
            "imageHeight and imageWidth; correct the file, or move it out of the folder"
        ) from error
