"""Boxes and captions of detection sets, as rows of the index: the same of whatever tells them.

Here boxes are fractions of the picture that they were drawn on. Those that lead out of it are cut
off at its edges, and counted; what then has no area is left out, and counted. `coco`, `voc`,
`labelme` and `yolo` read the files; ids, names and places are checked here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from math import cos, radians, sin
from pathlib import Path
from typing import Final

import pyarrow as pa
from msgspec import Raw

from dataprep.archives.listing import clean_path, folder_of, is_image_name
from dataprep.datasets.folder.lookup import files_in
from dataprep.datasets.masks import outlines_of
from dataprep.errors import SourceError
from dataprep.system.messages import printable
from dataprep_schemas.fields import BOX_FLAGS, BOX_LABELS, BOXES, CAPTIONS, MASK, Box, Fields
from dataprep_schemas.tables import schema_of

# What annotations may say of images, in the order of the columns.
FIELDS: Final = (BOXES, BOX_LABELS, CAPTIONS, *BOX_FLAGS)
_EMPTY: Final = "boxes without an area, left out"
_CUT_OFF: Final = "boxes cut off at the edge of their image"
_ROTATED: Final = "boxes with a rotation, of which the upright box round each is kept"
_SAID: Final = ("key", "split", "labels", "drawn_on")
_IMAGES: Final = ("images", "JPEGImages")
_DATA: Final = (*_IMAGES, "Images", "Data", "")  # what is called so beside `Annotations`
_MOST: Final = 1 << 31  # pixels of a side
_LOOKED_AT: Final = 256  # images of a list, spread over all of it

Id = int | str  # of a class: COCO's number, VOC's name


@dataclass
class Annotated:
    """What annotations say of one image."""

    # Its file's path or, where that is none, what else it may be; of all images alike.
    names: tuple[str, ...]
    said: str  # what the list calls it, for messages
    boxes: list[tuple[Box, Id]] = field(default_factory=list)  # with the class of each
    flags: list[tuple[bool, ...]] = field(default_factory=list)  # what `BOX_FLAGS` say of each box
    # Width and height of the picture that the boxes were drawn on.
    drawn_on: tuple[float, float] | None = None
    others: set[Id] = field(default_factory=set)  # classes of what has no box
    captions: list[str] = field(default_factory=list)  # texts
    # What outlines say where each class is, and height and width of the picture they are of.
    outlines: list[tuple[Id, Raw]] = field(default_factory=list)
    outlined_on: tuple[int, int] = (0, 0)
    split: str = ""  # empty: nothing tells it
    key: str = ""  # its path below the place of all images, when that is known

    @property
    def marked(self) -> dict[str, str]:
        """What `BOX_FLAGS` say, where any box has one."""
        flags = zip(BOX_FLAGS, zip(*self.flags, strict=True), strict=False)
        return {it.name: "".join("01"[flag] for flag in each) for it, each in flags if any(each)}

    def mask(self, numbers: Mapping[Id, int]) -> str:
        """What draws its mask, by the numbers of the classes; of nothing, one of zeros."""
        found = [(numbers[id_], outline) for id_, outline in self.outlines]
        return outlines_of(found, self.outlined_on)


@dataclass
class Annotations:
    """What annotations of the same images hold."""

    place: str  # what messages call them
    images: list[Annotated] = field(default_factory=list)  # in the order of the list
    # (what messages call a file, id, name), of each file in the order of the ids.
    classes: list[tuple[str, Id, str]] = field(default_factory=list)
    has_boxes: bool = False  # whether they are about boxes; otherwise they have captions only
    # How often something happened that the user should know of.
    counts: Counter[str] = field(default_factory=Counter)
    top: str = ""  # the directory that keys start from, when it is known

    @property
    def fields(self) -> Fields:
        """Those that any image has, and those of boxes if they are about any."""
        found = set().union(*(image.marked for image in self.images))
        found |= {BOXES.name, BOX_LABELS.name} if self.has_boxes else set()
        found |= {CAPTIONS.name} if any(image.captions for image in self.images) else set()
        return tuple(each for each in FIELDS if each.name in found)

    @property
    def ids(self) -> set[Id]:
        """Of all its classes."""
        return {id_ for _, id_, _ in self.classes}

    def table(self, named: Mapping[Id, str], numbers: Mapping[Id, int] | None) -> pa.Table:
        """The images as rows of the index, without where they are.

        Args:
            named: the identifiers of the classes, by their ids.
            numbers: theirs in masks, likewise; None: outlines are no masks.
        """
        rows = []
        for image in self.images:
            ids = {*image.others, *(id_ for _, id_ in image.boxes)}
            rows.append(
                {
                    "key": image.key,
                    "split": image.split or None,
                    "labels": sorted({named[id_] for id_ in ids}),
                    "drawn_on": image.drawn_on and [max(round(it), 1) for it in image.drawn_on],
                    BOXES.name: [box for box, _ in image.boxes] or None,
                    BOX_LABELS.name: [named[id_] for _, id_ in image.boxes] or None,
                    CAPTIONS.name: image.captions or None,
                    **image.marked,
                    MASK.name: None if numbers is None else image.mask(numbers),
                }
            )
        schema = schema_of("index", (*FIELDS, MASK))
        names = (*_SAID, *(field.name for field in self.fields), *[MASK.name] * bool(numbers))
        return pa.Table.from_pylist(rows, pa.schema([schema.field(name) for name in names]))

    def add_box(
        self,
        image: Annotated,
        id_: Id,
        sides: Sequence[float],
        size: tuple[float, float],
        *,
        rotation: float = 0,
        flags: tuple[bool, ...] = (),
    ) -> None:
        """A box in pixels of a picture, perhaps beyond it.

        Args:
            size: width and height of the picture.
            rotation: by which it is to be turned round its middle, in degrees.

        Raises:
            SourceError: the picture has no size, or another than another list says.
        """
        known = image.drawn_on or size
        if not all(0 < side < _MOST for side in size) or known != size:
            others = "" if known == size else f" and {known[0]:g} x {known[1]:g}"
            raise SourceError(
                f"{self.place}: {image.said} has boxes, and {size[0]:g} x {size[1]:g}{others} "
                "pixels; expected its width and height; correct the file"
            )
        image.drawn_on = size
        if rotation % 360:
            sides = _round_turned(sides, rotation)
            self.counts[_ROTATED] += 1
        box = [side / of for side, of in zip(sides, size * 2, strict=True)]
        self.add_fractions(image, id_, box, flags)

    def add_fractions(
        self, image: Annotated, id_: Id, box: Sequence[float], flags: tuple[bool, ...] = ()
    ) -> None:
        """A box in fractions of a picture, perhaps beyond it."""
        cut = [min(max(side, 0.0), 1.0) for side in box]
        if not (cut[0] < cut[2] and cut[1] < cut[3]):  # also where a side is no number
            self.counts[_EMPTY] += 1
            image.others.add(id_)
            return
        self.counts[_CUT_OFF] += any(
            abs(side - before) > 1e-9 for side, before in zip(cut, box, strict=True)
        )
        for each, flag in zip(BOX_FLAGS, flags, strict=False):
            self.counts[f"boxes marked {each.name}, kept with the attribute {each.name}"] += flag
        image.boxes.append(((cut[0], cut[1], cut[2], cut[3]), id_))
        image.flags.append(flags)

    def settle(
        self,
        raw: Path,
        top: str,
        paths: Sequence[str],
        *,
        packed: bool,
        seen: dict[str, tuple[str, str]],
    ) -> None:
        """Find where the images lie, and make sure that each is listed once.

        Of all places where any of them are, that in which there are most; of those the first. Names
        mean something else than paths only where no path is found.

        Args:
            top: where everything starts.
            paths: of the annotations.
            packed: whether the images are in archives, so that their paths alone are known.
            seen: the files of other lists, with what these call them; gets those of this one.

        Raises:
            SourceError: two are one file, or a name leads out of the raw directory.
        """
        tops = "|".join(re.escape(f"{at}/") for at in (raw / top, (raw / top).resolve()))
        for image in self.images:
            names = (name.replace("\\", "/") for name in image.names)  # as Windows has them
            image.names = tuple(re.sub(f"^({tops})", "", name) for name in names)
        listed = cache(partial(files_in, raw))

        def find(place: str, name: str) -> str | None:
            with suppress(ValueError):
                folder, _, last = f"{place}/{clean_path(name)}".lstrip("/").rpartition("/")
                file = listed(folder).get(last)
                return None if file != last and is_image_name(last) else file
            return None

        self.top, form, most = top, 0, 0
        places = [] if packed else _places(raw, top, paths)
        step = max(1, len(self.images) // _LOOKED_AT)
        for some in (self.images[::step], self.images):
            for way in product(range(len(some[0].names)) if some and not most else (), places):
                if most == len(some) or (most and form == 0 < way[0]):
                    break  # a list's own paths come before all else that its names may mean
                found = sum(find(way[1], image.names[way[0]]) is not None for image in some)
                if found > most:
                    most, (form, self.top) = found, way
        for image in self.images:
            try:
                key = clean_path(image.names[form])
            except ValueError as error:
                raise SourceError(f"{self.place}: {image.said}: {error}") from error
            file = None if packed else find(self.top, key)
            image.key = key if file is None else f"{folder_of(key)}/{file}".lstrip("/")
            path = image.key if packed else f"{self.top}/{image.key}".lstrip("/")
            if (other := seen.setdefault(path, own := (self.place, image.said))) is not own:
                raise SourceError(
                    f"{printable(path)} is {other[1]} in {other[0]} and {image.said} in "
                    f"{self.place}; expected each image once, in one split; remove one"
                )


def name_of(raw: Path, path: Path) -> str:
    """What messages call annotations: their path below the raw directory, or their name."""
    below = within(raw, path)
    return printable(str(below) if below and below.parts else path.name)


def _places(raw: Path, top: str, paths: Sequence[str]) -> list[str]:
    """The directories where images of annotations may be, the likeliest first."""

    def usual(base: Path, *names: str) -> Iterator[Path]:
        folders = ("", names[0], _IMAGES[0], f"{_IMAGES[0]}/{names[0]}", _IMAGES[1])
        yield from (base / name for name in folders)
        yield from (base / image / name for name in names[1:] for image in ("", *_IMAGES))

    places: list[Path] = []
    for path in map(Path, paths):
        # `instances_train2017` is of what is in `train2017`.
        *others, last = path.stem.partition(".")[0].split("_")
        places += usual(Path(top), last, *others)
        inner = within(raw, path)
        if inner is None:
            continue  # the annotations are elsewhere
        folder = inner if (raw / inner).is_dir() else inner.parent
        for base in (folder, *folder.parents)[:3]:
            places += usual(base, last, *others, folder.name)
        for at, part in enumerate(folder.parts):
            if part.lower().startswith("annotation"):
                before, behind = folder.parts[:at], folder.parts[at + 1 :]
                places += [Path(*before, word, *behind) for word in _DATA]
    below = [it for it in dict.fromkeys(places) if Path(top) in (it, *it.parents)]
    return ["" if it == Path() else str(it) for it in below if (raw / it).is_dir()]


def within(raw: Path, path: Path) -> Path | None:
    """A path below the raw directory; None if it is elsewhere."""
    with suppress(ValueError):
        return (raw / path).resolve().relative_to(raw.resolve())
    return None


def _round_turned(sides: Sequence[float], rotation: float) -> list[float]:
    """The upright box round one that is turned by so many degrees round its middle."""
    across, down = (sides[2] - sides[0]) / 2, (sides[3] - sides[1]) / 2
    turn = abs(cos(radians(rotation))), abs(sin(radians(rotation)))
    wide, high = across * turn[0] + down * turn[1], across * turn[1] + down * turn[0]
    x, y = sides[0] + across, sides[1] + down
    return [x - wide, y - high, x + wide, y + high]
