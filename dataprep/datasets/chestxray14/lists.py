"""The lists that come with ChestX-ray14: found, read into tables of SQL, checked, and joined.

Whatever a list has wrong is said with its line. They are small, so nothing is kept from one use to
the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dataprep.datasets.base import OLDEST, TOO_OLD
from dataprep.datasets.lists import ListFile, read_lines
from dataprep.datasets.splits import Cut
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.state_files import file_sha256
from dataprep.tables.database import Database, open_database

if TYPE_CHECKING:
    import pyarrow as pa

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

SIDE_LISTS: Final = ("train_val_list", "test_list")
# Earlier names win: the second release corrected ages and follow-up numbers.
LABELS: Final = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")

_GRID: Final = 1024  # pixels of the published images' sides, on which boxes are given

# Columns of the lists by what they are called here. Headers have more names than rows have cells,
# or fewer, because commas in them are not quoted; these are at the same place in both.
_LABEL_COLUMNS: Final = {
    "key": "Image Index",
    "findings_text": "Finding Labels",
    "follow_up_text": "Follow-up #",
    "patient_text": "Patient ID",
    "age_text": "Patient Age",
    "gender": "Patient Gender",
    "view": "View Position",
}
_BOX_COLUMNS: Final = {
    "key": "Image Index",
    "finding_text": "Finding Label",
    "x_text": "Bbox [x",
    "y_text": "y",
    "width_text": "w",
    "height_text": "h]",
}

# The patient that an image's file name says; null if it is not named that way.
_PATIENT: Final = "try_cast(regexp_extract(key, '^([0-9]{8})_[0-9]+[.][A-Za-z]+$', 1) as int)"
# Ages are whole years, rounded down: months, weeks and days count 12, 52 and 365 a year.
_LABELS: Final = f"""
create table labels as
select
  line,
  key,
  string_split(findings_text, '|') as findings,
  list_filter(findings, lambda finding: not list_contains($findings, finding)) as others,
  list_sort(list_filter(findings, lambda finding: finding <> $none)) as labels,
  follow_up_text,
  try_cast(follow_up_text as int) as follow_up,
  patient_text,
  try_cast(patient_text as int) as patient_id,
  age_text,
  try_cast(regexp_extract(age_text, '[0-9]+') as int) // case upper(right(age_text, 1))
    when 'M' then 12 when 'W' then 52 when 'D' then 365 else 1 end as years,
  years > {OLDEST} as too_old,
  case when years <= {OLDEST} then years end as age,
  nullif(gender, '') as gender,
  nullif(view, '') as view,
  view is null as cut_off,
from label_cells
"""
_WHOLE: Final = "[0-9]{1,9}"
# What a line must have, and when it is wrong.
_LABEL_RULES: Final = {
    f"{len(_LABEL_COLUMNS)} fields or more": "cut_off",
    "a file name first, such as 00000001_000.png": "key = '' or contains(key, '/')",
    f"findings of {', '.join(FINDINGS)}, separated by | and each once, or {NO_FINDING} alone": (
        "(len(others) > 0 or len(list_distinct(findings)) < len(findings)) "
        "and (len(findings) > 1 or len(labels) > 0)"
    ),
    "a whole number as follow-up": f"not regexp_full_match(follow_up_text, '({_WHOLE})?')",
    "a whole number as patient": f"not regexp_full_match(patient_text, '{_WHOLE}')",
    "the patient that the name of the image begins with": f"patient_id <> {_PATIENT}",
    "an age in years, such as 58 or 058Y, or months, weeks or days, such as 012M, 006W or 003D": (
        f"not regexp_full_match(age_text, '({_WHOLE}[YMWDymwd]?)?')"
    ),
}
_BOXES: Final = f"""
create table boxes as
select
  line,
  key,
  replace(finding_text, 'Infiltrate', 'Infiltration') as finding,
  list_contains($findings, finding) as known,
  try_cast(x_text as double) as x,
  try_cast(y_text as double) as y,
  try_cast(width_text as double) as width,
  try_cast(height_text as double) as height,
  greatest(x / {_GRID}, 0.0::double) as xmin,
  greatest(y / {_GRID}, 0.0::double) as ymin,
  least((x + width) / {_GRID}, 1.0::double) as xmax,
  least((y + height) / {_GRID}, 1.0::double) as ymax,
  x < 0 or y < 0 or x + width > {_GRID} or y + height > {_GRID} as clipped,
from box_cells
"""
_BOX_RULES: Final = {
    f"a finding of {', '.join(FINDINGS)}": "known is not true",
    f"x, y, width and height in pixels of an image of {_GRID} x {_GRID}": (
        f"(x < {_GRID} and y < {_GRID} and width > 0 and height > 0 "
        "and x + width > 0 and y + height > 0 "
        "and isfinite(x + width) and isfinite(y + height)) is not true"
    ),
}

# A patient whom the lists leave to chance is cut; an image in none of them has no split.
_IMAGES: Final = """
create table images as
select labels.*, case when test then 'test' when not test then {split} end as split
from labels left join sides using (key)
"""
_LISTED: Final = f"""
with marked as (
  select
    key,
    list([xmin, ymin, xmax, ymax] order by line) as boxes,
    list(finding order by line) as box_labels,
    [{_GRID}, {_GRID}] as drawn_on,
  from boxes group by key
)
select 'listed' as status, images.*, patient_id::text as "group", $place as container, boxes,
  box_labels, drawn_on,
from images left join marked using (key)
order by line
"""
_COUNTS: Final = {
    TOO_OLD: "select count(*) from images where split is not null and too_old",
    "box clipped to its image": (
        "select count(*) from boxes join images using (key) where split is not null and clipped"
    ),
}


# Where the lists of one run are, by the options that name them: always in the same order.
Lists = Mapping[str, Path]


def fingerprint(lists: Lists) -> list[tuple[str, str, str]]:
    """What tells that a list is another one: its name and the SHA-256 of its content.

    Raises:
        SourceError: one cannot be read.
    """
    try:
        return [(option, path.name, file_sha256(path)) for option, path in lists.items()]
    except OSError as error:
        raise unreadable(str(error.filename), error) from error


def find_lists(raw: Path, named: Mapping[str, Any], *, official: bool) -> Lists:
    """Find the lists that the options name, or else those in the raw directory.

    Args:
        named: paths of lists, by the options that name them.

    Raises:
        SourceError: a list that is needed is not there.
    """
    sides = {name: (f"{name}.txt",) for name in SIDE_LISTS if official}
    found: dict[str, Path] = {}
    for option, names in {"labels": LABELS, **sides, "bbox_csv": ("BBox_List_2017.csv",)}.items():
        there = [raw / name for name in names if (raw / name).exists()]
        if option in named:
            found[option] = named[option]
        elif there:
            found[option] = there[0]
        elif option != "bbox_csv":
            other = ", or use --split random-by-patient" if option in sides else ""
            raise SourceError(
                f"no {' or '.join(names)} in {printable(str(raw))}; expected the list that comes "
                f"with the images; copy it there, or name it with --{option}{other}"
            )
    return found


def read_listed(lists: Lists, cut: Cut) -> tuple[pa.Table, Mapping[str, int]]:
    """What the lists say of each image, as rows of the index, and what the user should know of.

    Raises:
        SourceError: a list cannot be used.
    """
    labels = ListFile(lists["labels"], "csv", ragged=True)
    boxes = ListFile(lists["bbox_csv"], "csv", ragged=True) if "bbox_csv" in lists else None
    files = [file.path for file in (labels, boxes) if file]
    with open_database(Path(tempfile.gettempdir()), files, ordered=True) as database:
        named = {"gender": "Patient Sex"} if "Patient Sex" in labels.columns else {}
        _read_cells(database, "label_cells", labels, _LABEL_COLUMNS | named, "labels")
        known = {"findings": [*FINDINGS]}
        database.execute(_LABELS, {**known, "none": NO_FINDING})
        _require(database, "labels", labels, _LABEL_RULES)
        _read_sides(database, [lists[name] for name in SIDE_LISTS if name in lists])
        split, values = cut.split_sql("patient_id::text")
        database.execute(_IMAGES.format(split=split), values)
        if boxes:
            _read_cells(database, "box_cells", boxes, _BOX_COLUMNS, "bbox_csv")
        else:
            columns = ", ".join(f"{name} text" for name in _BOX_COLUMNS)
            database.execute(f"create table box_cells (line bigint, {columns})")
        database.execute(_BOXES, known)
        if boxes:
            _require(database, "boxes", boxes, _BOX_RULES)
        table = database.sql(_LISTED, params={"place": labels.path.name}).to_arrow_table()
        counts = {
            what: count
            for what, query in _COUNTS.items()
            for (count,) in database.execute(query).fetchall()
        }
    return table, {what: count for what, count in counts.items() if count}


def _read_sides(database: Database, sides: Sequence[Path]) -> None:
    """Make the table ``sides`` of the official lists: ``key`` (a file name), ``test`` or not.

    Without lists no image is one of the test, and the table has all that have labels.
    """
    if not sides:
        database.execute("create table sides as select key, false as test from labels")
        return
    train, test = ([line.strip() for line in read_lines(path).values()] for path in sides)
    database.execute(
        "create table sides as select distinct unnest($train::text[]) as key, false as test "
        "union all select distinct unnest($test::text[]), true",
        {"train": train, "test": test},
    )


def _read_cells(
    database: Database, table: str, file: ListFile, columns: Mapping[str, str], option: str
) -> None:
    """Make a table of cells without blanks round them, and of their rows' lines."""
    for column in columns.values():
        file.require(
            column, f"separate its columns with commas, or name another list with --{option}"
        )
    query, values = file.cells(columns)
    with file.explaining():
        database.execute(
            f"create table {table} as select row_number() over () + 1 as line, "
            f"trim(columns(* exclude blank)) from ({query})",
            values,
        )


def _require(database: Database, table: str, file: ListFile, rules: Mapping[str, str]) -> None:
    """Refuse the first line that breaks a rule."""
    cases = " ".join(f"when {wrong} then {number}" for number, wrong in enumerate(rules.values()))
    broken = database.execute(
        f"select line, rule from (select *, case {cases} end as rule from {table}) "
        "where rule is not null order by line limit 1"
    ).fetchone()
    if broken:
        line, rule = broken
        raise file.wrong(line - 2, f"expected {[*rules][rule]}")
