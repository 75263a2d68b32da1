"""Boxes and captions of detection sets: COCO's JSON, Pascal VOC's XML; as rows of the index.

COCO's boxes are ``[x, y, width, height]`` in pixels from 0; its classes have ids with gaps. VOC's
are ``xmin`` to ``ymax`` in pixels from 1, the last ones included, as its development kit says. Here
they are fractions of the image. Boxes that lead out of it are cut off at its edges, and counted;
what then has no area is left out, and counted.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from dataprep.archives.listing import clean_path
from dataprep.datasets.base import Attribute
from dataprep.datasets.lists import read_lines
from dataprep.datasets.splits import split_of_folder
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular
from dataprep.tables import Box
from dataprep_schemas.tables import CAPTIONS, schema_of

CROWDS: Final = Attribute("crowds", "int")
"""How many boxes round a crowd an image has, which are left out."""

_CROWD: Final = "boxes round a crowd, left out"
_WORD: Final = re.compile("[^A-Za-z]+")
_SAID: Final = ("key", "split", "labels", "boxes", "box_labels", "captions", "crowds")
_UNLISTED: Final = "annotations of images in no list of ImageSets/Main, left out"
_MASKS: Final = "segmentation masks, which are not kept"
_EMPTY: Final = "boxes without an area, left out"
_CUT_OFF: Final = "boxes cut off at the edge of their image"
_LONGEST_XML: Final = 4 << 20  # bytes


@dataclass
class Annotated:
    """What annotations say of one image.

    Attributes:
        name: its file's name or path.
        boxes: with the class of each.
        others: classes of what has no box.
        captions: texts.
        split: empty: nothing tells it.
        crowds: how many boxes round a crowd were left out.
    """

    name: str
    boxes: list[tuple[Box, str]] = field(default_factory=list)
    others: set[str] = field(default_factory=set)
    captions: list[str] = field(default_factory=list)
    split: str = ""
    crowds: int = 0


@dataclass
class Annotations:
    """What a list of annotations holds.

    Attributes:
        place: what messages call it.
        images: in the order of the list.
        classes: names, in the order of their ids; of VOC as they are met.
        has_boxes: whether it is about boxes; otherwise it has captions only.
        counts: how often something happened that the user should know of.
    """

    place: str
    images: list[Annotated] = field(default_factory=list)
    classes: list[str] = field(default_factory=list)
    has_boxes: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def has_captions(self) -> bool:
        """Whether any image has one."""
        return any(image.captions for image in self.images)

    def table(self) -> pa.Table:
        """The images as rows of the index, without where they are.

        Raises:
            SourceError: a name leads out of the raw directory.
        """
        rows = []
        for image in self.images:
            try:
                key = clean_path(image.name)
            except ValueError as error:
                raise SourceError(f"{self.place}: {printable(image.name)}: {error}") from error
            sides = ("xmin", "ymin", "xmax", "ymax")
            rows.append(
                {
                    "key": key,
                    "split": image.split or None,
                    "labels": sorted({*image.others, *(name for _, name in image.boxes)}),
                    "boxes": [dict(zip(sides, box, strict=True)) for box, _ in image.boxes] or None,
                    "box_labels": [name for _, name in image.boxes] or None,
                    "captions": image.captions or None,
                    CROWDS.name: image.crowds or None,
                }
            )
        schema = schema_of("index", (CAPTIONS, (CROWDS.name, CROWDS.kind)))
        return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in _SAID]))

    def add_box(self, image: Annotated, name: str, box: Sequence[float]) -> None:
        """A box in fractions of its image, perhaps beyond them."""
        cut = [min(max(side, 0.0), 1.0) for side in box]
        if not (cut[0] < cut[2] and cut[1] < cut[3]):  # also where a side is no number
            self.counts[_EMPTY] += 1
            image.others.add(name)
            return
        self.counts[_CUT_OFF] += any(
            abs(side - before) > 1e-9 for side, before in zip(cut, box, strict=True)
        )
        image.boxes.append(((cut[0], cut[1], cut[2], cut[3]), name))


class _Image(msgspec.Struct, frozen=True):
    id: int | str
    file_name: str
    width: float = 0
    height: float = 0


class _Annotation(msgspec.Struct, frozen=True):
    image_id: int | str
    category_id: int | None = None
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: int = 0
    caption: str | None = None
    segmentation: msgspec.Raw = msgspec.Raw(b"")


class _Category(msgspec.Struct, frozen=True):
    id: int
    name: str


class _Coco(msgspec.Struct, frozen=True):
    images: tuple[_Image, ...]
    annotations: tuple[_Annotation, ...] = ()
    categories: tuple[_Category, ...] = ()


def read_coco(paths: Sequence[Path]) -> Annotations:
    """What COCO's files say of the same images: instances, captions, or both.

    A class's name is its identifier; categories without images keep their places.

    Raises:
        SourceError: a file cannot be read, is none, or names an image or a category that it lacks.
    """
    found = Annotations(" and ".join(printable(path.name) for path in paths))
    images: dict[str, Annotated] = {}
    for path in paths:
        place = printable(path.name)
        coco = _decoded(path, place)
        known = {image.id: image for image in coco.images}
        names = {each.id: each.name for each in sorted(coco.categories, key=lambda it: it.id)}
        found.classes += [name for name in names.values() if name not in found.classes]
        for one in coco.images:
            images.setdefault(one.file_name, Annotated(one.file_name))
        for each in coco.annotations:
            where = known.get(each.image_id)
            name = names.get(each.category_id) if each.category_id is not None else None
            if where is None or (name is None and each.category_id is not None):
                what = f"category {each.category_id}" if where else f"image {each.image_id}"
                raise SourceError(
                    f"{place}: an annotation of {printable(what)}, which is not in the file; "
                    "correct the list"
                )
            image = images[where.file_name]
            if each.caption is not None and each.caption.strip():
                image.captions.append(each.caption.strip())
            if name is None:
                continue
            found.has_boxes = True
            found.counts[_MASKS] += len(each.segmentation) > len("[]")
            if each.iscrowd:
                found.counts[_CROWD] += 1
                image.crowds += 1
            elif each.bbox is None:
                image.others.add(name)
            else:
                left, top, width, height = each.bbox
                sides = (left, top, left + width, top + height)
                found.add_box(image, name, _fractions(sides, where.width, where.height, place))
    found.images = list(images.values())
    return found


def _decoded(path: Path, place: str) -> _Coco:
    try:
        return msgspec.json.decode(read_regular(path), type=_Coco)
    except OSError as error:
        raise unreadable(str(path), error) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SourceError(
            f"{place} is no list of COCO's form: {printable(str(error))}; expected images, "
            "annotations and categories"
        ) from error


def _fractions(
    sides: Sequence[float], width: float, height: float, place: str
) -> tuple[float, ...]:
    if not (width > 0 and height > 0):
        raise SourceError(
            f"{place}: an image with boxes of {width:g} x {height:g} pixels; expected its width "
            "and height; correct the file"
        )
    return tuple(side / of for side, of in zip(sides, (width, height) * 2, strict=True))


def read_voc(folder: Path, *, splits: bool) -> Annotations:
    """What a folder of Pascal VOC's XML files says, one file an image.

    Args:
        splits: whether the lists of ``ImageSets/Main`` beside the folder say which images there
            are of which split, if they are there.

    Raises:
        SourceError: a file cannot be read, or is none of VOC's.
    """
    found = Annotations(f"{printable(folder.name)}/*.xml", has_boxes=True)
    classes: dict[str, None] = {}
    listed = _voc_lists(folder) if splits else {}
    for path in sorted(folder.glob("*.xml")):
        place = printable(f"{folder.name}/{path.name}")
        root = _parsed(path, place)
        try:
            width, height = (float(_text(root, f"size/{side}")) for side in ("width", "height"))
            image = Annotated(_text(root, "filename"), split=listed.get(path.stem, ""))
            for one in root.iter("object"):
                name = _text(one, "name")
                sides = [float(_text(one, f"bndbox/{side}")) for side in _SIDES]
                sides = [sides[0] - 1, sides[1] - 1, *sides[2:]]
                classes[name] = None
                found.add_box(image, name, _fractions(sides, width, height, place))
        except ValueError as error:
            raise SourceError(f"{place}: {error}; correct the file") from error
        if image.split or not listed:
            found.images.append(image)
        else:
            found.counts[_UNLISTED] += 1
    found.classes = sorted(classes)
    return found


_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")


def _parsed(path: Path, place: str) -> ET.Element:
    try:
        data = read_regular(path)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if len(data) > _LONGEST_XML or b"<!" in data.replace(b"<!--", b""):
        raise SourceError(
            f"{place}: {len(data):,} bytes, or a DOCTYPE; expected VOC's XML without one, of "
            f"{_LONGEST_XML:,} bytes at most; correct the file"
        )
    try:
        return ET.fromstring(data)  # noqa: S314  # without declarations there is nothing to expand
    except (ET.ParseError, ValueError, LookupError) as error:
        raise SourceError(f"{place} is no XML: {error}; correct the file") from error


def _text(element: ET.Element, path: str) -> str:
    text = (element.findtext(path) or "").strip()
    if not text:
        raise ValueError(f"no {path}, expected Pascal VOC's annotation of an image")
    return text


def _voc_lists(folder: Path) -> dict[str, str]:
    """The split of each image, by its name without suffix; empty without the lists."""
    found: dict[str, str] = {}
    for name in ("train", "val", "test"):
        path = folder.parent / "ImageSets" / "Main" / f"{name}.txt"
        if path.exists():
            lines = read_lines(path).values()
            found |= dict.fromkeys((line.split()[0] for line in lines), split_of_folder(name))
    return found


def by_split(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by the split that is a word of their names: ``instances_val2017.json``."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        words = map(split_of_folder, _WORD.split(path.stem))
        found[next(filter(None, words), "")].append(path)
    return found


def place_of(raw: Path, top: str, found: Annotations, paths: Sequence[Path]) -> str:
    """The directory that names start from: the top, or one that is called as usual.

    Args:
        found: what the annotations say.
        paths: the files: ``instances_train2017.json`` is of the images in ``train2017``.
    """
    last = paths[0].stem.rpartition("_")[2]
    places = [Path(top, name) for name in ("", last, "images", f"images/{last}", "JPEGImages")]
    with suppress(ValueError):  # the annotations may be elsewhere
        folder = (raw / paths[0]).resolve().relative_to(raw.resolve())
        places += [folder, folder.parent / "JPEGImages"]
    first = found.images[0].name if found.images else ""
    there = (place for place in places if os.path.isfile(raw / place / first))  # noqa: PTH113 - of any text
    found_in = next(there, Path(top))
    return "" if found_in == Path() else str(found_in)
