"""COCO's annotations: JSON files of instances, captions, or both.

Boxes are ``[x, y, width, height]`` in pixels from 0; classes have ids with gaps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from dataprep.archives.listing import basename
from dataprep.datasets.folder.annotations import Annotated, Annotations, Id, name_of
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular

_MASKS: Final = "segmentation masks, which are not kept without --mask_outlines"


class _Image(msgspec.Struct, frozen=True):
    id: Id
    file_name: str = ""
    coco_url: str = ""
    width: float | None = 0
    height: float | None = 0

    @property
    def name(self) -> str:
        """Of its file: what is said, or the end of the address that it was downloaded from."""
        return self.file_name or basename(unquote(urlsplit(self.coco_url).path))

    def __str__(self) -> str:
        return printable(f"image {self.id} ({self.name})")


class _Annotation(msgspec.Struct, frozen=True):
    image_id: Id
    category_id: Id | None = None
    bbox: tuple[float, ...] | None = None  # of exporters also empty, or `null`
    iscrowd: int | bool | None = 0
    caption: str | None = None
    segmentation: msgspec.Raw = msgspec.Raw(b"")
    attributes: msgspec.Raw = msgspec.Raw(b"")

    @property
    def rotation(self) -> float:
        """Degrees, as CVAT has them; 0 if nothing says."""
        if b'"rotation"' not in bytes(self.attributes):
            return 0
        try:
            return msgspec.json.decode(self.attributes, type=_Turned).rotation
        except msgspec.MsgspecError:
            return 0


class _Turned(msgspec.Struct, frozen=True):
    rotation: float = 0


class _Category(msgspec.Struct, frozen=True):
    id: Id
    name: str


class _Coco(msgspec.Struct, frozen=True):
    images: tuple[_Image, ...]
    annotations: tuple[_Annotation, ...] = ()
    categories: tuple[_Category, ...] = ()


def read_coco(raw: Path, paths: Sequence[Path], *, outlines: bool = False) -> Annotations:
    """What COCO's files say of the same images: instances, captions, or both.

    Categories without images keep their places.

    Args:
        outlines: whether those of annotations are kept, for masks.

    Raises:
        SourceError: a file cannot be read, is none, names an image or a category that it lacks, or
            has two of one id.
    """
    found = Annotations(" and ".join(name_of(raw, path) for path in paths))
    images: dict[str, Annotated] = {}
    for path in paths:
        place = name_of(raw, path)
        coco = _decoded(raw / path, place)
        known: dict[Id, _Image] = {}
        categories = sorted(
            coco.categories, key=lambda it: (isinstance(_id(it.id), str), _id(it.id))
        )
        found.classes += [(place, _id(it.id), it.name) for it in categories]
        ids = {_id(it.id) for it in categories}
        files: dict[str, _Image] = {}
        for one in coco.images:
            if not one.name:
                raise SourceError(
                    f"{place}: image {printable(str(one.id))} has no file_name, nor a coco_url; "
                    "correct the list"
                )
            for other in (known.setdefault(_id(one.id), one), files.setdefault(one.name, one)):
                if other is not one:
                    raise SourceError(
                        f"{place}: {other} and {one}; expected one id for each file, each once; "
                        "correct the list"
                    )
            names = one.name, basename(one.name.replace("\\", "/"))
            image = images.setdefault(one.name, Annotated(names, str(one)))
            image.outlined_on = round(one.height or 0), round(one.width or 0)
        for each in coco.annotations:
            where = known.get(_id(each.image_id))
            category = None if each.category_id is None else _id(each.category_id)
            if where is None or (category is not None and category not in ids):
                what = f"category {each.category_id}" if where else f"image {each.image_id}"
                raise SourceError(
                    f"{place}: an annotation of {printable(what)}, which is not in the file; "
                    "correct the list"
                )
            image = images[where.name]
            if each.caption is not None and each.caption.strip():
                image.captions.append(each.caption.strip())
            if category is None:
                continue
            found.has_boxes = True
            outlined = len(each.segmentation) > len("[]")
            if outlined and outlines:
                image.outlines.append((category, each.segmentation))
            found.counts[_MASKS] += outlined and not outlines
            if not each.bbox:
                image.others.add(category)
            elif len(each.bbox) != 4:
                raise SourceError(
                    f"{place}: a bbox of {len(each.bbox)} numbers of {where}; expected x, y, width "
                    "and height; correct the list"
                )
            else:
                left, top, width, height = each.bbox
                sides = left, top, left + width, top + height
                size = where.width or 0, where.height or 0
                flags = (False, False, bool(each.iscrowd))
                found.add_box(image, category, sides, size, rotation=each.rotation, flags=flags)
    found.images = list(images.values())
    return found


def _id(found: Id) -> Id:
    """A number, also where it is text, as some exporters write in one list and not in another."""
    return int(found) if isinstance(found, str) and re.fullmatch("[0-9]{1,18}", found) else found


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
