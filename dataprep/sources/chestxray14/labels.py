"""The label CSV of ChestX-ray14: one row an image, kept in a few bytes each."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import Final, NamedTuple

from dataprep.errors import SourceError
from dataprep.index import Value
from dataprep.sources.chestxray14.files import ListFile, csv_rows
from dataprep.wording import printable

# The order of CheXNet's output (arnoweng/CheXNet, model.py), which most code has followed.
FINDINGS: Final = (
    "Atelectasis",
    "Cardiomegaly",
    "Effusion",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pneumonia",
    "Pneumothorax",
    "Consolidation",
    "Edema",
    "Emphysema",
    "Fibrosis",
    "Pleural_Thickening",
    "Hernia",
)
NO_FINDING: Final = "No Finding"
ORDERS: Final = {"canonical": FINDINGS, "alphabetical": tuple(sorted(FINDINGS))}
OLDEST: Final = 120

_HEADER: Final = (
    ("Image Index",),
    ("Finding Labels",),
    ("Follow-up #",),
    ("Patient ID",),
    ("Patient Age",),
    ("Patient Gender", "Patient Sex"),
    ("View Position",),
)
_BITS: Final = {finding: 1 << position for position, finding in enumerate(FINDINGS)}
_NUMBERED: Final = re.compile(r"([0-9]{8})_[0-9]+\.[A-Za-z]+")
_WHOLE: Final = re.compile(r"[0-9]{1,9}")
_AGE: Final = re.compile(r"([0-9]{1,9})([YMWD]?)")
_PER_YEAR: Final = {"": 1, "Y": 1, "M": 12, "W": 52, "D": 365}
_UNKNOWN: Final = -1
_OUT_OF_RANGE: Final = -2


@dataclass(frozen=True, slots=True, eq=False)
class LabelTable:
    """The label CSV by columns; a row's position in it is what everything else goes by.

    Attributes:
        place: what messages call the file.
        rows: the position of each image's row, by file name, in the order of the file.
        findings: what each image shows: bit i is set for ``FINDINGS[i]``.
        patients: each image's patient.
        ages: in whole years; negative if missing or out of range.
        follow_ups: the number of the visit; negative if missing.
        genders: as given; empty if missing.
        views: likewise.
    """

    place: str
    rows: Mapping[str, int]
    findings: array[int]
    patients: array[int]
    ages: array[int]
    follow_ups: array[int]
    genders: Sequence[str]
    views: Sequence[str]

    def attributes(self, row: int) -> dict[str, Value]:
        """What is known of an image besides its findings; what is missing is left out."""
        numbers = {"age": self.ages[row], "follow_up": self.follow_ups[row]}
        texts = {"gender": self.genders[row], "view": self.views[row]}
        known: dict[str, Value] = {"patient_id": self.patients[row]}
        known |= {name: number for name, number in numbers.items() if number >= 0}
        return known | {name: text for name, text in texts.items() if text}

    def is_age_out_of_range(self, row: int) -> bool:
        """Whether an age was given that nobody reaches, such as 411."""
        return self.ages[row] == _OUT_OF_RANGE


@lru_cache(maxsize=4096)  # 836 combinations are published
def shown(findings: int, order: Sequence[str]) -> tuple[int, ...]:
    """The labels of an image, ascending, as positions in this order of the findings."""
    return tuple(label for label, finding in enumerate(order) if findings & _BITS[finding])


def patient_in(name: str) -> int | None:
    """The patient that an image's file name says; None if it is not named that way."""
    match = _NUMBERED.fullmatch(name)
    return int(match[1]) if match else None


@lru_cache(maxsize=1)
def load_labels(file: ListFile) -> LabelTable:
    """Read a label CSV of either release; kept, because every archive's images look in it.

    The header of 2017 has more fields than its rows, because commas in it are not quoted, so rows
    are read by position once the first fields of the header are as expected.

    Raises:
        SourceError: the file cannot be read, is not the label CSV, names an image twice, or has a
            row that does not fit; the row's line is named.
    """
    lines = csv_rows(file)
    width = _check_header(file, next(lines, (1, [])))
    rows: dict[str, int] = {}
    findings, numbers = array("H"), array("q")
    patients, ages, follow_ups = array("i"), array("i"), array("i")
    genders: list[str] = []
    views: list[str] = []
    for number, fields in lines:
        try:
            row = _parse(fields, width)
        except ValueError as error:
            raise _wrong_line(file, number, str(error)) from None
        if row.name in rows:
            earlier = numbers[rows[row.name]]
            raise _wrong_line(file, number, f"names {row.name}, as does line {earlier}")
        rows[row.name] = len(rows)
        numbers.append(number)
        findings.append(row.findings)
        patients.append(row.patient)
        ages.append(row.age)
        follow_ups.append(row.follow_up)
        genders.append(intern(row.gender))  # one string a value, not one a row
        views.append(intern(row.view))
    if not rows:
        raise SourceError(
            f"{printable(file.place)} has no rows below its header; expected one an image; "
            "download it again"
        )
    return LabelTable(file.place, rows, findings, patients, ages, follow_ups, genders, views)


def _wrong_line(file: ListFile, number: int, problem: str) -> SourceError:
    return SourceError(
        f"line {number} of {printable(file.place)} {problem}; correct it or download the list again"
    )


def _check_header(file: ListFile, line: tuple[int, list[str]]) -> int:
    """How many fields a row may have."""
    number, fields = line
    header = [field.strip() for field in fields]
    if len(header) < len(_HEADER) or any(
        field not in names for field, names in zip(header, _HEADER, strict=False)
    ):
        expected = ",".join(names[0] for names in _HEADER)
        raise SourceError(
            f"line {number} of {printable(file.place)} is "
            f"{printable(','.join(header)[:100])!r}; expected the header {expected} of the NIH's "
            "label CSV; name the right file with --labels"
        )
    while not header[-1]:
        header.pop()
    return len(header)


class _Row(NamedTuple):
    name: str
    findings: int
    follow_up: int
    patient: int
    age: int
    gender: str
    view: str


def _parse(fields: Sequence[str], width: int) -> _Row:
    _check_width(fields, width)
    name, findings, follow_up, patient, age, gender, view = map(str.strip, fields[: len(_HEADER)])
    _check_name(name)
    return _Row(
        name,
        _parse_findings(findings),
        _parse_whole("follow-up", follow_up) if follow_up else _UNKNOWN,
        _parse_patient(patient, name),
        _parse_age(age),
        _printable("gender", gender),
        _printable("view", view),
    )


def _check_width(fields: Sequence[str], width: int) -> None:
    most = len(fields)
    while most > width and not fields[most - 1].strip():
        most -= 1
    if not len(_HEADER) <= most <= width:
        raise ValueError(f"has {most} fields; expected {len(_HEADER)} to {width}")


def _check_name(name: str) -> None:
    if not name.isprintable() or not name or "/" in name:
        raise ValueError(
            f"names the image {printable(name)!r}; expected a file name, such as 00000001_000.png"
        )


@lru_cache(maxsize=4096)
def _parse_findings(text: str) -> int:
    tokens = text.split("|")
    if tokens == [NO_FINDING]:
        return 0
    if NO_FINDING in tokens:
        raise ValueError(f"has {printable(text)!r}; expected {NO_FINDING} only by itself")
    findings = 0
    for token in tokens:
        bit = _BITS.get(token)
        if bit is None:
            raise ValueError(
                f"has the finding {printable(token)!r}; expected {', '.join(FINDINGS)} or "
                f"{NO_FINDING}, separated by |"
            )
        if findings & bit:
            raise ValueError(f"has the finding {token!r} twice; expected each once")
        findings |= bit
    return findings


def _parse_patient(text: str, name: str) -> int:
    patient = _parse_whole("patient", text)
    named = patient_in(name)
    if named not in (None, patient):
        raise ValueError(
            f"says that {printable(name)} is of patient {patient}; expected patient {named}, "
            "with whose number the name begins"
        )
    return patient


def _parse_whole(what: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"has the {what} {printable(text)!r}; expected a whole number")
    return int(text)


def _parse_age(text: str) -> int:
    """Whole years, rounded down: months, weeks and days count 12, 52 and 365 a year."""
    if not text:
        return _UNKNOWN
    match = _AGE.fullmatch(text.upper())
    if not match:
        raise ValueError(
            f"has the age {printable(text)!r}; expected years, such as 58 or 058Y, or months, "
            "weeks or days, such as 012M, 006W or 003D"
        )
    years = int(match[1]) // _PER_YEAR[match[2]]
    return years if years <= OLDEST else _OUT_OF_RANGE


def _printable(what: str, text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"has the {what} {printable(text)!r}; expected plain text")
    return text
