"""What the pages show: the images that a question chooses, and what ``dataprep lint`` finds."""

from __future__ import annotations

import difflib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from dataprep.errors import DataprepError, UsageError
from dataprep.options import share
from dataprep.review.browse.marks import Image
from dataprep.review.browse.thumbnails import tag
from dataprep.review.facts import rows_of
from dataprep.review.findings import Findings, Limits, lint, opened
from dataprep.review.near import CHOICES
from dataprep.review.pictures import short
from dataprep.review.rules import NEEDS_NEAR, RULES
from dataprep.sealed.questions import rows_where
from dataprep.sealed.set import SealedSet, first_rows
from dataprep.system.messages import printable, sized
from dataprep.tables.records import RecordsTable
from dataprep_schemas.fields import CAPTIONS
from dataprep_schemas.tables import RECORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PICTURES: Final = 200  # on a page
FINDINGS: Final = 40  # on a page
_FOUND: Final = 1000  # findings of a rule that are kept, the worst ones
ALIKE: Final = 8  # images of a finding
_KEPT: Final = 8  # answers, each of up to 8 bytes an image
_NEAR_LIMIT: Final = 400_000  # images, as of the report
_COLUMNS: Final = ("key", "split", "labels", "width", "height", "bytes", "reason")


@dataclass(frozen=True, slots=True)
class Question:
    """Which images to show, and in which order; as the page's form says it, all of it text.

    Attributes:
        split: all of them if empty.
        label: a class, by identifier or name.
        attribute: a column of ``records.parquet`` that is to have `value`.
        value: as text.
        where: a condition in SQL.
        sample: a share of what is left, such as ``10%``.
        sort: a column to sort by.
        down: whether from the largest on; else empty.
    """

    split: str = ""
    label: str = ""
    attribute: str = ""
    value: str = ""
    where: str = ""
    sample: str = ""
    sort: str = ""
    down: str = ""

    @classmethod
    def of(cls, words: Mapping[str, str]) -> Question:
        """What an address asks."""
        return cls(**{it.name: words.get(it.name, "").strip() for it in fields(cls)})

    def address(self, page: int) -> str:
        """Of one of its pages."""
        said = ((it.name, getattr(self, it.name)) for it in fields(self))
        return "/?" + urlencode([*((name, text) for name, text in said if text), ("page", page)])


@dataclass(frozen=True, slots=True)
class Card:
    """A stored image, and what is said of it beside its thumbnail."""

    row: int
    image: Image
    classes: str
    facts: str
    caption: str

    @property
    def place(self) -> str:
        """Its split and its key, for a person."""
        return short("/".join(self.image))

    @property
    def tag(self) -> str:
        """See `dataprep.review.browse.thumbnails.tag`."""
        return tag(self.image[1])


class Pictures:
    """The images of a data set, by their rows in the table of records; from any thread.

    Raises:
        DatasetError: the table of records is damaged, or only a part of the data set is here.
    """

    def __init__(self, sealed: SealedSet) -> None:
        sealed.require_whole("looked at")
        self.sealed = sealed
        self._file = sealed.manifest.records_table
        starts = {name: rows[0] for name, rows in first_rows(sealed.manifest).items() if rows}
        self._rows = {
            name: range(start, start + sealed.splits[name].records)
            for name, start in starts.items()
        }
        with self._table() as table:
            own = [field.name for field in table.fields]
        self.columns = [*RECORDS, *own]
        self._captions = (CAPTIONS.name,) * (CAPTIONS.name in own)
        self._answers: OrderedDict[Question, NDArray[np.int64]] = OrderedDict()
        self._lock = Lock()

    def rows(self, question: Question) -> Sequence[int] | NDArray[np.int64]:
        """Those that a question chooses, in its order.

        Raises:
            UsageError: it is wrong; the line says what.
        """
        rows = range(self.sealed.records)
        if question.split:
            rows = self._rows[self.sealed.split_called(question.split)]
        if question in (Question(), Question(split=question.split)):
            return rows
        with self._lock:
            if question not in self._answers:
                self._answers[question] = self._asked(question, rows)
                while len(self._answers) > _KEPT:
                    self._answers.popitem(last=False)
            self._answers.move_to_end(question)
            return self._answers[question]

    def _asked(self, question: Question, rows: range) -> NDArray[np.int64]:
        for column in filter(None, (question.attribute, question.sort)):
            if column not in self.columns:
                raise UsageError(_unknown("column", column, self.columns))
        try:
            sample = share(question.sample) if question.sample else None
        except ValueError as error:
            raise UsageError(f"sample: {error}") from None
        equal = (question.attribute, question.value) if question.attribute else None
        return rows_where(
            self.sealed.out,
            self._file,
            rows,
            where=question.where or None,
            sample=sample,
            stratify=False,
            seed=self.sealed.manifest.seed,
            label=self.class_number(question.label) if question.label else None,
            equal=equal,
            order=question.sort or None,
            descending=bool(question.down),
        )

    def class_number(self, said: str) -> int:
        """Of the class that has this identifier; else of the first that has this name.

        Raises:
            UsageError: there is none.
        """
        for place in (0, 1):
            for number, names in enumerate(self.sealed.manifest.classes):
                if names[place] == said:
                    return number
        known = [name for names in self.sealed.manifest.classes for name in names]
        raise UsageError(_unknown("class", said, known, listed=False))

    def cards(self, rows: Sequence[int] | NDArray[np.int64]) -> list[Card]:
        """What is said of these images.

        Raises:
            DatasetError: the table of records is damaged.
        """
        wanted = sorted({int(row) for row in rows})
        names, found = (*_COLUMNS, *self._captions), dict[int, Card]()
        with self._table() as table:
            taken = (
                one
                for part in table.take(wanted, names)
                for one in zip(*(part.column(name).to_pylist() for name in names), strict=True)
            )
            for row, one in zip(wanted, taken, strict=True):
                found[row] = self._card(row, *one)
        return [found[int(row)] for row in rows]

    def _card(self, row: int, *cells: Any) -> Card:
        key, split, labels, width, height, size, reason, *captions = cells
        classes = self.sealed.manifest.classes
        # A forged table may have any numbers, and nulls.
        said = [classes[it] for it in labels or () if it is not None and 0 <= it < len(classes)]
        facts = [f"{width}x{height}", sized(size or 0), *filter(None, [reason])]
        caption = next(iter(captions[0] or ()), "") if captions else ""
        return Card(
            row,
            (str(split), str(key)),
            short(", ".join(name or identifier for identifier, name in said)),
            short(" · ".join(facts)),
            short(str(caption)),
        )

    def facts(self, row: int) -> list[tuple[str, str]]:
        """Everything that the table of records says of an image.

        Raises:
            DatasetError: the table of records is damaged, or has no such row.
        """
        with self._table() as table:
            (found,) = [one for part in table.take([row]) for one in part.to_pylist()]
        return [(name, short(str(it), 400)) for name, it in found.items() if it is not None]

    def _table(self) -> RecordsTable:
        return RecordsTable(self.sealed.out, self._file)


def _unknown(what: str, said: str, known: Sequence[str], *, listed: bool = True) -> str:
    close = difflib.get_close_matches(said, known, n=1)
    meant = [f"did you mean {printable(close[0])}?"] if close else []
    expected = [f"expected one of {', '.join(map(printable, known))}"] if listed else []
    return "; ".join([f"there is no {what} {printable(said)!r}", " ".join([*meant, *expected])])


class Lint:
    """What ``dataprep lint`` finds, looked for beside everything else when it is first asked for.

    Attributes:
        percent: how far that is.
        error: why it could not be done; else empty.
        found: what each rule found that found something; None before it is done.
        remarks: lines on what could not be looked for.
        rows: of the images of findings, as far as they are stored.
    """

    def __init__(self, sealed: SealedSet, *, near: bool | None) -> None:
        self._sealed = sealed
        self._near = sealed.records <= _NEAR_LIMIT if near is None else near
        self._thread: Thread | None = None
        self._lock = Lock()
        self._steps = 0
        self.error = ""
        self.found: list[Findings] | None = None
        self.remarks: list[str] = []
        self.rows: dict[Image, int] = {}

    @property
    def percent(self) -> int:
        """Of the pairs that are compared."""
        return 100 * self._steps // CHOICES

    def begin(self) -> None:
        """Look for it, unless that has begun."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="lint", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        rules = [rule for rule in RULES if self._near or rule.name not in NEEDS_NEAR]
        try:
            with opened(self._sealed, rules, Limits(), self._advance) as (database, remarks):
                found = lint(database, rules, show=_FOUND)
                every = (finding for entry in found for finding in entry.findings)
                images = {image for finding in every for image in finding.images[:ALIKE]}
                self.rows = rows_of(database, images)
            if not self._near:
                remarks.append("look-alikes were not looked for; --near does, `dataprep lint` too")
            self.remarks, self.found = remarks, [entry for entry in found if entry.count]
        except DataprepError as error:
            self.error = str(error)

    def _advance(self, count: int) -> None:
        self._steps += count
