"""What ``--exclude`` names: images to leave out, from a CSV or a plain list."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from dataprep.errors import UsageError
from dataprep.system.messages import counted, printable
from dataprep.system.regular_files import read_regular
from dataprep.tables.database import Database, make_table
from dataprep.tables.decisions import Decision
from dataprep_schemas.state import ExcludedNames

_EXPECTED: Final = (
    "expected a CSV with the columns split and key, as `dataprep lint --write_exclude` writes it, "
    "or one name a line"
)

NOT_ONE: Final = "no image has, or several have"

# A name without a split may be in any, and one without a folder anywhere; but only in one place.
_EXCLUDED: Final = """
create temp table places as
select named.name, named.split as named_split, found.split, found.key
from named join found on found.key = named.name
where named.split is null or named.split = found.split
qualify count(*) over (partition by named.name, named.split) = 1;
insert into places
select name, named_split, split, key from (
    select named.name, named.split as named_split, found.split, found.key
    from named join found on parse_filename(found.key) = named.name
    where (named.split is null or named.split = found.split)
    and not exists (from found as exact where exact.key = named.name
                    and (named.split is null or named.split = exact.split))
) qualify count(*) over (partition by name, named_split) = 1;
create temp table excluded as select * from found semi join places using (split, key);
create view images as select * from found anti join places using (split, key)
"""


def read_exclude(path: Path) -> pa.Table:
    """The names in the file: ``name``, and ``split``, which is null where none is said.

    Raises:
        UsageError: it cannot be read, or is neither.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
        lines = [line.rstrip("\r\n") for line in io.StringIO(text, newline="")]
    except UnicodeDecodeError as error:
        raise _unusable(path, "it is not UTF-8") from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    header = [name.strip() for row in csv.reader(lines[:1]) for name in row]
    if {"split", "key"} <= {*header}:
        rows = _rows(path, text, header.index("split"), header.index("key"))
    elif {"split", "key"} & {*re.split("[,;|\t ]+", ",".join(header))} or ";" in ",".join(header):
        raise _unusable(path, f"its first line is {printable(lines[0][:100])!r}")
    else:
        rows = [(None, line.strip()) for line in lines if line.strip()]
    distinct = [*dict.fromkeys(rows)]
    splits, names = [split for split, _ in distinct], [name for _, name in distinct]
    return _named(splits, names)


def names_left_out(path: Path | None, decisions: Iterable[Decision]) -> pa.Table:
    """Those in a file, and those of images that somebody decided to leave out.

    Raises:
        UsageError: the file cannot be used.
    """
    found = [(it.split or None, it.key) for it in decisions if it.decision == "leave_out"]
    said = _named([split for split, _ in found], [key for _, key in found])
    both = said if path is None else pa.concat_tables([read_exclude(path), said])
    return both.group_by(["split", "name"]).aggregate([])  # each once


def _named(splits: Sequence[str | None], names: Sequence[str]) -> pa.Table:
    return pa.table({"split": pa.array(splits, pa.string()), "name": pa.array(names, pa.string())})


def _rows(path: Path, text: str, split: int, key: int) -> list[tuple[str | None, str]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        next(rows)
        return [(row[split] or None, row[key]) for row in rows if row]
    except (csv.Error, IndexError) as error:
        raise _unusable(path, f"line {rows.line_num} has too few cells, or odd ones") from error


def leave_out(database: Database, names: pa.Table) -> None:
    """Make the tables ``named``, ``excluded`` and ``images`` of those ``found``.

    Args:
        names: as `read_exclude` gives them.
    """
    make_table(database, "named", names)
    database.execute(_EXCLUDED)


def describe_excluded(found: ExcludedNames) -> str:
    """How many images ``--exclude`` leaves out, and how many names there are not of one."""
    return f"{counted(found.images, 'image')} left out (--exclude){describe_unknown(found)}"


def describe_unknown(found: ExcludedNames) -> str:
    """How many names there are not of one image; empty if all are."""
    return f"; {counted(found.unknown, 'name')} there that {NOT_ONE}" if found.unknown else ""


def _unusable(path: Path, what: str) -> UsageError:
    return UsageError(f"--exclude {path} cannot be used: {what}; {_EXPECTED}")
