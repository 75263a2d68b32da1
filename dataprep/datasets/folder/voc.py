"""Pascal VOC's annotations: a folder of XML files, one an image.

Boxes are ``xmin`` to ``ymax`` in pixels from 1, the last ones included, as its development kit
says.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final
from unicodedata import normalize

from dataprep.archives.listing import basename, stem_of
from dataprep.datasets.folder.annotations import Annotated, Annotations, name_of
from dataprep.datasets.lists import read_lines
from dataprep.datasets.splits import split_of_folder
from dataprep.errors import SourceError
from dataprep.system.filesystems import walk
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import read_regular
from dataprep_schemas.fields import BOX_FLAGS

_UNLISTED: Final = "annotations of images in no list of ImageSets/Main, left out"
_UNTOLD: Final = "images in a list of ImageSets/Main without annotations, left out"
_LONGEST_XML: Final = 4 << 20  # bytes
_LISTS: Final = ("train", "val", "test")
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_YES: Final = ("1", "true", "yes")


def read_voc(raw: Path, path: Path, *, splits: bool) -> Annotations:
    """What a folder of XML files, and the folders in it, say of the images.

    Args:
        splits: whether the lists of ``ImageSets/Main`` beside the folder say which images there
            are of which split, if they are there.

    Raises:
        SourceError: a file cannot be read, or is none of VOC's.
    """
    folder = raw / path
    found = Annotations(f"{name_of(raw, path)}/*.xml", has_boxes=True)
    classes: set[str] = set()
    paths = {
        stem_of(path.relative_to(folder).as_posix()): path
        for path in files_of(folder)
        if path.suffix == ".xml"
    }
    listed = _voc_lists(folder, paths) if splits else {}
    for stem, path in paths.items():
        place = printable(f"{folder.name}/{stem}.xml")
        root = _parsed(path, place)
        name = (root.findtext("filename") or "").strip() or stem
        beside = stem.rpartition("/")[0]
        own = (root.findtext("folder") or "").strip()
        last = basename(name.replace("\\", "/"))
        names = (name, f"{beside}/{name}", f"{own}/{name}", last, f"{beside}/{last}", stem)
        image = Annotated(names, printable(f"{stem}.xml"), split=listed.get(stem, ""))
        if listed and not image.split:
            found.counts[_UNLISTED] += 1
            continue
        try:
            size = float(_text(root, "size/width")), float(_text(root, "size/height"))
            for one in root.iter("object"):
                what = _text(one, "name")
                sides = [float(_text(one, f"bndbox/{side}")) for side in _SIDES]
                sides = [sides[0] - 1, sides[1] - 1, *sides[2:]]
                classes.add(what)
                id_ = normalize("NFC", what)
                flags = tuple(
                    (one.findtext(it.name) or "").strip().lower() in _YES for it in BOX_FLAGS
                )
                found.add_box(image, id_, sides, size, rotation=_rotation(one), flags=flags)
        except ValueError as error:
            raise SourceError(f"{place}: {error}; correct the file") from error
        found.images.append(image)
    found.counts[_UNTOLD] = len(listed.keys() - paths.keys())
    found.classes += [(found.place, normalize("NFC", name), name) for name in sorted(classes)]
    return found


def files_of(folder: Path) -> list[Path]:
    """The XML files, and the lists of images in each split, in the order of their paths."""
    lists = [folder.parent / "ImageSets" / "Main" / f"{name}.txt" for name in _LISTS]
    found = (Path(entry.path) for _, entries in walk(folder) for entry in entries)
    return sorted(
        [*(it for it in found if it.suffix == ".xml"), *(it for it in lists if it.exists())]
    )


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


def _rotation(element: ET.Element) -> float:
    """Degrees, as CVAT has them among an object's attributes; 0 if nothing says."""
    for one in element.iterfind("attributes/attribute"):
        if one.findtext("name") == "rotation":
            return float(_text(one, "value"))
    return 0


def _voc_lists(folder: Path, stems: dict[str, Path]) -> dict[str, str]:
    """The split of each image, by its name without suffix; empty without the lists."""
    found: dict[str, tuple[str, str]] = {}
    for path in files_of(folder):
        for line in read_lines(path).values() if path.suffix == ".txt" else ():
            whole = line.strip().strip('"')  # a name may have spaces; behind it may be a flag
            stem = whole if whole in stems else line.split()[0]
            _, other = found.setdefault(stem, (split_of_folder(path.stem), path.name))
            if other != path.name:
                raise SourceError(
                    f"{printable(stem)} is in {other} and in {path.name} of ImageSets/Main; "
                    "expected each image in one list, as one split has it; remove one"
                )
    return {stem: split for stem, (split, _) in found.items()}
