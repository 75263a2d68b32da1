"""What other people's labels are called in the index, and which classes they are.

A label that is text is its class's identifier. One that is a number is called ``7<TAB>``, or
``7<TAB>identifier<TAB>name`` where the files say these, until all are known; then it is told from
which number they count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from dataprep.archives.samples import Value
from dataprep.datasets.base import Classes
from dataprep.datasets.lists import ClassList
from dataprep.errors import SourceError
from dataprep.system.messages import printable, some_of

UNKNOWN: Final = -1
"""What Hugging Face has for a class that nobody knows."""

_MOST_CLASSES: Final = 1_000_000


def label_text(label: Value, identifier: str = "", name: str = "") -> str:
    """What a label is called in the index; empty if it is none.

    Raises:
        SourceError: it can be no class.
    """
    if label is None or label in ("", UNKNOWN):
        return ""
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < _MOST_CLASSES:
        return f"{label}\t{identifier}\t{name}" if identifier else f"{label}\t"
    if isinstance(label, str) and "\t" not in label:
        return label
    raise SourceError(
        f"a label {printable(repr(label))}; expected the name or number of a class; name the field "
        "that has it with --label_field"
    )


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
        names = sorted(found)
        if known is not None and (unknown := [name for name in names if name not in known.indices]):
            raise SourceError(
                f"unknown labels {some_of(unknown)}; expected those of {known.place}; add what is "
                "missing there"
            )
        listed = known.classes if known else tuple((name, name) for name in names)
        return Classes(listed, {name: name for name in names}, "")
    if len(numbered) < len(found):
        texts = [text for text in found if "\t" not in text]
        raise SourceError(
            f"some labels are numbers, others text: {some_of(texts)}; name the field that has them "
            "all with --label_field, or choose shards with --files"
        )
    numbers = {int(number) for number, *_ in numbered}
    named: dict[int, tuple[str, str]] = {}
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
    return Classes(tuple(classes), identifiers, reason)


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
    return [
        (identifier if often[identifier] == 1 else f"{identifier} {number}", name)
        for number, (identifier, name) in enumerate(classes, first)
    ]
