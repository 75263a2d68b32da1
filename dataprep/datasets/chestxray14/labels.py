"""The label CSV of ChestX-ray14: one row an image."""

from __future__ import annotations

from typing import Final

from dataprep.datasets.chestxray14.files import ListFile
from dataprep.datasets.chestxray14.findings import FINDINGS, NO_FINDING
from dataprep.datasets.chestxray14.rules import (
    FILLED,
    Rules,
    one_of,
    read_lines,
    require,
    take_header,
)
from dataprep.errors import SourceError
from dataprep.index.database import Database
from dataprep.system.messages import printable

_OLDEST: Final = 120

PATIENT: Final = "try_cast(regexp_extract(key, '^([0-9]{8})_[0-9]+[.][A-Za-z]+$', 1) as int)"
"""The patient that an image's file name says, in SQL; null if it is not named that way."""

_HEADER: Final = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position"
)
_LEAST: Final = 1 + _HEADER.count(",")
# The header of 2017 has more fields than its rows, because commas in it are not quoted, so rows are
# read by position. Columns that end in _text are what numbers are read from.
_READ: Final = f"""
create table label_rows as
select
  line,
  case when len(fields) <= $width then len(fields) else greatest({FILLED}, $width) end as width,
  trim(fields[1]) as key,
  string_split(trim(fields[2]), '|') as findings,
  trim(fields[3]) as follow_up_text,
  trim(fields[4]) as patient_text,
  trim(fields[5]) as age_text,
  trim(fields[6]) as gender,
  trim(fields[7]) as view,
  {PATIENT} as named,
from (select *, string_split(text, ',') as fields from label_lines)
"""
# Whole years, rounded down: months, weeks and days count 12, 52 and 365 a year.
_TYPED: Final = f"""
create table labels as
select
  line,
  key,
  list_sort(list_filter(findings, lambda finding: finding <> '{NO_FINDING}')) as labels,
  try_cast(follow_up_text as int) as follow_up,
  try_cast(patient_text as int) as patient_id,
  try_cast(regexp_extract(age_text, '[0-9]+') as int) // case upper(right(age_text, 1))
    when 'M' then 12 when 'W' then 52 when 'D' then 365 else 1 end as years,
  years > {_OLDEST} as too_old,
  case when years <= {_OLDEST} then years end as age,
  nullif(gender, '') as gender,
  nullif(view, '') as view,
from label_rows
"""


def read_labels(database: Database, file: ListFile) -> None:
    """Make the table ``labels`` of a label CSV of either release.

    Its columns are ``line``, ``key`` (the file name), ``labels`` (findings, sorted), the attributes
    and ``too_old``, for an age out of range. What is missing is null.

    Raises:
        SourceError: the file cannot be read, is not the label CSV, or has a row that does not fit;
            the row's line is named.
    """
    read_lines(database, "label_lines", file)
    advice = "name the right file with --labels"
    width = take_header(database, "label_lines", file, _HEADER, advice)
    database.execute(_READ, {"width": width})
    require(database, "label_rows", file, _rules(width))
    database.execute(_TYPED)
    if not database.execute("select 1 from labels limit 1").fetchone():
        raise SourceError(
            f"{printable(file.place)} has no rows below its header; expected one an image; "
            "download it again"
        )


def _rules(width: int) -> Rules:
    """What is wrong with a row, and what is said of it."""
    known = one_of((*FINDINGS, NO_FINDING))
    unknown = f"list_filter(findings, lambda finding: not list_contains({known}, finding))"
    listed = "array_to_string(findings, '|')"
    whole = "[0-9]{1,9}"
    return {
        f"width not between {_LEAST} and {width}": (
            f"'has ' || width || ' fields; expected {_LEAST} to {width}'"
        ),
        "key = '' or contains(key, '/')": (
            "'names the image ''' || key || '''; expected a file name, such as 00000001_000.png'"
        ),
        f"len({unknown}) > 0": (
            f"'has the finding ''' || {unknown}[1] || '''; expected {', '.join(FINDINGS)} or "
            f"{NO_FINDING}, separated by |'"
        ),
        f"len(findings) > 1 and list_contains(findings, '{NO_FINDING}')": (
            f"'has ''' || {listed} || '''; expected {NO_FINDING} only by itself'"
        ),
        "len(list_distinct(findings)) < len(findings)": (
            f"'has ''' || {listed} || ''', one of them twice; expected each once'"
        ),
        f"not regexp_full_match(follow_up_text, '({whole})?')": (
            "'has the follow-up ''' || follow_up_text || '''; expected a whole number'"
        ),
        f"not regexp_full_match(patient_text, '{whole}')": (
            "'has the patient ''' || patient_text || '''; expected a whole number'"
        ),
        "try_cast(patient_text as int) <> named": (
            "'says that ' || key || ' is of patient ' || patient_text || '; expected patient ' || "
            "named || ', with whose number the name begins'"
        ),
        f"not regexp_full_match(age_text, '({whole}[YMWDymwd]?)?')": (
            "'has the age ''' || age_text || '''; expected years, such as 58 or 058Y, or months, "
            "weeks or days, such as 012M, 006W or 003D'"
        ),
    }
