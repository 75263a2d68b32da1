"""COCO's annotations: JSON files of instances, captions, or both.

Boxes are ``[x, y, width, height]`` in pixels from 0; classes have ids with gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from dataprep.archives.listing import basename
from dataprep.datasets.folder.annotations import Annotated, Annotations, Id, name_of
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular

_MASKS: Final = "segmentation masks, which are not kept"


class _Image(msgspec.Struct, frozen=True):
    id: int | str
    file_name: str
    width: float = 0
    height: float = 0

    def __str__(self) -> str:
        return printable(f"image {self.id} ({self.file_name})")


class _Annotation(msgspec.Struct, frozen=True):
    image_id: int | str
    category_id: int | None = None
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: int = 0
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
    id: int
    name: str


class _Coco(msgspec.Struct, frozen=True):
    images: tuple[_Image, ...]
    annotations: tuple[_Annotation, ...] = ()
    categories: tuple[_Category, ...] = ()


def read_coco(raw: Path, paths: Sequence[Path]) -> Annotations:
    """What COCO's files say of the same images: instances, captions, or both.

    Categories without images keep their places.

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
        categories = sorted(coco.categories, key=lambda it: it.id)
        found.classes += [(place, it.id, it.name) for it in categories]
        ids = {it.id for it in categories}
        files: dict[str, _Image] = {}
        for one in coco.images:
            for other in (known.setdefault(one.id, one), files.setdefault(one.file_name, one)):
                if other is not one:
                    raise SourceError(
                        f"{place}: {other} and {one}; expected one id for each file, each once; "
                        "correct the list"
                    )
            names = one.file_name, basename(one.file_name.replace("\\", "/"))
            images.setdefault(one.file_name, Annotated(names, str(one)))
        for each in coco.annotations:
            where = known.get(each.image_id)
            if where is None or (each.category_id is not None and each.category_id not in ids):
                what = f"category {each.category_id}" if where else f"image {each.image_id}"
                raise SourceError(
                    f"{place}: an annotation of {printable(what)}, which is not in the file; "
                    "correct the list"
                )
            image = images[where.file_name]
            if each.caption is not None and each.caption.strip():
                image.captions.append(each.caption.strip())
            if each.category_id is None:
                continue
            found.has_boxes = True
            found.counts[_MASKS] += len(each.segmentation) > len("[]")
            if each.bbox is None:
                image.others.add(each.category_id)
            else:
                left, top, width, height = each.bbox
                sides, size = (left, top, left + width, top + height), (where.width, where.height)
                flags = (False, False, bool(each.iscrowd))
                found.add_box(
                    image, each.category_id, sides, size, rotation=each.rotation, flags=flags
                )
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
