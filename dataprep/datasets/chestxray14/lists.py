"""The lists that come with ChestX-ray14: found, read into tables of SQL, checked, and joined.

Whatever a list has wrong is said with its line. They are small, so nothing is kept from one use to
the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.datasets.chestxray14.options import FINDINGS, NO_FINDING
from dataprep.datasets.raw_directory import leads_out
from dataprep.datasets.splits import Cut
from dataprep.errors import SourceError
from dataprep.system.messages import printable, unreadable
from dataprep.system.regular_files import require_regular
from dataprep.system.state_files import file_sha256
from dataprep.tables.database import Database, open_database, quoted

if TYPE_CHECKING:
    import pyarrow as pa

# Earlier names win: the second release corrected ages and follow-up numbers.
LABELS: Final = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")

_GRID: Final = 1024  # pixels of the published images' sides, on which boxes are given
_OLDEST: Final = 120  # years


# One column, since only so are blank lines counted. No published field has a comma in it, so quotes
# say nothing; headers, and rows that a spreadsheet saved, end in any number of commas.
_LINES: Final = """
create table {table} as
select line, text, string_split(text, ',') as fields
from (
  select row_number() over () as line, trim(replace(text, '"', '')) as text
  from read_csv({path}, columns = {{text: 'text'}}, delim = chr(1), quote = '', escape = '',
    header = false, auto_detect = false, strict_mode = false, parallel = false)
)
where text <> ''
"""

# The patient that an image's file name says; null if it is not named that way.
_PATIENT: Final = "try_cast(regexp_extract(key, '^([0-9]{8})_[0-9]+[.][A-Za-z]+$', 1) as int)"
_LABEL_HEADER: Final = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position"
)
_FIELDS: Final = 1 + _LABEL_HEADER.count(",")
# The header of 2017 has more fields than its rows, because commas in it are not quoted, so rows are
# read by position. Columns that end in _text are what numbers are read from. Ages are whole years,
# rounded down: months, weeks and days count 12, 52 and 365 a year.
_LABELS: Final = f"""
create table labels as
select
  line,
  text,
  len(fields) as field_count,
  trim(fields[1]) as key,
  string_split(trim(fields[2]), '|') as findings,
  list_filter(findings, lambda finding: not list_contains($findings, finding)) as others,
  list_sort(list_filter(findings, lambda finding: finding <> $none)) as labels,
  trim(fields[3]) as follow_up_text,
  try_cast(follow_up_text as int) as follow_up,
  trim(fields[4]) as patient_text,
  try_cast(patient_text as int) as patient_id,
  trim(fields[5]) as age_text,
  try_cast(regexp_extract(age_text, '[0-9]+') as int) // case upper(right(age_text, 1))
    when 'M' then 12 when 'W' then 52 when 'D' then 365 else 1 end as years,
  years > {_OLDEST} as too_old,
  case when years <= {_OLDEST} then years end as age,
  nullif(trim(fields[6]), '') as gender,
  nullif(trim(fields[7]), '') as view,
from label_lines
"""
_WHOLE: Final = "[0-9]{1,9}"
# What a line must have, and when it is wrong.
_LABEL_RULES: Final = {
    f"{_FIELDS} fields or more": f"field_count < {_FIELDS}",
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
_BOX_HEADER: Final = "Image Index,Finding Label,Bbox [x"  # commas in the header are not quoted
_BOXES: Final = f"""
create table boxes as
select
  line,
  text,
  len(fields) as field_count,
  trim(fields[1]) as key,
  replace(trim(fields[2]), 'Infiltrate', 'Infiltration') as finding,
  list_contains($findings, finding) as known,
  try_cast(fields[3] as double) as x,
  try_cast(fields[4] as double) as y,
  try_cast(fields[5] as double) as width,
  try_cast(fields[6] as double) as height,
  greatest(x / {_GRID}, 0.0::double) as xmin,
  greatest(y / {_GRID}, 0.0::double) as ymin,
  least((x + width) / {_GRID}, 1.0::double) as xmax,
  least((y + height) / {_GRID}, 1.0::double) as ymax,
  x < 0 or y < 0 or x + width > {_GRID} or y + height > {_GRID} as clipped,
from box_lines
"""
# Not a number counts as greater than all others.
_BOX_RULES: Final = {
    f"a finding of {', '.join(FINDINGS)}": "known is not true",
    f"x, y, width and height in pixels of an image of {_GRID} x {_GRID}": (
        f"field_count < 6 or (x < {_GRID} and y < {_GRID} and width > 0 and height > 0 "
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
_LISTED: Final = """
with marked as (
  select
    key,
    list({'xmin': xmin, 'ymin': ymin, 'xmax': xmax, 'ymax': ymax} order by line) as boxes,
    list(finding order by line) as box_labels,
  from boxes group by key
)
select 'listed' as status, images.*, patient_id::text as "group", $place as container, boxes,
  box_labels,
from images left join marked using (key)
order by line
"""
_COUNTS: Final = {
    "age out of range": "select count(*) from images where split is not null and too_old",
    "box clipped to its image": (
        "select count(*) from boxes join images using (key) where split is not null and clipped"
    ),
}


@dataclass(frozen=True, slots=True)
class Lists:
    """Where the lists of one run are.

    Attributes:
        labels: the label CSV.
        sides: the official lists, of training and validation and of test; empty if they are not
            wanted.
        boxes: the box list; None if there is none.
    """

    labels: Path
    sides: tuple[Path, ...]
    boxes: Path | None

    def describe(self) -> str:
        """Their names, for the terminal."""
        paths = (self.labels, *self.sides, self.boxes)
        return f"lists: {', '.join(printable(path.name) for path in paths if path)}"

    def fingerprint(self) -> list[tuple[str, str] | None]:
        """What tells that one of them is another one: its name and the SHA-256 of its content.

        Raises:
            SourceError: one cannot be read.
        """
        try:
            return [
                (path.name, file_sha256(path)) if path else None
                for path in (self.labels, *self.sides, self.boxes)
            ]
        except OSError as error:
            raise unreadable(str(error.filename), error) from error


def find_lists(raw: Path, options: Mapping[str, str], *, official: bool) -> Lists:
    """Find the lists that the options name, or else those in the raw directory.

    Args:
        options: the data set's options; of a list, its absolute path.

    Raises:
        SourceError: a list that is needed is not there.
    """

    def find(option: str, *names: str) -> Path | None:
        there = (raw / name for name in names if (raw / name).exists())
        return Path(options[option]) if option in options else next(there, None)

    def need(option: str, *names: str) -> Path:
        if found := find(option, *names):
            return found
        advice = f"copy it there, or name it with --{option}"
        if option != "labels":
            advice += ", or use --split random-by-patient"
        raise SourceError(
            f"no {' or '.join(names)} in {printable(str(raw))}; expected the list that comes with "
            f"the images; {advice}"
        )

    labels = need("labels", *LABELS)
    names = ("train_val_list", "test_list") if official else ()
    sides = tuple(need(name, f"{name}.txt") for name in names)
    return Lists(labels, sides, find("bbox_csv", "BBox_List_2017.csv"))


def read_listed(lists: Lists, cut: Cut) -> tuple[pa.Table, Mapping[str, int]]:
    """What the lists say of each image, as rows of the index, and what the user should know of.

    Raises:
        SourceError: a list cannot be used.
    """
    files = [lists.labels, *lists.sides, *([lists.boxes] if lists.boxes else [])]
    with open_database(Path(tempfile.gettempdir()), files) as database:
        _read_lines(database, "label_lines", lists.labels)
        _take_header(database, "label_lines", lists.labels, _LABEL_HEADER, "labels")
        known = {"findings": [*FINDINGS]}
        database.execute(_LABELS, {**known, "none": NO_FINDING})
        _require(database, "labels", lists.labels, _LABEL_RULES)
        _read_sides(database, lists.sides)
        split, values = cut.split_sql("patient_id::text")
        database.execute(_IMAGES.format(split=split), values)
        if lists.boxes:
            _read_lines(database, "box_lines", lists.boxes)
            _take_header(database, "box_lines", lists.boxes, _BOX_HEADER, "bbox_csv")
        else:
            database.execute("create table box_lines as from label_lines limit 0")
        database.execute(_BOXES, known)
        _require(database, "boxes", lists.boxes or Path(), _BOX_RULES)
        table = database.sql(_LISTED, params={"place": lists.labels.name}).to_arrow_table()
        counts = {
            what: count
            for what, query in _COUNTS.items()
            for (count,) in database.execute(query).fetchall()
        }
    return table, {what: count for what, count in counts.items() if count}


def _read_sides(database: Database, sides: tuple[Path, ...]) -> None:
    """Make the table ``sides`` of the official lists: ``key`` (a file name), ``test`` or not.

    Without lists no image is one of the test, and the table has all that have labels.
    """
    if not sides:
        database.execute("create table sides as select key, false as test from labels")
        return
    for path, table in zip(sides, ("train_lines", "test_lines"), strict=True):
        _read_lines(database, table, path)
    database.execute(
        "create table sides as select distinct text as key, false as test from train_lines "
        "union all select distinct text, true from test_lines"
    )


def _read_lines(database: Database, table: str, path: Path) -> None:
    """Make a table of the lines of a list that are not blank: ``line`` (from 1) and ``text``."""
    import duckdb

    try:
        require_regular(path)
        database.execute(_LINES.format(table=table, path=quoted(path)))
    except OSError as error:
        raise unreadable(str(path), error) from error
    except duckdb.InvalidInputException as error:
        raise SourceError(f"{printable(path.name)} is not UTF-8; save it as UTF-8") from error


def _take_header(database: Database, table: str, path: Path, expected: str, option: str) -> None:
    """Take the first line away, which begins as `expected`."""
    lines = database.execute(f"select line, text from {table} order by line limit 1")
    line, text = lines.fetchone() or (1, "")
    if not text.replace("Patient Sex", "Patient Gender").startswith(expected):
        raise SourceError(
            f"line {line} of {printable(path.name)} is {_shown(path, text)}; expected the "
            f"header {expected} of the NIH's list in UTF-8; name the right file with --{option}"
        )
    database.execute(f"delete from {table} where line = $line", {"line": line})


def _shown(path: Path, text: str) -> str:
    link = leads_out(path.parent, path.name)
    return "in a link that leads out of its directory" if link else repr(printable(text[:100]))


def _require(database: Database, table: str, path: Path, rules: Mapping[str, str]) -> None:
    """Refuse the first line that breaks a rule."""
    cases = " ".join(f"when {wrong} then {number}" for number, wrong in enumerate(rules.values()))
    broken = database.execute(
        f"select line, text, rule from (select *, case {cases} end as rule from {table}) "
        "where rule is not null order by line limit 1"
    ).fetchone()
    if broken:
        line, text, rule = broken
        raise SourceError(
            f"line {line} of {printable(path.name)} is {_shown(path, text)}; expected "
            f"{[*rules][rule]}; correct it or download the list again"
        )
