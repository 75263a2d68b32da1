"""Annotations of COCO, VOC, LabelMe or YOLO: the source of images that these list."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from dataprep.datasets.base import ScanUnit
from dataprep.datasets.folder import labelme, voc
from dataprep.datasets.folder.annotations import FIELDS, Annotations, Id, within
from dataprep.datasets.folder.coco import read_coco
from dataprep.datasets.folder.layout import FolderFound, ListingUnit, Source, images_of
from dataprep.datasets.folder.lookup import look_up, placed, with_columns
from dataprep.datasets.folder.yolo import SUFFIXES, read_yolo
from dataprep.datasets.lists import about_forms, one_form
from dataprep.datasets.splits import in_usual_order, split_of_folder
from dataprep.errors import SourceError
from dataprep.rows import Scanned
from dataprep.system.messages import counted, printable, some_of

_MIDDLE: Final = 1 << 63  # so that ids below 0 come first in the order of texts, too
_WORD: Final = re.compile("[^A-Za-z]+")
_FOLDER: Final = re.compile("([A-Za-z]+)[-_]?[0-9]*")  # train2017


class Annotated(Source):
    """Images that annotations of COCO, VOC, LabelMe or YOLO list."""

    def find(self, raw: Path, lists: Sequence[ListingUnit]) -> FolderFound:
        """A unit for each split that names tell, and the archives with the images."""
        images = images_of(raw, self.options)
        packed = bool(images.units)
        units: list[ListingUnit] = []
        described = []
        read: list[Annotations] = []
        seen: dict[str, tuple[str, str]] = {}
        for split, some in by_split(raw, [*map(Path, lists[0].paths)]).items():
            # A folder of VOC's has images of its own beside it.
            folders = [[path] for path in some if (raw / path).is_dir()]
            for each in folders or [some]:
                paths, name = tuple(map(str, each)), f"listing-{len(units)}"
                unit = ListingUnit(name, each[0].name, paths, images.top, packed, split)
                found = self._read(raw, unit, seen)
                read.append(found)
                units.append(replace(unit, top=found.top))
                classes = counted(len(found.ids), "class", "classes")
                listed = f"{counted(len(found.images), 'image')}, {classes}"
                at = images.place if packed else f"files in {printable(str(raw / found.top))}"
                described.append(f"annotated in {found.place}: {listed}; {at}")
        has = {field for found in read for field in found.fields}
        named, said = identify(read)
        there = {image.split for found in read for image in found.images}
        told = there - {self.options.split_name} or any(unit.split for unit in units)
        return FolderFound(
            description=(*described, *said),
            units=(*units, *images.units),
            splits=in_usual_order(there) if told else (),
            multilabel=True,
            fields=tuple(each for each in FIELDS if each in has),
            names=(*named.items(),),
        )

    def scan(self, raw: Path, found: FolderFound, unit: ScanUnit) -> Scanned:
        """The images of a unit, as rows of the index."""
        unit = cast("ListingUnit", unit)
        read = self._read(raw, unit, {})
        here = read.ids
        names = {id_: name for id_, name in found.names if id_ in here}
        # No path of this machine gets into the data set.
        place = " and ".join(printable(Path(path).name) for path in unit.paths)
        place += next((it for it in ("/*.xml", "/*.json") if read.place.endswith(it)), "")
        # In the order of their ids, with those that no image shows; VOC's by their names.
        order = {id_: f"{id_ + _MIDDLE:020d}" if isinstance(id_, int) else "" for id_ in names}
        classes = [f"{order[id_]}\t{name}" for id_, name in names.items()]
        numbers = {id_: number for number, (id_, _) in enumerate(found.names, 1)}
        listed = read.table(names, numbers if self.options.mask_outlines else None)
        tables = [with_columns(listed, status="listed", container=place)]
        if not unit.packed:
            tables = [*look_up(raw, placed(listed, read.top), place)]
        return Scanned(tables=tables, classes=classes, counts=+read.counts)

    def _read(self, raw: Path, unit: ListingUnit, seen: dict[str, tuple[str, str]]) -> Annotations:
        paths, cut = [*map(Path, unit.paths)], self.options.cut
        if (raw / paths[0]).is_dir():
            found = _read_folder(raw, paths[0], splits=cut is None)
        elif paths[0].suffix.lower() in SUFFIXES:
            found = read_yolo(raw, paths[0])
        else:
            found = read_coco(raw, paths, outlines=self.options.mask_outlines)
        found.settle(raw, unit.top, unit.paths, packed=unit.packed, seen=seen)
        for image in found.images:
            if cut is not None:
                image.split = "" if self.options.stratify else cut.split_of(image.key)
            else:
                image.split = image.split or unit.split or self.options.split_name
        return found


def _read_folder(raw: Path, path: Path, *, splits: bool) -> Annotations:
    kinds = {it.suffix for it in (*voc.files_of(raw / path), *labelme.files_of(raw / path))}
    if kinds >= {".xml", ".json"}:
        raise SourceError(
            f"{printable(str(path))} has .xml, as Pascal VOC, and .json, as LabelMe; expected one "
            "of them; move the others out of the folder"
        )
    of_json = ".json" in kinds
    return labelme.read_labelme(raw, path) if of_json else voc.read_voc(raw, path, splits=splits)


def identify(found: Sequence[Annotations]) -> tuple[dict[Id, str], list[str]]:
    """The identifiers of the classes of several lists, and what is to be said of them.

    Ids decide what is one class: where several have one name, the id is added to each.

    Raises:
        SourceError: an id has two names, or a name has one id in a file and another in another.
    """
    told = [told for each in found for told in each.classes]
    forms = one_form(name for _, _, name in told)
    known: dict[Id, tuple[str, str]] = {}
    ids: defaultdict[str, defaultdict[str, set[Id]]] = defaultdict(lambda: defaultdict(set))
    for place, id_, name in told:
        before, there = known.setdefault(id_, (forms[name], place))
        if before != forms[name]:
            raise SourceError(
                f"category {id_} is {printable(before)} in {there} and {printable(name)} in "
                f"{place}; expected one name; correct the annotations"
            )
        ids[forms[name]][place].add(id_)
    names = {id_: name for id_, (name, _) in known.items()}
    while doubled := {name for name, number in Counter(names.values()).items() if number > 1}:
        names |= {id_: f"{name} {id_}" for id_, name in names.items() if name in doubled}
    lines = []
    for name, by_place in ids.items():
        most = max(by_place, key=lambda place: len(by_place[place]))
        for place, some in by_place.items():
            if not some <= by_place[most]:
                numbers = (" and ".join(map(str, by_place[it])) for it in (most, place))
                raise SourceError(
                    f"{printable(name)} is category {next(numbers)} in {most} and {next(numbers)} "
                    f"in {place}; expected one id; correct the annotations"
                )
        if len(by_place[most]) > 1:
            lines.append(
                f"{len(by_place[most])} categories are called {printable(name)}, and stay classes "
                f"of their own: {some_of([names[id_] for id_ in known if id_ in by_place[most]])}"
            )
    return names, [*lines, *filter(None, [about_forms(forms)])]


def by_split(raw: Path, paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Files by the split that is a word of their names, ``instances_val2017.json``, or a folder.

    Raises:
        SourceError: a file's name says one split, and its folder or another word another one.
    """
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        below = within(raw, path)
        folders = below.parts[-2::-1] if below else ()
        if below is None and len({each.parent for each in paths}) > 1:
            folders = (path.parent.name,)  # what is above tells them apart no more
        matches = filter(None, map(_FOLDER.fullmatch, folders))
        of_folders = list(filter(None, (split_of_folder(match[1]) for match in matches)))
        words = filter(None, map(split_of_folder, _WORD.split(path.stem)))
        splits = [*dict.fromkeys([*words, *of_folders[:1]])]
        if len(splits) > 1:
            raise SourceError(
                f"{printable(str(path))}: its name and folder say {' and '.join(splits)}; "
                "expected one split; rename one of them"
            )
        split = "".join(splits)
        if path in found[split]:
            raise SourceError(f"{printable(str(path))} is in --listing twice; leave one out")
        found[split].append(path)
    return found
