"""Where samples of others have boxes and the classes of these, declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final

from dataprep.errors import SourceError
from dataprep.formats.samples import Value
from dataprep.system.messages import printable
from dataprep_schemas.fields import Box

EMPTY: Final = "boxes without an area, left out"
CUT_OFF: Final = "boxes cut off at the edge of their image"
_LEAST: Final = (2, 5)  # numbers of the header of a record with boxes, and of each box
_MOST: Final = 2  # of a fraction that leads out of its picture
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_LABELS: Final = ("category", "categories", "label", "labels", "class", "classes")


@dataclass(frozen=True, slots=True)
class BoxFields:
    """The fields of one form."""

    form: str  # for the terminal
    label: str  # of the classes, one a box; where there are no sides, of all together
    text: str = ""  # of the classes in words
    sides: tuple[str, ...] = ()  # left, top, right, bottom, as fractions
    size: tuple[str, ...] = ()  # of the picture's width and height, where boxes are in pixels
    part: str = ""  # of what is all together, the one with the classes

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(filter(None, (self.label, self.text, *self.sides, *self.size)))


_EXAMPLES: Final = BoxFields(
    "as TensorFlow's Object Detection API has them",
    "image/object/class/label",
    "image/object/class/text",
    tuple(f"image/object/bbox/{side}" for side in _SIDES),
)
_RECORDS: Final = BoxFields("as MXNet's detection has them", "label")


def boxes_in(samples: Sequence[Mapping[str, Value]], label: str) -> BoxFields | None:
    """What form the samples have, if any.

    Args:
        samples: the fields of the first ones.
        label: the field that is named as the label, or empty.
    """
    there = {name for sample in samples for name in sample}
    if {*_EXAMPLES.sides} <= there and label in ("", _EXAMPLES.label, _EXAMPLES.text):
        found = replace(_EXAMPLES, text=_EXAMPLES.text if _EXAMPLES.text in there else "")
        if label == _EXAMPLES.text or (found.text and found.label not in there):
            found = replace(found, label=found.text, text="")
        return found if found.label in there else None
    if label in ("", _RECORDS.label) and all(map(_is_record, samples)):
        return _RECORDS
    for before in ("", "json."):
        name, size = f"{before}objects", (f"{before}width", f"{before}height")
        cells = [sample.get(name) for sample in samples]
        parts = {key for cell in cells for each in _all(cell) for key in each}
        part = next((key for key in _LABELS if key in parts), "")
        if label in ("", name) and part and "bbox" in parts and {*size} <= there:
            return BoxFields("as Hugging Face has them", name, size=size, part=part)
    return None


def _is_record(sample: Mapping[str, Value]) -> bool:
    try:
        return bool([*_of_record(sample.get(_RECORDS.label))])
    except ValueError:
        return False


def _all(cell: object) -> list[Mapping[str, Any]]:
    return [each for each in (cell if isinstance(cell, list) else [cell]) if isinstance(each, dict)]


def boxes_of(
    form: BoxFields, sample: Mapping[str, Value]
) -> tuple[list[tuple[Value, str, Box]], tuple[int, ...]]:
    """The class, its words and the box of each, perhaps beyond the picture; and the picture's size.

    Raises:
        SourceError: there are not as many of one as of the other, or something is no number.
    """
    value, size = sample.get(form.label), tuple(sample.get(name) for name in form.size)
    try:
        if form.size:
            width, height = map(_whole, size)
            found = [
                (label, "", (x / width, y / height, (x + wide) / width, (y + high) / height))
                for label, (x, y, wide, high) in _of_objects(value, form.part)
            ]
            return found, (width, height)
        if not form.sides:
            return [(label, "", box) for label, box in _of_record(value)], ()
        columns = [_list(sample.get(name)) for name in (form.label, *form.sides)]
        words = _list(sample.get(form.text)) or [""] * len(columns[0])
        rows = zip(*columns, words, strict=True)
        return [(label, str(word), _box(sides)) for label, *sides, word in rows], ()
    except (ValueError, TypeError) as error:
        raise SourceError(
            f"{', '.join(map(printable, form.names))}: no boxes {form.form}: "
            f"{printable(str(error))}; correct them, or leave them out with "
            "--unlabelled or another --label_field"
        ) from error


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"a side of {value!r} pixels")
    return value


def _box(sides: Sequence[object]) -> Box:
    numbers = [float(it) for it in sides if isinstance(it, (int, float))]
    if len(numbers) != 4 or len(sides) != 4 or not all(map(isfinite, numbers)):
        raise ValueError(f"{sides!r}, expected four numbers")
    return numbers[0], numbers[1], numbers[2], numbers[3]


def _of_objects(value: object, part: str) -> Iterator[tuple[Value, Box]]:
    if isinstance(value, dict):  # lists, one of each thing
        both = zip(_list(value.get(part)), _list(value.get("bbox")), strict=True)
    else:
        both = zip(*([each[key] for each in _all(value)] for key in (part, "bbox")), strict=True)
    for label, sides in both:
        yield label, _box(_list(sides))


def _is_least(value: object, least: int) -> bool:
    return isinstance(value, int) and value >= least


def _of_record(value: object) -> Iterator[tuple[Value, Box]]:
    """The boxes of a header ``A B …`` of A numbers, and B for each: class, sides as fractions."""
    values = _list(value)
    if len(values) < sum(_LEAST):
        raise ValueError("fewer numbers than a header and a box have")
    header, each = values[:2]
    if not (_is_least(header, _LEAST[0]) and _is_least(each, _LEAST[1])):
        raise ValueError(f"a header {header} {each}")
    if (len(values) - header) % each:
        raise ValueError(f"{len(values)} numbers behind a header {header} {each}")
    for at in range(header, len(values), each):
        label, box = values[at], _box(values[at + 1 : at + 5])
        if not isinstance(label, int) or max(map(abs, box)) > _MOST:
            raise ValueError(f"class {label}, sides {box}")
        if label >= 0:  # -1 fills up what has fewer
            yield label, box
