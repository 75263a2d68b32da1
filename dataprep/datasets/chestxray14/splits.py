"""Who is in which split of ChestX-ray14: a matter of the patient, never of the image."""

from __future__ import annotations

from typing import Final

from dataprep.datasets.chestxray14.files import ListFile
from dataprep.datasets.chestxray14.labels import PATIENT
from dataprep.datasets.chestxray14.rules import Rules, read_lines, require
from dataprep.datasets.splitting import Cut
from dataprep.errors import SourceError
from dataprep.index.database import Database
from dataprep.system.messages import counted, printable

_MOST_PATIENTS: Final = 5

_RULES: Final[Rules] = {
    "not regexp_full_match(text, '[^/\\s]+')": (
        "'is ''' || text[:40] || '''; expected only an image''s file name, such as "
        "00000001_000.png'"
    ),
}
_SHARED: Final = f"""
select
  coalesce(patient_id, {PATIENT}) as patient,
  min(key) filter (not test) as trained,
  min(key) filter (test) as tested,
from sides left join labels using (key)
group by patient
having patient is not null and trained is not null and tested is not null
order by patient
"""


def read_sides(database: Database, sides: tuple[ListFile, ...]) -> None:
    """Make the table ``sides`` of the official lists: ``key`` (a file name), ``test`` or not.

    Without lists no image is one of the test, and the table has all that have labels.

    Args:
        database: what has the table ``labels``.
        sides: the lists of training and validation and of test; or none.

    Raises:
        SourceError: a list cannot be used, or they share a patient; some are named.
    """
    database.execute("create table sides (key text, test bool)")
    if not sides:
        database.execute("insert into sides select key, false from labels")
        return
    for file, test in zip(sides, (False, True), strict=True):
        table = "test_lines" if test else "train_lines"
        read_lines(database, table, file)
        require(database, table, file, _RULES)
        database.execute(f"insert into sides select distinct text, {test} from {table}")
        if not database.execute(f"select 1 from {table} limit 1").fetchone():
            raise SourceError(
                f"{printable(file.place)} is empty; expected an image's file name a line, such as "
                "00000001_000.png; download the list again, or use --split random-by-patient"
            )
    shared = database.execute(_SHARED).fetchall()
    if shared:
        raise _shared(shared, sides)


def cut_patients(database: Database, cut: Cut) -> None:
    """Make the table ``cut``: the split of each patient that the lists leave to chance."""
    rows = database.execute(
        "select distinct patient_id from labels join sides using (key) where not test"
    ).fetchall()
    patients = [patient for (patient,) in rows]
    splits = [cut.split_of(str(patient)) for patient in patients]
    database.execute(
        "create table cut as select unnest($patients) as patient_id, unnest($splits) as split",
        {"patients": patients, "splits": splits},
    )


def _shared(patients: list[tuple[int, str, str]], sides: tuple[ListFile, ...]) -> SourceError:
    named = [
        f"{patient} ({printable(first)} and {printable(second)})"
        for patient, first, second in patients[:_MOST_PATIENTS]
    ]
    more = len(patients) - _MOST_PATIENTS
    return SourceError(
        f"{counted(len(patients), 'patient')} {'is' if len(patients) == 1 else 'are'} in both "
        f"{' and '.join(printable(side.place) for side in sides)}: {', '.join(named)}"
        f"{f' and {more} more' if more > 0 else ''}; expected each patient in one of them, or the "
        "test would be of patients seen in training; correct the lists or use --split "
        "random-by-patient"
    )
