"""Who is in which split of ChestX-ray14: a matter of the patient, never of the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dataprep.errors import SourceError
from dataprep.sources.chestxray14.files import ListFile, Lists, names_of
from dataprep.sources.chestxray14.labels import LabelTable, load_labels, patient_in
from dataprep.sources.splitting import Cut
from dataprep.wording import counted, printable, some_of

_NEITHER: Final = 0
_TRAIN_VALIDATION: Final = 1
_TEST: Final = 2
_MOST_PATIENTS: Final = 5


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """What the official lists say of the images that have labels.

    Attributes:
        of_rows: the side of each row of the label table.
        unlabelled: how many names of the lists the label table does not have.
    """

    of_rows: bytes
    unlabelled: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """Tells the split of each row of a label table.

    Attributes:
        table: the labels.
        cut: divides all patients, or those that the official lists leave to it.
        sides: what the official lists say; None if patients are divided at random.
    """

    table: LabelTable
    cut: Cut
    sides: Sides | None

    def split_of(self, row: int) -> str:
        """The split of an image; empty if neither official list names it."""
        side = self.sides.of_rows[row] if self.sides else _TRAIN_VALIDATION
        if side == _TEST:
            return "test"
        return self.cut.split_of(group_of(self.table, row)) if side == _TRAIN_VALIDATION else ""


def group_of(table: LabelTable, row: int) -> str:
    """The patient of an image, as `Row.group` and the seeded cut know them."""
    return str(table.patients[row])


def assign(lists: Lists, cut: Cut) -> Assignment:
    """Tell the split of each image that has labels.

    Raises:
        SourceError: a list cannot be used, or the official lists share an image or a patient.
    """
    sides = load_sides(lists.labels, *lists.sides) if lists.sides else None
    return Assignment(load_labels(lists.labels), cut, sides)


@lru_cache(maxsize=1)
def load_sides(labels: ListFile, train_validation: ListFile, test: ListFile) -> Sides:
    """Read the official lists, and check that they have no image and no patient in common.

    Raises:
        SourceError: a list cannot be used, or they share an image or a patient; those are named.
    """
    table = load_labels(labels)
    named = {_TRAIN_VALIDATION: names_of(train_validation), _TEST: names_of(test)}
    places = (train_validation.place, test.place)
    _require_disjoint(named[_TRAIN_VALIDATION], named[_TEST], places)
    _require_whole_patients(
        _patients(named[_TRAIN_VALIDATION], table), _patients(named[_TEST], table), places
    )
    of_rows = bytearray(len(table.rows))  # zeros: in neither list
    for side, names in named.items():
        for name in names:
            row = table.rows.get(name)
            if row is not None:
                of_rows[row] = side
    unlabelled = len({name for names in named.values() for name in names} - table.rows.keys())
    return Sides(bytes(of_rows), unlabelled)


def _require_disjoint(first: Sequence[str], second: Sequence[str], places: Sequence[str]) -> None:
    shared = set(first) & set(second)
    if shared:
        raise SourceError(
            f"{counted(len(shared), 'image')} {'is' if len(shared) == 1 else 'are'} in both "
            f"{' and '.join(map(printable, places))}: {some_of(shared)}; expected each image in "
            "one of them; correct the lists or use --split random-by-patient"
        )


def _require_whole_patients(
    first: dict[int, str], second: dict[int, str], places: Sequence[str]
) -> None:
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return
    named = [
        f"{patient} ({printable(first[patient])} and {printable(second[patient])})"
        for patient in shared[:_MOST_PATIENTS]
    ]
    more = len(shared) - _MOST_PATIENTS
    raise SourceError(
        f"{counted(len(shared), 'patient')} {'is' if len(shared) == 1 else 'are'} in both "
        f"{' and '.join(map(printable, places))}: {', '.join(named)}"
        f"{f' and {more} more' if more > 0 else ''}; expected each patient in one of them, or the "
        "test would be of patients seen in training; correct the lists or use --split "
        "random-by-patient"
    )


def _patients(names: Sequence[str], table: LabelTable) -> dict[int, str]:
    """One image of each patient that a list names."""
    patients: dict[int, str] = {}
    for name in names:
        row = table.rows.get(name)
        patient = patient_in(name) if row is None else table.patients[row]
        if patient is not None:
            patients.setdefault(patient, name)
    return patients
