"""Which fields of other people's samples are image, label, key and attributes; and the classes.

A label that is text is its class's identifier. One that is a number is called ``7<TAB>``, or
``7<TAB>identifier<TAB>name`` where the files say these, until all are known; then it is told from
which number they count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dataprep.datasets.base import Classes, refuse_reserved
from dataprep.datasets.lists import ClassList, classes_by_name, one_form
from dataprep.datasets.shards.boxes import BoxFields, boxes_in
from dataprep.datasets.shards.layout import ShardsOptions
from dataprep.errors import SourceError
from dataprep.formats.recordio import LISTED
from dataprep.formats.samples import Sample, Value, is_nested
from dataprep.system.messages import printable, some_of
from dataprep_schemas.fields import (
    BOX_LABELS,
    BOXES,
    CAPTIONS,
    KINDS,
    PLAIN,
    Field,
    Fields,
    declared_or,
)

NUMBER: Final = "number"  # the value of ``--key_field`` that asks for the sample's number
PEEKED: Final = 8  # samples that are looked at to find the fields
_MOST_CLASSES: Final = 1_000_000
_LIST: Final = re.compile(r"\s*\[\s*(?:[-+0-9\"'].*)?\]\s*", re.DOTALL)
_BOXES: Final = re.compile(r"(?:^|[./_])(?:b?box(?:es)?|objects?)(?:[./_]|$)", re.IGNORECASE)
_BOXES_FROM: Final = "boxes come from COCO's JSON and image files: `dataprep folder --listing`"
_LABELS: Final = ("cls", "label", "labels", "class", "category", "target", "y")
_LABEL_OF_EXAMPLES: Final = "image/class/label"
_KEYS: Final = ("image/key", "key", "json.key", "image/filename", "filename", "json.filename")
# What says in words which class a label's number is.
_IDENTIFIERS: Final = ("image/class/synset", "json.synset", "synset")
_NAMES: Final = ("image/class/text", "json.class_name", "class_name")


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken of a sample."""

    image: str  # name of the field; empty: the only image, whatever it is called
    label: str  # empty: nothing
    several: bool  # whether a label is a list
    flags: int  # how many zeros and ones it is, one a class; 0: it is of labels
    identifier: str  # of the class that a number is; empty: nothing says that
    name: str  # of that class in words; likewise
    key: str  # empty: what the container calls the sample; `NUMBER`: its number in its file
    caption: str  # empty: nothing
    fields: tuple[tuple[str, Field], ...]  # by the names of the samples', those of the data set
    boxes: BoxFields | None = None  # where boxes and their classes are; then these are the labels
    left_out: tuple[str, ...] = ()  # what looks like boxes or is nested, and is not taken

    @property
    def names(self) -> tuple[str, ...]:
        """All fields but the image."""
        named = (self.label, self.identifier, self.name, self.key, self.caption)
        others = [*(self.boxes.names if self.boxes else ()), *(name for name, _ in self.fields)]
        return tuple(dict.fromkeys(name for name in (*named, *others) if name not in ("", NUMBER)))

    @property
    def declared(self) -> Fields:
        """Those of the data set."""
        boxes = (BOXES, BOX_LABELS) if self.boxes else ()
        kept = tuple(field for _, field in self.fields)
        return (*boxes, *(CAPTIONS,) * bool(self.caption), *kept)

    def describe(self) -> str:
        """The fields, for the terminal."""
        said = {"label": self.label, "key": self.key, "image": self.image}
        said["captions"] = self.caption
        taken = [f"{what} from {printable(name)}" for what, name in said.items() if name]
        if self.boxes:
            taken.append(f"boxes {self.boxes.form} from {', '.join(self.boxes.names)}")
        if self.fields:
            taken.append(f"attributes {some_of([name for name, _ in self.fields])}")
        left = [f"left out: {some_of(self.left_out)} ({_BOXES_FROM})"] if self.left_out else []
        return "; ".join(["", *filter(None, [", ".join(taken)]), *left])


def choose_fields(
    options: ShardsOptions,
    samples: Sequence[Sample],
    classes: Mapping[str, Sequence[str]],
    place: str,
) -> Taken:
    """What the options name, else what there is only one candidate for.

    Args:
        options: the data set's.
        samples: the first that have images; all but the kind of the label is of the first few.
        classes: names of the classes that a field's numbers are, where the file has them.
        place: their file, for messages.

    Raises:
        SourceError: a field is not there, or several could be meant.
    """
    peeked = samples[:PEEKED]
    names = {name: None for sample in peeked for name in (*sample.fields, *sample.unread)}
    pairs = [pair for sample in peeked for pair in sample.fields.items()]
    fields = names | {name: value for name, value in pairs if value not in (None, [])}
    image = _image_field(options, peeked, place)
    label = _named_field(options, "label_field", fields, place)
    boxes = None if options.unlabelled else boxes_in([it.fields for it in samples], label)
    if boxes and not label and _labels_in({*fields} - {*boxes.names}, classes):
        boxes = None  # of an image that has a class: its name must be given
    if boxes:
        label = ""
    elif not label and not options.unlabelled:
        label = _guess_label(fields, classes, place)
    identifier = name = ""
    if label not in classes and any(_is_number(one.fields.get(label)) for one in peeked):
        identifier, name = (
            next((name for name in known if name in fields), "") for known in (_IDENTIFIERS, _NAMES)
        )
    values = [sample.fields.get(label) for sample in samples]
    kept = _kept(options.attribute_fields, peeked, fields, label, place)
    caption = _named_field(options, "caption_field", fields, place)
    taken = {label, caption, *(name for name, _ in kept), *(boxes.names if boxes else ())}
    return Taken(
        image=image,
        label=label,
        several=_are_lists(values),
        flags=_flags(values, label),
        identifier=identifier or name,
        name=name or identifier,
        key=_key_field(options, peeked, fields, image, place),
        caption=caption,
        fields=kept,
        boxes=boxes,
        left_out=tuple(
            name
            for name, value in fields.items()
            if name not in taken and _looks_like_boxes(name, value)
        ),
    )


def _named_field(
    options: ShardsOptions, option: str, known: Mapping[str, object], place: str
) -> str:
    """The field that an option names, which must be there; empty if it names none."""
    name: str = getattr(options, option)
    if name and name not in known:
        raise SourceError(
            f"{place} has no field {printable(name)}; it has {some_of([*known]) or 'none'}; "
            f"name one of them with --{option}"
        )
    return name


def _image_field(options: ShardsOptions, samples: Sequence[Sample], place: str) -> str:
    images = {name: None for sample in samples for name in sample.images}
    image = _named_field(options, "image_field", images, place)
    if not image and any(len(sample.images) > 1 for sample in samples):
        raise SourceError(
            f"{place}: samples of several images, {some_of(images)}; name the one that is to be "
            "stored with --image_field"
        )
    return image


def _key_field(
    options: ShardsOptions,
    samples: Sequence[Sample],
    fields: Mapping[str, Value],
    image: str,
    place: str,
) -> str:
    """The one that is named, else the first of the usual ones that tells samples apart."""
    if options.key_field == NUMBER:
        return NUMBER
    if key := _named_field(options, "key_field", fields, place):
        return key
    image = image or next((name for sample in samples for name in sample.images), "")
    keys = (*_KEYS, f"{image}.path")
    return next((name for name in keys if _tells_apart(samples, name)), "")


def _looks_like_boxes(name: str, value: Value) -> bool:
    named = isinstance(value, (list, float)) and _BOXES.search(name)
    return is_nested(value) or bool(named)


def _labels_in(fields: Collection[str], classes: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        name
        for name in fields
        if name in classes or name == _LABEL_OF_EXAMPLES or name.rpartition(".")[2] in _LABELS
    ]


def _guess_label(
    fields: Mapping[str, Value], classes: Mapping[str, Sequence[str]], place: str
) -> str:
    found = _labels_in(fields, classes)
    if len(found) != 1:
        there = some_of(fields) or "its fields"
        could = f"{some_of(found)} could be" if found else f"none of {there} looks like"
        boxes = any(_looks_like_boxes(*field) for field in fields.items())
        raise SourceError(
            f"{place}: {could} the label; name it with --label_field, or take the images without "
            f"classes with --unlabelled{f'; {_BOXES_FROM}' if boxes else ''}"
        )
    return found[0]


def _tells_apart(samples: Sequence[Sample], name: str) -> bool:
    """Whether a field is text, and another one in each sample."""
    values = [sample.fields.get(name) for sample in samples]
    texts = {value for value in values if isinstance(value, str) and value}
    return len(texts) == len(values) > 0


def _is_number(value: Value) -> bool:
    values = value if isinstance(value, list) else [value]
    return any(isinstance(each, (int, float)) for each in values)


def _are_lists(values: Sequence[Value]) -> bool:
    """Whether labels are lists; an empty one among others may stand for none."""
    lists = [value for value in values if isinstance(value, list)]
    return any(lists) or 0 < len(lists) == len(values) - values.count(None)


def _flags(values: Sequence[Value], label: str) -> int:
    """How many zeros and ones each list is; 0: they are lists of labels, none of which is twice.

    Where some are no lists, tf.Example and RecordIO have lists of one value there.
    """
    lists = [
        each if isinstance(each, list) else [each] for each in values if each not in (None, [])
    ]
    counts = {len(each) for each in lists}
    if len(counts) != 1 or not all(flag in (-1, 0, 1) for one in lists for flag in one):
        return 0
    count = counts.pop()
    # A vector of two may be two labels; tf.Example and RecordIO have flags there.
    repeated = any(len({*each}) < count for each in lists)
    named = label in (_LABEL_OF_EXAMPLES, "label") or isinstance(lists[0][0], bool)
    return count if count > 1 and (repeated or named) else 0


def _kept(
    asked: Sequence[str],
    samples: Sequence[Sample],
    fields: Mapping[str, Value],
    label: str,
    place: str,
) -> tuple[tuple[str, Field], ...]:
    """The fields that are kept: of the first kind that those of the first samples are, or text."""
    names = [*asked]
    if names == ["all"] and "all" not in fields:
        plain = [
            name
            for name, value in fields.items()
            if value == "" or any(KINDS[kind].taken(value) is not None for kind in PLAIN)
        ]
        names = [name for name in plain if name not in (label, LISTED)]
    found: dict[str, Field] = {}
    for name in names:
        if name not in fields:
            raise SourceError(
                f"{place} has no field {printable(name)}; it has {some_of(fields)}; name one of "
                "them with --attribute_fields"
            )
        own = re.sub(r"\W+", "_", name.removeprefix("json."), flags=re.ASCII).strip("_")
        said = (sample.fields.get(name) for sample in samples)
        values = [it for it in said if it not in (None, "") and it == it]  # nor NaN
        kinds = (kind for kind in KINDS.values() if kind.plain)
        fits = (it for it in kinds if all(it.taken(value) is not None for value in values))
        found[name] = declared_or(own, next(fits, KINDS["text"]).name)
    kept = [*found.values()]
    if "" in (named := [each.name.lower() for each in kept]) or len({*named}) < len(named):
        raise SourceError(
            f"{place}: fields {some_of(found)} cannot be attributes, since letters and digits "
            "alone do not tell them apart; name fewer with --attribute_fields"
        )
    refuse_reserved(kept, f"{place}: --attribute_fields")
    return tuple(found.items())


def label_text(label: Value, identifier: str = "", name: str = "") -> str:
    """What a label is called in the index; empty if it is none.

    Raises:
        SourceError: it can be no class.
    """
    if label is None or is_no_class(label):
        return ""
    if isinstance(label, bool):
        return str(label).lower()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if isinstance(label, int) and 0 <= label < _MOST_CLASSES:
        words = "\t".join(" ".join(word.split("\t")) for word in (identifier, name))
        return f"{label}\t{words}" if identifier else f"{label}\t"
    if isinstance(label, str) and "\t" not in label and not _LIST.fullmatch(label):
        return label.strip("\r\n")
    advice = "name the field that has it with --label_field"
    if isinstance(label, (float, list, dict)):  # as in the only field of a detection set's RecordIO
        advice = f"take the images alone with --unlabelled; {_BOXES_FROM}"
    raise SourceError(
        f"a label {printable(repr(label))[:200]}; expected the name or number of a class; {advice}"
    )


def is_no_class(label: Value) -> bool:
    """Whether a label is -1 or no number, as libraries have it where nobody knows the class."""
    return isinstance(label, (int, float)) and (label == -1 or label != label)


def name_classes(found: Collection[str], known: ClassList | None, base: str) -> Classes:
    """The classes of labels called as `label_text` calls them.

    Args:
        found: all labels there are.
        known: the classes that a list has; None: nobody gave one.
        base: the number of the first class; ``auto``: what the numbers themselves tell.

    Raises:
        SourceError: numbers and text are mixed, a number has two names, or nothing tells whether
            numbers count from 0 or from 1.
    """
    numbered = [text.split("\t") for text in found if "\t" in text]
    if not numbered:
        return _named(found, known)
    if len(numbered) < len(found):
        texts = [text for text in found if "\t" not in text]
        raise SourceError(
            f"some labels are numbers, others text: {some_of(texts)}; name the field that has them "
            "all with --label_field, or choose shards with --files"
        )
    numbers = {int(number) for number, *_ in numbered}
    named: dict[int, tuple[str, str]] = {}
    forms = one_form(word for _, *words in numbered for word in words)
    numbered = [[number, *map(forms.__getitem__, words)] for number, *words in numbered]
    for number, *words in numbered:
        if words[0] and named.setdefault(int(number), (words[0], words[1])) != (*words,):
            raise SourceError(
                f"label {number} is both {printable(named[int(number)][0])} and "
                f"{printable(words[0])}; expected one class a number"
            )
    first, reason = _first_number(numbers, None if known is None else len(known.classes), base)
    count = len(known.classes) if known else max(numbers) - first + 1
    if not first <= min(numbers) <= max(numbers) < first + count:
        raise SourceError(
            f"labels {min(numbers)} to {max(numbers)} do not fit {count} classes that count from "
            f"{first}; check --classes and --label_base"
        )
    classes = list(known.classes) if known else _identified(named, first, count)
    identifiers = {text: classes[int(text.partition("\t")[0]) - first][0] for text in found}
    renamed = [name for name, _ in classes if not known and name not in forms.values()]
    if named and (apart := [name for name in renamed if not name.isdecimal()]):
        reason += f"; classes of one name are told apart by their numbers: {some_of(apart)}"
    if named and (nameless := sorted(numbers - named.keys())):
        reason += f"; numbers without a name: {some_of([*map(str, nameless)])}"
    if count > len(numbers):
        reason += f"; {count - len(numbers):,} of {count:,} never occur, and keep their numbers"
    return Classes(tuple(classes), identifiers, reason)


def _named(found: Collection[str], known: ClassList | None) -> Classes:
    """Classes of labels that are text; one that is written in two forms of Unicode is one."""
    if known is None:
        return classes_by_name(found)
    identifiers = {name: known.named(name) or "" for name in found}
    if unknown := sorted(name for name, identifier in identifiers.items() if not identifier):
        raise SourceError(
            f"unknown labels {some_of(unknown)}; expected those of {known.place}; add what is "
            "missing there"
        )
    return Classes(known.classes, identifiers)


def _first_number(numbers: set[int], count: int | None, base: str) -> tuple[int, str]:
    """Where the numbers count from, and how that is known."""
    said = f"labels are numbers from {min(numbers)} to {max(numbers):,}"
    if base != "auto":
        return int(base), f"{said}; the first class is {base} (--label_base)"
    if 0 in numbers:
        return 0, f"{said}: 0 occurs, so it is the first class"
    last = max(numbers) if count is None else count
    if max(numbers) == count or (count is None and len(numbers) == last):
        return 1, f"{said}: 0 never occurs, and {last:,} does, so 1 is the first class"
    raise SourceError(
        f"{said}, and not all occur, so nothing tells whether 0 or 1 is the first class; say it "
        "with --label_base"
    )


def _identified(
    named: dict[int, tuple[str, str]], first: int, count: int
) -> Sequence[tuple[str, str]]:
    """Identifier and name by number; of two classes of one name the numbers are added."""
    classes = [named.get(number, (str(number),) * 2) for number in range(first, first + count)]
    often = Counter(identifier for identifier, _ in classes)
    found = []
    for number, (identifier, name) in enumerate(classes, first):
        told = identifier
        while often[told] > (told == identifier):
            told = f"{told} {number}"
        found.append((told, name))
    return found
