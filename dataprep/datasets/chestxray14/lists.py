"""The lists that come with ChestX-ray14: found, read into tables of SQL, checked, and joined.

Whatever a list has wrong is said with its line. They are small, so nothing is kept from one use to
the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataprep.datasets.chestxray14.options import FINDINGS, NO_FINDING
from dataprep.datasets.raw_directory import likely
from dataprep.datasets.splits import Cut
from dataprep.errors import SourceError
from dataprep.index.database import Database, open_database, quoted
from dataprep.system.messages import counted, printable, unreadable
from dataprep.system.state_files import file_sha256

if TYPE_CHECKING:
    import pyarrow as pa

# Earlier names win: the second release corrected ages and follow-up numbers.
LABELS: Final = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
_DOWNLOAD: Final = "CXR8"  # the folder that the whole download comes in

GRID: Final = 1024
"""The width and height, in pixels, of the published images, on which boxes are given."""

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks, which UTF-8 never has
_START: Final = 256  # bytes in which text in UTF-16 shows, mark or not
_OLDEST: Final = 120  # years
_MOST_PATIENTS: Final = 5  # in a message

_Rules = Mapping[str, str]
"""What is wrong with a line, and what then is said of it: SQL, the first that holds counts."""

# One column, since only so are blank lines counted. No published field has a comma in it, so quotes
# say nothing.
_LINES: Final = """
create table {table} as
select line, text
from (
  select row_number() over () as line, trim(replace(text, '"', '')) as text
  from read_csv({path}, columns = {{text: 'text'}}, delim = chr(1), quote = '', escape = '',
    header = false, auto_detect = false, strict_mode = false, parallel = false)
)
where text <> ''
"""
# Fields of a line up to the last that is not empty: headers end in commas, and so do rows that a
# spreadsheet saved.
_FILLED: Final = "len(rtrim(text, ', ')) - len(replace(rtrim(text, ', '), ',', '')) + 1"
_KNOWN: Final = f"[{', '.join(map(quoted, FINDINGS))}]"

# The patient that an image's file name says; null if it is not named that way.
_PATIENT: Final = "try_cast(regexp_extract(key, '^([0-9]{8})_[0-9]+[.][A-Za-z]+$', 1) as int)"
_LABEL_HEADER: Final = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position"
)
_LEAST: Final = 1 + _LABEL_HEADER.count(",")
# The header of 2017 has more fields than its rows, because commas in it are not quoted, so rows are
# read by position. Columns that end in _text are what numbers are read from.
_LABEL_ROWS: Final = f"""
create table label_rows as
select
  line,
  case when len(fields) <= $width then len(fields) else greatest({_FILLED}, $width) end as width,
  trim(fields[1]) as key,
  string_split(trim(fields[2]), '|') as findings,
  trim(fields[3]) as follow_up_text,
  trim(fields[4]) as patient_text,
  trim(fields[5]) as age_text,
  trim(fields[6]) as gender,
  trim(fields[7]) as view,
  {_PATIENT} as named,
from (select *, string_split(text, ',') as fields from label_lines)
"""
# Whole years, rounded down: months, weeks and days count 12, 52 and 365 a year.
_LABELS: Final = f"""
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
_UNKNOWN: Final = (
    f"list_filter(findings, lambda finding: not list_contains({_KNOWN} || ['{NO_FINDING}'], "
    "finding))"
)
_WHOLE: Final = "[0-9]{1,9}"
_LABEL_RULES: Final[_Rules] = {
    f"width not between {_LEAST} and $width": (
        f"'has ' || width || ' fields; expected {_LEAST} to ' || $width"
    ),
    "key = '' or contains(key, '/')": (
        "'names the image ''' || key || '''; expected a file name, such as 00000001_000.png'"
    ),
    f"len({_UNKNOWN}) > 0": (
        f"'has the finding ''' || {_UNKNOWN}[1] || '''; expected {', '.join(FINDINGS)} or "
        f"{NO_FINDING}, separated by |'"
    ),
    f"len(findings) > 1 and list_contains(findings, '{NO_FINDING}')": (
        f"'has ''' || array_to_string(findings, '|') || '''; expected {NO_FINDING} only by itself'"
    ),
    "len(list_distinct(findings)) < len(findings)": (
        "'has ''' || array_to_string(findings, '|') || ''', one of them twice; expected each once'"
    ),
    f"not regexp_full_match(follow_up_text, '({_WHOLE})?')": (
        "'has the follow-up ''' || follow_up_text || '''; expected a whole number'"
    ),
    f"not regexp_full_match(patient_text, '{_WHOLE}')": (
        "'has the patient ''' || patient_text || '''; expected a whole number'"
    ),
    "try_cast(patient_text as int) <> named": (
        "'says that ' || key || ' is of patient ' || patient_text || '; expected patient ' || "
        "named || ', with whose number the name begins'"
    ),
    f"not regexp_full_match(age_text, '({_WHOLE}[YMWDymwd]?)?')": (
        "'has the age ''' || age_text || '''; expected years, such as 58 or 058Y, or months, "
        "weeks or days, such as 012M, 006W or 003D'"
    ),
}

_SIDE_RULES: Final[_Rules] = {
    "not regexp_full_match(text, '[^/\\s]+')": (
        "'is ''' || text[:40] || '''; expected only an image''s file name, such as "
        "00000001_000.png'"
    ),
}
_SHARED: Final = f"""
select
  coalesce(patient_id, {_PATIENT}) as patient,
  min(key) filter (not test) as trained,
  min(key) filter (test) as tested,
from sides left join labels using (key)
group by patient
having patient is not null and trained is not null and tested is not null
order by patient
"""

_BOX_HEADER: Final = "Image Index,Finding Label,Bbox [x"  # commas in the header are not quoted
_BOX_ROWS: Final = f"""
create table box_rows as
select
  line,
  {_FILLED} as filled,
  trim(fields[1]) as key,
  replace(trim(fields[2]), 'Infiltrate', 'Infiltration') as finding,
  array_to_string(fields[3:], ',') as box,
  try_cast(fields[3] as double) as x,
  try_cast(fields[4] as double) as y,
  try_cast(fields[5] as double) as width,
  try_cast(fields[6] as double) as height,
from (select *, string_split(text, ',') as fields from box_lines)
"""
_BOXES: Final = """
create table boxes (
  line bigint, key text, finding text, xmin double, ymin double, xmax double, ymax double,
  clipped bool
)
"""
_CLIPPED: Final = f"""
insert into boxes select
  line,
  key,
  finding,
  greatest(x / {GRID}, 0.0::double) as xmin,
  greatest(y / {GRID}, 0.0::double) as ymin,
  least((x + width) / {GRID}, 1.0::double) as xmax,
  least((y + height) / {GRID}, 1.0::double) as ymax,
  x < 0 or y < 0 or x + width > {GRID} or y + height > {GRID} as clipped,
from box_rows
"""
# Not a number counts as greater than all others.
_INSIDE: Final = f"""
  x < {GRID} and y < {GRID} and width > 0 and height > 0 and x + width > 0 and y + height > 0
  and isfinite(x + width) and isfinite(y + height)
"""
_BOX_RULES: Final[_Rules] = {
    f"not list_contains({_KNOWN}, finding)": (
        f"'has the finding ''' || coalesce(finding, '') || '''; expected {', '.join(FINDINGS)}'"
    ),
    f"filled <> 6 or ({_INSIDE}) is not true": (
        "'has the box ''' || box || '''; expected x, y, width and height in pixels of an image of "
        f"{GRID} x {GRID}'"
    ),
}

_IMAGES: Final = """
create view images as
select labels.*, case when test then 'test' else split end as split
from labels left join sides using (key) left join cut using (patient_id)
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
    "box of a finding its image is not labelled with": (
        "select count(*) from boxes join images using (key) "
        "where split is not null and not list_contains(labels, finding)"
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
        passed_over: the older label CSV, if both are there; empty otherwise.
    """

    labels: Path
    sides: tuple[Path, ...]
    boxes: Path | None
    passed_over: str = ""

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


def find_lists(raw: Path, options: Mapping[str, str], official: bool) -> Lists:
    """Find the lists that the options name, or else those in the raw directory.

    Args:
        raw: the raw directory.
        options: the data set's options; of a list, its absolute path.
        official: whether the official split lists are wanted.

    Raises:
        SourceError: a list that is needed is not there, or one is no regular file.
    """
    labels = _required(raw, options, "labels", LABELS)
    names = ("train_val_list", "test_list") if official else ()
    sides = tuple(_required(raw, options, name, (f"{name}.txt",)) for name in names)
    older = raw / LABELS[1]
    both = "labels" not in options and labels.name != older.name and older.exists()
    boxes = _find(raw, options, "bbox_csv", ("BBox_List_2017.csv",))
    return Lists(labels, sides, boxes, older.name if both else "")


def likely_raw(raw: Path, names: Sequence[str]) -> Iterator[str]:
    """Directories below or above `raw` that hold one of these files, while `raw` does not."""

    def holds(directory: Path) -> bool:
        return any((directory / name).is_file() for name in names)

    return likely(raw, (_DOWNLOAD, *(path.name for path in sorted(raw.iterdir()))), 1, holds)


def read_listed(lists: Lists, cut: Cut) -> tuple[pa.Table, Mapping[str, int]]:
    """What the lists say of each image, as rows of the index, and what the user should know of.

    Raises:
        SourceError: a list cannot be used, or the official lists share a patient.
    """
    with _opened(lists, cut) as database:
        table = database.sql(_LISTED, params={"place": lists.labels.name}).to_arrow_table()
        counts = {what: _number(database, query) for what, query in _COUNTS.items()}
    return table, {what: count for what, count in counts.items() if count}


def describe(lists: Lists, cut: Cut) -> tuple[str, str, str]:
    """What the lists are and how much is in them: labels, splits, boxes; a line each.

    Raises:
        SourceError: as `read_listed`.
    """
    with _opened(lists, cut) as database:
        images = counted(_number(database, "select count(*) from labels"), "image")
        patients = _number(database, "select count(distinct patient_id) from labels")
        older = f"; {lists.passed_over} is there too and not read" if lists.passed_over else ""
        labels = f"{printable(lists.labels.name)}, {images} of {counted(patients, 'patient')}"
        boxes = "no list"
        if lists.boxes:
            marked = _number(database, "select count(distinct key) from boxes")
            boxes = (
                f"{printable(lists.boxes.name)}, "
                f"{_number(database, 'select count(*) from boxes'):,} on {counted(marked, 'image')}"
            )
        return (
            f"labels: {labels}{older}",
            f"splits: {_describe_splits(database, lists, cut)}",
            f"boxes: {boxes}",
        )


def _describe_splits(database: Database, lists: Lists, cut: Cut) -> str:
    # Rounded: 0.10000000000000001 is as good as a fraction of 17 digits would be unreadable.
    shares = " and ".join(f"{float(share):g} {split}" for split, share in cut.shares)
    if not lists.sides:
        return f"patients at random, {shares}, seed {cut.seed}"
    extra = _number(database, "select count(distinct key) from sides anti join labels using (key)")
    train_validation, test = (printable(side.name) for side in lists.sides)
    note = f"; {counted(extra, 'name')} in them without labels, left out" if extra else ""
    return (
        f"official, {train_validation} (of its patients {shares}, seed {cut.seed}) and {test}{note}"
    )


def _required(raw: Path, options: Mapping[str, str], option: str, names: tuple[str, ...]) -> Path:
    found = _find(raw, options, option, names)
    if found:
        return found
    advice = f"copy it there, or name it with --{option}"
    if option != "labels":
        advice += ", or use --split random-by-patient"
    if right := next(likely_raw(raw, names), None):
        advice = f"did you mean --raw_data_dir {printable(right)} ?"
    raise SourceError(
        f"no {' or '.join(names)} in {printable(str(raw))}; expected the list that comes with the "
        f"images; {advice}"
    )


def _find(
    raw: Path, options: Mapping[str, str], option: str, names: tuple[str, ...]
) -> Path | None:
    paths = [Path(options[option])] if option in options else [raw / name for name in names]
    for path in paths:
        if path.exists() and not path.is_file():  # a pipe could be read once only
            raise SourceError(
                f"{printable(str(path))} is not a regular file; expected the list itself; name it "
                f"with --{option}"
            )
        # A link that leads nowhere is there, and fails with its name when it is read.
        if option in options or path.is_symlink() or path.exists():
            return path
    return None


@contextmanager
def _opened(lists: Lists, cut: Cut) -> Iterator[Database]:
    """The lists as tables: ``labels``, ``sides``, ``cut``, ``boxes``, and together ``images``.

    Columns of ``labels`` are ``line``, ``key`` (the file name), ``labels`` (findings, sorted), the
    attributes and ``too_old``; of ``boxes`` the ``finding``, the sides as fractions of width and
    height within the image, and ``clipped``: whether the list has it reach beyond.
    """
    with open_database(Path(tempfile.gettempdir())) as database:
        _read_labels(database, lists.labels)
        _read_sides(database, lists.sides)
        _cut_patients(database, cut)
        database.execute(_BOXES)
        if lists.boxes:
            _read_boxes(database, lists.boxes)
        database.execute(_IMAGES)
        yield database


def _read_labels(database: Database, path: Path) -> None:
    _read_lines(database, "label_lines", path)
    width = _take_header(database, "label_lines", path, _LABEL_HEADER, "labels")
    database.execute(_LABEL_ROWS, {"width": width})
    rules = {wrong.replace("$width", str(width)): words for wrong, words in _LABEL_RULES.items()}
    rules = {wrong: words.replace("$width", f"'{width}'") for wrong, words in rules.items()}
    _require(database, "label_rows", path, rules)
    database.execute(_LABELS)
    if not _number(database, "select count(*) from labels"):
        raise SourceError(
            f"{printable(path.name)} has no rows below its header; expected one an image; "
            "download it again"
        )


def _read_sides(database: Database, sides: tuple[Path, ...]) -> None:
    """Make the table ``sides`` of the official lists: ``key`` (a file name), ``test`` or not.

    Without lists no image is one of the test, and the table has all that have labels.
    """
    database.execute("create table sides (key text, test bool)")
    if not sides:
        database.execute("insert into sides select key, false from labels")
        return
    for path, test in zip(sides, (False, True), strict=True):
        table = "test_lines" if test else "train_lines"
        _read_lines(database, table, path)
        _require(database, table, path, _SIDE_RULES)
        database.execute(f"insert into sides select distinct text, {test} from {table}")
        if not _number(database, f"select count(*) from {table}"):
            raise SourceError(
                f"{printable(path.name)} is empty; expected an image's file name a line, such as "
                "00000001_000.png; download the list again, or use --split random-by-patient"
            )
    if shared := database.execute(_SHARED).fetchall():
        named = [f"{patient} ({printable(a)} and {printable(b)})" for patient, a, b in shared]
        more = len(shared) - _MOST_PATIENTS
        raise SourceError(
            f"{counted(len(shared), 'patient')} {'is' if len(shared) == 1 else 'are'} in both "
            f"{' and '.join(printable(side.name) for side in sides)}: "
            f"{', '.join(named[:_MOST_PATIENTS])}{f' and {more} more' if more > 0 else ''}; "
            "expected each patient in one of them, or the test would be of patients seen in "
            "training; correct the lists or use --split random-by-patient"
        )


def _cut_patients(database: Database, cut: Cut) -> None:
    """Make the table ``cut``: the split of each patient that the lists leave to chance."""
    database.execute(
        f"create table cut as select distinct patient_id, {cut.split_sql('patient_id::text')} as "
        "split from labels join sides using (key) where not test"
    )


def _read_boxes(database: Database, path: Path) -> None:
    _read_lines(database, "box_lines", path)
    _take_header(database, "box_lines", path, _BOX_HEADER, "bbox_csv")
    database.execute(_BOX_ROWS)
    _require(database, "box_rows", path, _BOX_RULES)
    database.execute(_CLIPPED)


def _read_lines(database: Database, table: str, path: Path) -> None:
    """Make a table of the lines of a list that are not blank: ``line`` (from 1) and ``text``."""
    import duckdb

    wrong = SourceError(f"{printable(path.name)} is not UTF-8; save it as UTF-8")
    try:
        with open(path, "rb") as file:
            start = file.read(_START)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if start.startswith(_UTF_16) or b"\0" in start:
        raise wrong
    try:
        database.execute(_LINES.format(table=table, path=quoted(path)))
    except duckdb.InvalidInputException as error:
        raise wrong from error


def _take_header(database: Database, table: str, path: Path, expected: str, option: str) -> int:
    """Take the first line away, which begins as `expected`; how many fields it has."""
    lines = database.execute(f"select line, text, {_FILLED} from {table} order by line limit 1")
    line, text, filled = lines.fetchone() or (1, "", 0)
    if not text.replace("Patient Sex", "Patient Gender").startswith(expected):
        raise SourceError(
            f"line {line} of {printable(path.name)} is {printable(text[:100])!r}; expected the "
            f"header {expected} of the NIH's list; name the right file with --{option}"
        )
    database.execute(f"delete from {table} where line = {line}")
    return int(filled)


def _require(database: Database, table: str, path: Path, rules: _Rules) -> None:
    """Refuse the first line that breaks a rule."""
    cases = " ".join(f"when {wrong} then {words}" for wrong, words in rules.items())
    broken = database.execute(
        f"select line, problem from (select line, case {cases} end as problem from {table}) "
        "where problem is not null order by line limit 1"
    ).fetchone()
    if broken:
        line, problem = broken
        raise SourceError(
            f"line {line} of {printable(path.name)} {printable(problem)}; correct it or download "
            "the list again"
        )


def _number(database: Database, query: str) -> int:
    (number,) = database.execute(query).fetchone() or (0,)
    return int(number)
