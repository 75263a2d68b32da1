"""Reading a list into a table of SQL, and naming the first line of it that breaks a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import duckdb

from dataprep.datasets.chestxray14.files import ListFile
from dataprep.errors import SourceError
from dataprep.index.database import Database, quoted
from dataprep.system.messages import printable

Rules = Mapping[str, str]
"""What is wrong with a line, and what then is said of it: SQL, the first that holds counts."""

# Fields of a line up to the last that is not empty: headers end in commas, and so do rows that a
# spreadsheet saved.
FILLED: Final = "len(rtrim(text, ', ')) - len(replace(rtrim(text, ', '), ',', '')) + 1"

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


def read_lines(database: Database, table: str, file: ListFile) -> None:
    """Make a table of the lines of a list that are not blank.

    Its columns are ``line`` (from 1) and ``text``.

    Raises:
        SourceError: the file cannot be read, or is not UTF-8.
    """
    file.check()
    try:
        database.execute(_LINES.format(table=table, path=quoted(file.path)))
    except duckdb.InvalidInputException as error:
        raise file.wrong_encoding() from error


def take_header(database: Database, table: str, file: ListFile, expected: str, advice: str) -> int:
    """Take the first line away; how many fields it has.

    Args:
        database: what has the table.
        table: of `read_lines`.
        file: what it was read from.
        expected: what the right header begins with.
        advice: what to do, for the message.

    Raises:
        SourceError: it is another file.
    """
    lines = database.execute(f"select line, text, {FILLED} from {table} order by line limit 1")
    line, text, filled = lines.fetchone() or (1, "", 0)
    if not text.replace("Patient Sex", "Patient Gender").startswith(expected):
        raise SourceError(
            f"line {line} of {printable(file.place)} is {printable(text[:100])!r}; expected the "
            f"header {expected} of the NIH's list; {advice}"
        )
    database.execute(f"delete from {table} where line = {line}")
    return int(filled)


def require(database: Database, table: str, file: ListFile, rules: Rules) -> None:
    """Refuse the first line that breaks a rule.

    Raises:
        SourceError: there is one.
    """
    cases = " ".join(f"when {wrong} then {words}" for wrong, words in rules.items())
    broken = database.execute(
        f"select line, problem from (select line, case {cases} end as problem from {table}) "
        "where problem is not null order by line limit 1"
    ).fetchone()
    if broken:
        line, problem = broken
        raise SourceError(
            f"line {line} of {printable(file.place)} {printable(problem)}; correct it or download "
            "the list again"
        )


def one_of(names: tuple[str, ...]) -> str:
    """A list of names, in SQL."""
    return f"[{', '.join(map(quoted, names))}]"
