"""Fields: what is said of an image besides its labels, each of one kind of value.

A kind is one class, which has all that is particular to its values; `KINDS` has them by name.
Tables, formats, jobs and reviews go through the fields of a data set and ask their kinds. A field
that lists, annotations or formats call by its name is declared once, at the end.

What is missing is left out: no field is None, or an empty text or list.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain, compress
from math import nan
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta, Struct

Value: TypeAlias = Any  # a number, a text, or a tuple, as the kind of the field has it
# xmin, ymin, xmax and ymax, as fractions of width and height.
Box: TypeAlias = tuple[float, float, float, float]
# The part of a picture that is left where nothing is cut off.
WHOLE: Final[Box] = (0.0, 0.0, 1.0, 1.0)
# What stands for a whole number that is missing, where a format has to say something.
MISSING: Final = -(2**63)
_LARGEST: Final = 2**63 - 1
_LARGEST_FLOAT: Final = 3.4e38
_UPSIDE_DOWN: Final = (3, 4, 7, 8)  # orientations, of which 5 to 8 swap rows and columns first
_MIRRORED: Final = (2, 3, 6, 7)
_PNG: Final = b"\x89PNG\r\n\x1a\n"
# Masks of 2 x 2 and of 3 x 1 pixels.
_MASKS: Final = (
    (
        "89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000e494441"
        "5478da63606064e0fd0f000123010e11ea69dd0000000049454e44ae426082"
    ),
    (
        "89504e470d0a1a0a0000000d49484452000000030000000108000000003e8b4b680000000c494441"
        "5478da63606060000000040001c8eaebf90000000049454e44ae426082"
    ),
)

KindName: TypeAlias = Literal[
    "int", "float", "text", "texts", "uncertain", "boxes", "box_labels", "flags", "mask"
]
Table: TypeAlias = Literal["index", "order", "records"]


class Kind(ABC):
    """A kind of value; without more, of one number or text an image."""

    name: ClassVar[KindName]

    column: ClassVar[str]
    """The type of its columns in records and Parquet, as `dataprep_schemas.tables` calls it."""

    scanned: ClassVar[str] = ""
    """That in the index and in the order, if it is another."""

    indexed: ClassVar[str] = ""
    """That in the index, if it is another than in the order."""

    plain: ClassVar[bool] = True
    """Whether a value is one number or text, so that a column of a list may be of this kind."""

    pattern: ClassVar[str] = ""
    """A regular expression of the cells of a list that are such values; empty: of none."""

    feature: ClassVar[Literal["int64_list", "float_list", "bytes_list"]] = "bytes_list"
    """What holds the values in a tf.train.Feature."""

    missing: ClassVar[int | float | str] = ""
    """What a format writes that has to say something of an image without a value."""

    none: ClassVar[Any] = None
    """What readers give where there is no value."""

    type: ClassVar[Any]
    """Of a value that is not plain, for `msgspec.convert`."""

    drawn: ClassVar[bool] = False
    """Whether it is of places in the picture, so that what moves these changes it."""

    pictured: ClassVar[bool] = False
    """Whether it is a picture itself, of the size of the image, so that scaling changes it."""

    each: ClassVar[str] = ""
    """The field of whose values it says something, of one after the other; empty: of the image."""

    samples: ClassVar[tuple[Value, ...]]
    """Values of all sorts, which formats must give back."""

    def column_in(self, table: Table) -> str:
        """The type of its column in a table."""
        if table == "index" and self.indexed:
            return self.indexed
        return (table != "records" and self.scanned) or self.column

    @abstractmethod
    def expected(self, value: Value) -> str:
        """What a value must be, in words, if this is something else; empty if it is good."""

    def taken(self, value: object) -> Value | None:
        """The value that a field of a foreign sample says; None if it says none of this kind."""
        return None if self.expected(value) else value

    def of_cell(self, cell: Any) -> Value:
        """The value that a cell of a table says."""
        return tuple(map(self.of_cell, cell)) if isinstance(cell, list) else cell

    def recorded(self, value: Value) -> Value:
        """What the table of records says of a value."""
        return value

    def same(self, value: Value, cell: Any) -> bool:
        """Whether a value is what a cell of the table of records says."""
        return bool(value == self.of_cell(cell))

    def shown(self, name: str, value: Value) -> str:
        """A value in a line on the image."""
        return f"{name} {value}"

    def kept(self, value: Value, left: Sequence[bool]) -> Value | None:
        """What is said of those of the values of `each` that are left; None if nothing is."""
        return tuple(compress(value, left))


class Int(Kind):
    """A whole number of 64 bits."""

    name = "int"
    column = "int64"
    # 007 is an ID, and not that of 7; a table program writes 7.0 where a column has gaps.
    pattern = r"(0|-?[1-9][0-9]{0,17})(\.0)?"
    feature = "int64_list"
    missing = MISSING
    samples = (1, 0, -1, _LARGEST, MISSING + 1)

    def expected(self, value: Value) -> str:
        """`MISSING` is no number."""
        good = type(value) is int and MISSING < value <= _LARGEST
        return "" if good else f"a number from {MISSING + 1} to {_LARGEST}"

    def taken(self, value: object) -> int | None:
        """Yes and no are 1 and 0."""
        return int(value) if isinstance(value, int) else None


class Float(Kind):
    """A number of 64 bits, and of 32 in a tf.train.Example: none is larger than these."""

    name = "float"
    column = "double"
    pattern = r"-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,25})?([eE][-+]?[0-9]{1,2})?"
    feature = "float_list"
    missing = nan
    samples = (0.5, -1.25, 0.0, 3.0, 2.0**-20, -(2.0**100))

    def expected(self, value: Value) -> str:
        """NaN is no number."""
        good = type(value) is float and abs(value) <= _LARGEST_FLOAT
        return "" if good else f"a number from -{_LARGEST_FLOAT} to {_LARGEST_FLOAT}"

    def taken(self, value: object) -> float | None:
        """Whole numbers are numbers."""
        good = type(value) in (int, float) and not self.expected(float(value))  # type: ignore[arg-type]
        return float(value) if good else None  # type: ignore[arg-type]

    def same(self, value: Value, cell: Any) -> bool:
        """In 32 bits."""
        one, other = (array("f", [] if it is None else [it]) for it in (value, cell))
        return one == other


class Text(Kind):
    """A text, of Unicode or of the bytes of a name that is none."""

    name: ClassVar[KindName] = "text"
    column = "string"
    samples: ClassVar[tuple[Value, ...]] = (
        *("PA", "0", "Röntgen, 左", "not utf-8: \udce9", ' "quoted"\n', "None", "x" * 300),
    )

    def expected(self, value: Value) -> str:
        """Not empty."""
        return "" if isinstance(value, str) and value and _is_storable(value) else "a text"


class Texts(Kind):
    """Several texts."""

    name = "texts"
    column = "list<string>"
    plain = False
    type = tuple[str, ...]
    none = ()
    samples = (Text.samples[:1], Text.samples[2:5], Text.samples[6:])

    def expected(self, value: Value) -> str:
        """None of them empty."""
        good = all(isinstance(text, str) and text and _is_storable(text) for text in value)
        return "" if good else "texts in Unicode, none of them empty"

    def shown(self, name: str, value: Value) -> str:
        """The first."""
        return f'"{value[0]}"' if name else ""


class Uncertain(Text):
    """The classes of which it is uncertain whether an image has them, joined with ``|``."""

    name: ClassVar[KindName] = "uncertain"


class Boxes(Kind):
    """Boxes, as fractions of width and height of the pixels as they are stored."""

    name = "boxes"
    column = "list<list<float>>"
    scanned = "list<list<double>>"
    plain = False
    drawn = True
    type = tuple[Box, ...]
    none = ()
    samples = (((0.125, 0.25, 0.5, 0.75),), ((0.125, 0.25, 0.5, 0.75), WHOLE))

    def expected(self, value: Value) -> str:
        """Wherever they lie."""
        return "" if all(len(box) == len(WHOLE) for box in value) else "boxes of four sides"

    def same(self, value: Value, cell: Any) -> bool:
        """Records have them in 32 bits, like most formats."""
        one, other = (array("f", chain.from_iterable(boxes or ())) for boxes in (value, cell))
        return one == other

    def shown(self, name: str, value: Value) -> str:
        """How many."""
        return f"{len(value)} {name if len(value) > 1 else name.removesuffix('es')}"

    def moved(
        self, boxes: Iterable[Box], turn: int, part: Box = WHOLE
    ) -> tuple[tuple[Box, ...], tuple[bool, ...]]:
        """The boxes on what turning by an orientation and cutting leave, and which are left.

        Those left are cut off at the edges.
        """
        turned = tuple(_turned(boxes, turn))
        if part == WHOLE:
            return turned, (True,) * len(turned)
        left, top, right, bottom = part
        starts, lengths = (left, top) * 2, (right - left, bottom - top) * 2
        found = [
            tuple(
                min(max((side - start) / length, 0.0), 1.0)
                for side, start, length in zip(box, starts, lengths, strict=True)
            )
            for box in turned
        ]
        there = tuple(box[0] < box[2] and box[1] < box[3] for box in found)
        return tuple(compress(found, there)), there  # type: ignore[arg-type]  # of four


class BoxLabels(Kind):
    """What each box shows, as 0-based class index; none where all show the only label."""

    name = "box_labels"
    column = "list<int64>"
    indexed = "list<string>"
    plain = False
    drawn = True
    type = tuple[int, ...]
    none = ()
    each = "boxes"
    samples = ((13,), (13, 4))

    def expected(self, value: Value) -> str:
        """Whether there are such classes, the data set knows."""
        return "" if all(isinstance(label, int) for label in value) else "class indices"

    def shown(self, name: str, value: Value) -> str:
        """Not at all: the boxes are counted."""
        return "" if value else name


class Flags(Text):
    """1 or 0 of each box, one after the other, as a text; none where all are 0."""

    name: ClassVar[KindName] = "flags"
    drawn = True
    each = "boxes"
    samples = ("1", "01")

    def expected(self, value: Value) -> str:
        """Of zeros and ones."""
        return "" if isinstance(value, str) and value and {*value} <= {*"01"} else "zeros and ones"

    def kept(self, value: Value, left: Sequence[bool]) -> str | None:
        """None where all are 0."""
        found = "".join(compress(value, left))
        return found if "1" in found else None


class Mask(Kind):
    """A number for each pixel of the image as it is stored, 255 for none: a grey PNG of 8 bits.

    Grey, since by TensorFlow and torchvision the pixels of one with a palette are its colours.
    The table of records has how many pixels have each number: (number, pixels), ascending. A scan
    says where the mask is, or what draws it; `dataprep.datasets.masks` reads that.
    """

    name = "mask"
    column = "list<list<int64>>"
    scanned = "string"
    plain = False
    drawn = True
    pictured = True
    type = bytes
    none = b""
    samples = tuple(map(bytes.fromhex, _MASKS))

    def expected(self, value: Value) -> str:
        """Whether it can be decoded, whoever counts its pixels sees."""
        return "" if isinstance(value, bytes) and value.startswith(_PNG) else "a PNG"

    def of_cell(self, cell: Any) -> Value:
        """What draws a mask is a text."""
        return cell if isinstance(cell, str) else super().of_cell(cell)

    def recorded(self, value: Value) -> Value:
        """What was counted before stays as it is."""
        return _pixels_by_value(value) if isinstance(value, bytes) else value

    def same(self, value: Value, cell: Any) -> bool:
        """No value has as many pixels as what cannot be decoded."""
        try:
            return bool((None if value is None else self.recorded(value)) == self.of_cell(cell))
        except ValueError:
            return False

    def shown(self, name: str, value: Value) -> str:
        """That there is one."""
        return name if value else ""


# Of plain ones that a list may have, the first that fits is taken.
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Int(),
        Float(),
        Text(),
        Texts(),
        Uncertain(),
        Boxes(),
        BoxLabels(),
        Flags(),
        Mask(),
    )
}
# What any format that holds a number or a text by its name can hold.
PLAIN: Final[Sequence[KindName]] = [kind.name for kind in KINDS.values() if kind.plain]
# What a format can hold that holds lists as well.
EVERY: Final[Sequence[KindName]] = [kind.name for kind in KINDS.values()]
NAME: Final = re.compile("[A-Za-z0-9_]{1,255}")  # of a field
FieldName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+$(?!\n)", max_length=255)]


class Field(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that is said of images besides their labels; an image may lack it.

    Attributes:
        name: what it is called: ``patient_id``.
        kind: of its values.
        numbers: what those of a mask mean, as far as that is known.
    """

    name: FieldName
    kind: KindName
    numbers: tuple[tuple[int, str], ...] = ()

    @property
    def rules(self) -> Any:
        """What is particular to its kind of values: one of `KINDS`."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        """As messages have it."""
        return f"{self.name} ({self.kind})"


Fields: TypeAlias = tuple[Field, ...]  # of a data set, in the order of their columns
BOXES: Final = Field("boxes", "boxes")
BOX_LABELS: Final = Field("box_labels", "box_labels")
CAPTIONS: Final = Field("captions", "texts")
UNCERTAIN: Final = Field("uncertain_labels", "uncertain")
FOLD: Final = Field("fold", "int")
MASK: Final = Field("mask", "mask")
BOX_FLAGS: Final = tuple(Field(name, "flags") for name in ("difficult", "truncated", "crowds"))

MEANINGS: Final[Mapping[Field, str]] = {
    BOXES: "bounding boxes: xmin, ymin, xmax, ymax, in fractions of width and height",
    BOX_LABELS: "class of each box; null where all show the only label",
    CAPTIONS: "texts that describe the image",
    UNCERTAIN: "classes of which it is uncertain whether the image has them, joined with |",
    FOLD: "number of the part of the split that it is in, for cross-validation",
    MASK: "pixels of each number in its mask, as (number, pixels); 255 is none",
    BOX_FLAGS[0]: "1 or 0 of each box: whether it is difficult",
    BOX_FLAGS[1]: "1 or 0 of each box: whether the object goes on beyond it",
    BOX_FLAGS[2]: "1 or 0 of each box: whether it is round a crowd, COCO's `iscrowd`",
}
# By name, the fields that lists, annotations and formats know.
DECLARED: Final[Mapping[str, Field]] = {field.name: field for field in MEANINGS}


def declared_or(name: str, kind: KindName) -> Field:
    """The field of this name that is declared, if it has such columns; else one of the kind."""
    declared = DECLARED.get(name)
    same = declared is not None and declared.rules.column == KINDS[kind].column
    return declared if declared is not None and same else Field(name, kind)


def named(fields: Iterable[Field], kind: KindName) -> list[str]:
    """The names of the fields of a kind."""
    return [field.name for field in fields if field.kind == kind]


def shown(values: Mapping[str, Value]) -> Iterator[str]:
    """Each of an image in a few words, for a line on it."""
    for name, value in values.items():
        rules = DECLARED[name].rules if name in DECLARED else KINDS["text"]
        if text := rules.shown(name, value):
            yield text


def moved(
    values: Mapping[str, Value], fields: Iterable[Field], turn: int, part: Box = WHOLE
) -> Mapping[str, Value]:
    """What is said of a picture, as it is of what turning it, then cutting, leave of it.

    Args:
        values: by the names of the fields.
        turn: the orientation.
        part: what is left of the turned picture.
    """
    if turn == 1 and part == WHOLE:
        return values
    fields = [
        field
        for field in fields
        if field.rules.drawn and not field.rules.pictured and field.name in values
    ]
    found, left = dict(values), dict[str, Sequence[bool]]()
    for field in fields:
        if not field.rules.each:
            found[field.name], left[field.name] = field.rules.moved(values[field.name], turn, part)
    for field in fields:
        there = left.get(field.rules.each, ())
        if len(there) == len(values[field.name]) and there:
            found[field.name] = field.rules.kept(values[field.name], there)
    return present(found)


def present(values: Mapping[str, Value]) -> dict[str, Value]:
    """Those that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", (), b"")}


def recorded(values: Mapping[str, Value], fields: Iterable[Field]) -> Mapping[str, Value]:
    """What the table of records says of the values of an image."""
    pictured = [it for it in fields if it.rules.pictured and it.name in values]
    if not pictured:
        return values
    return {**values, **{it.name: it.rules.recorded(values[it.name]) for it in pictured}}


def _pixels_by_value(png: bytes) -> tuple[tuple[int, int], ...]:
    from PIL.PngImagePlugin import PngImageFile  # late: most data sets have no masks

    try:
        with PngImageFile(BytesIO(png)) as picture:
            mode, counts = picture.mode, picture.histogram()
    except Exception as error:  # whatever Pillow raises tells of the mask
        raise ValueError(f"a mask that cannot be decoded: {error}") from error
    if mode != "L":
        raise ValueError(f"a mask of mode {mode}, expected grey of 8 bits")
    return tuple((number, pixels) for number, pixels in enumerate(counts) if pixels)


def _turned(boxes: Iterable[Box], orientation: int) -> Iterator[Box]:
    for left, top, right, bottom in boxes:
        if orientation >= 5:
            left, top, right, bottom = top, left, bottom, right
        if orientation in _UPSIDE_DOWN:
            top, bottom = 1 - bottom, 1 - top
        if orientation in _MIRRORED:
            left, right = 1 - right, 1 - left
        yield left, top, right, bottom


def _is_storable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
