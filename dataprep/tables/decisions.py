"""The decisions file: what people decided about images and classes, a line each.

A CSV (UTF-8), or Parquet with the same columns, that a person can read, compare and merge::

    key,split,decision,value,who,note
    cat/3.jpg,train,leave_out,,mm,blurred
    cat/4.jpg,train,label,dog,mm,
    class:catt,,label,cat,mm,a slip
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from dataprep.errors import UsageError
from dataprep.system.durable_files import write_beside
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.regular_files import open_parquet, read_regular

COLUMNS: Final = ("key", "split", "decision", "value", "who", "note")
Kind: TypeAlias = Literal["leave_out", "label", "split", "sure", "note"]
_cells_of: Final = attrgetter(*COLUMNS)  # of a decision
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

# Of an image in the table of records of a data set that decisions were applied to.
DECIDED_REASON: Final = " (--decisions)"  # is the end of it
LEFT_OUT_REASON: Final = f"left out{DECIDED_REASON}"

_CLASS: Final = "class:"
_PARQUET: Final = b"PAR1"  # a file of it begins so
_SHOWN: Final = 3  # conflicts in a message


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided about an image, or about a class.

    Raises ValueError, which says what was found and what was expected, if it says nothing.

    Attributes:
        key: of the image; ``class:`` and its identifier, of a class.
        split: of the image; empty: its key is in one split only.
        decision: ``sure``: somebody looked, and it is right as it is; ``note``: only that.
        value: of ``label``, the class that is right, ``a|b`` of several, empty of none; of a
            class: the one that its images get instead. Of ``split``, the one that is right.
        who: decided it.
    """

    key: str
    split: str
    decision: Kind
    value: str = ""
    who: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse what says nothing, or cannot be written."""
        # Only what comes from outside can be wrong, whatever the types say.
        if self.decision not in KINDS:
            raise ValueError(f"{_said(self.decision)}, expected one of {', '.join(KINDS)}")
        if not self.key:
            raise ValueError("an empty key, expected that of an image, or class:NAME")
        if self.value and self.decision not in ("label", "split"):
            raise ValueError(f"the value {_said(self.value)} of {self.decision}, expected none")
        if self.decision == "split" and not self.value:
            raise ValueError("no value, expected the split in which the image belongs")
        if self.of_class is not None and self.decision not in ("label", "note"):
            raise ValueError(f"{self.decision} of a class, expected label or note")
        for cell in _cells_of(self):
            if "\0" in cell or not _encodes(cell):
                raise ValueError(f"{_said(cell)}, expected text")

    @property
    def of_class(self) -> str | None:
        """The class that it is about; None: it is about an image.

        An image whose key begins with ``class:`` needs its split.
        """
        found = self.key.removeprefix(_CLASS)
        return None if self.split or found == self.key else found

    @property
    def labels(self) -> frozenset[str]:
        """Identifiers of the classes in `value`."""
        return frozenset(map(str.strip, self.value.split("|"))) - {""}


Conflict: TypeAlias = tuple[Decision, ...]
"""Decisions about one image or class of which only one can be right."""


def read_decisions(paths: Iterable[Path]) -> tuple[Decision, ...]:
    """The decisions in some files, one file after the other.

    In a file, what one person decides last about something counts; two files stand side by side.

    Raises:
        UsageError: a file cannot be read, or a line is odd.
    """
    found: dict[Decision, None] = {}
    for path in paths:
        lines: dict[tuple[str, ...], Decision] = {}
        for at, cells in _cells(path):
            try:
                one = Decision(*cells)  # type: ignore[arg-type]  # which it looks at
            except ValueError as error:
                raise UsageError(f"{path}, {at}: found {error}; correct that line") from None
            name = one.key, one.split, one.decision, one.who
            lines.pop(name, None)  # what is decided again comes last
            lines[name] = one
        found |= dict.fromkeys(lines.values())
    return tuple(found)


def write_decisions(path: Path, decisions: Iterable[Decision]) -> None:
    """Write them as CSV, in this order: whole or not at all, even after a power cut.

    Raises:
        UsageError: the file cannot be written.
    """
    lines = [",".join(map(_quoted, cells)) for cells in (COLUMNS, *map(_cells_of, decisions))]
    write_beside(path, "\n".join([*lines, ""]).encode(), "choose another file for the decisions")


def moved_reason(split: str) -> str:
    """The same of one that is in another split now, as SQL over the name of that."""
    return f"'moved to ' || {split} || '{DECIDED_REASON}'"


DECIDED: Final = (
    f"(status::varchar = 'excluded' and ends_with(reason::varchar, '{DECIDED_REASON}'))"
)
"""Of a row of such a table, as SQL: what decisions left out, or moved to another split."""


def raw_rows(table: str) -> str:
    """Such a table as SQL, without images where they were moved to: they are where they were."""
    return (
        f"(from {table} as here where not exists (from {table} as there where {DECIDED} and "
        f"there.key = here.key and there.reason = {moved_reason('here.split')}))"
    )


def renamed_classes(
    classes: Sequence[tuple[str, str]], renamed: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """The classes once some are called otherwise; each keeps its place, and is there once.

    Raises:
        UsageError: a class is renamed that there is not.
    """
    known = dict(classes)
    if unknown := renamed.keys() - known.keys():
        raise UsageError(
            f"--decisions: class:{printable(min(unknown))}: there is no such class; expected one "
            f"of {some_of(known)}"
        )
    staying = known.keys() - renamed.keys()
    found: dict[str, str] = {}
    for old, name in classes:
        new = renamed.get(old, old)
        if new == old or (new and new not in staying):
            found.setdefault(new, name if new == old else known.get(new, new))
    return tuple(found.items())


def conflicts(decisions: Iterable[Decision]) -> tuple[Conflict, ...]:
    """Where people or files say different things: another label, another split, sure or not."""
    by_key: defaultdict[str, list[Decision]] = defaultdict(list)
    for one in decisions:
        if one.decision != "note":
            by_key[one.key].append(one)
    found: list[Conflict] = []
    for lines in by_key.values():
        rest = lines if len(lines) > 1 else []
        while rest:
            first, *rest = rest
            against = [one for one in rest if _clash(first, one)]
            if against:
                found.append((first, *against))
                rest = [one for one in rest if one not in against]
    return tuple(found)


def describe_conflict(conflict: Conflict) -> str:
    """Who said what, in a line: ``train/a.jpg: label cat (mm), label dog (jd)``."""
    key, splits = conflict[0].key, {one.split for one in conflict} - {""}
    said = (
        f"{one.decision} {one.value}".strip() + f" ({one.who or 'nobody named'})"
        for one in conflict
    )
    return printable(f"{'/'.join([*sorted(splits)[:1], key])}: {', '.join(said)}")


def check_agreed(decisions: Sequence[Decision], option: str) -> None:
    """Refuse decisions that contradict each other.

    Raises:
        UsageError: names the first few, and who said what.
    """
    if found := conflicts(decisions):
        more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
        shown = "; ".join(map(describe_conflict, found[:_SHOWN]))
        raise UsageError(
            f"{option}: {counted(len(found), 'conflict')}: {shown}{more}; agree, and keep one line "
            "of each"
        )


def _clash(one: Decision, other: Decision) -> bool:
    """Whether only one of two about the same key can be right."""
    if one.split and other.split and one.split != other.split:
        return False  # they are about two images
    kinds = {one.decision, other.decision}
    if kinds == {"label"}:
        return one.labels != other.labels
    if kinds == {"split"}:
        return one.value.strip() != other.value.strip()
    return "sure" in kinds and bool(kinds & {"leave_out", "label"})


def _cells(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Each line of a file, and where it is."""
    import pyarrow as pa

    try:
        data = read_regular(path)
        yield from _of_parquet(path) if data.startswith(_PARQUET) else _of_csv(data)
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, pa.ArrowException) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"{path} cannot be used: {said}; expected decisions") from error


def _of_csv(data: bytes) -> Iterator[tuple[str, list[str]]]:
    lines = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    places = _places([name.strip() for name in next(lines, [])])
    for cells in filter(None, lines):
        if len(cells) != len(places):
            found = counted(len(cells), "cell")
            raise ValueError(f"line {lines.line_num} has {found}, expected {len(places)}")
        yield f"line {lines.line_num}", [cells[place] for place in places]


def _of_parquet(path: Path) -> Iterator[tuple[str, list[str]]]:
    with open_parquet(path) as file:
        places, number = _places(file.schema_arrow.names), 0
        for batch in file.iter_batches():
            columns = (column.cast("string").to_pylist() for column in batch.columns)
            for cells in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", [cells[place] or "" for place in places]


def _places(header: Sequence[str]) -> list[int]:
    """Where each of `COLUMNS` is."""
    if sorted(header) != sorted(COLUMNS):
        found = ", ".join(map(printable, header))[:200] or "nothing"
        raise ValueError(f"found the columns {found}, expected {', '.join(COLUMNS)}")
    return [header.index(name) for name in COLUMNS]


def _quoted(cell: str) -> str:
    # The module csv quotes a carriage return in some versions of Python only.
    return '"' + cell.replace('"', '""') + '"' if re.search(r'[,"\r\n]|^\s|\s$', cell) else cell


def _said(text: str) -> str:
    return repr(printable(str(text)[:100]))


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
