"""Lists that come with images: CSV, TSV, JSON lines, Parquet, plain lines.

The database reads them: cells are text, in the order of the file. A data set says which columns
it needs; whatever is wrong is said with the name of the list and the line.
"""

from __future__ import annotations

import csv
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Final

from dataprep.datasets.base import Classes
from dataprep.datasets.raw_directory import leads_out
from dataprep.errors import SourceError
from dataprep.system.messages import counted, printable, some_of, unreadable
from dataprep.system.regular_files import open_regular, read_regular
from dataprep.tables.database import identifier, open_database, quoted

# What a list is, by the suffix of its name.
FORMATS: Final = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
}
_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
_LONGEST_LINE: Final = 1 << 21  # of a header; the database takes lines of 2 MB
_SHOWN: Final = 20  # columns in a message
READ_LINES: Final = (  # no byte of a line but its end means anything
    "(select rtrim(coalesce(line, ''), chr(13)) as line from read_csv({file}, auto_detect=false, "
    "hive_partitioning=false, header=false, strict_mode=false, delim='\x01', quote='', escape='', "
    "columns={{'line': 'VARCHAR'}}))"
)
_IMAGE: Final = r"STRUCT\(.*\bpath VARCHAR\b.*\)"
_WHOLE: Final = re.compile("[+-]?[0-9]{1,4000}")  # more digits Python reads as no number
_NUMBERED: Final = re.compile(r"[^\t]*[ \t][0-9]+[ \r]*", re.ASCII)
_RAGGED: Final = ", strict_mode=false, null_padding=true, parallel=false"


class ListFile:
    """A list.

    Args:
        form: one of `FORMATS`.
        ragged: whether the rows of a CSV may have fewer or more cells than its header; missing
            ones are null.

    Attributes:
        path: where it is.
        paths: the files that it is in: that, or several.
        name: what messages call it.
        columns: their names, in order; of plain lines ``path`` and ``label``.
        described: what was understood of it, for the terminal; empty if that is plain.
        bare: whether plain lines are paths alone: the label is then the first folder of each.

    Raises:
        SourceError: it cannot be read, or has no header.
    """

    described = ""

    def __init__(self, path: Path, form: str, *, ragged: bool = False) -> None:
        self.path = path
        self.paths: tuple[Path, ...] = (path,)
        self.name = printable(path.name)
        self.form = form
        self._file = quoted(path)
        self._more = _RAGGED if ragged else ""
        self._with_path: set[str] = set()
        self.bare = False
        try:
            self.columns = self._there = self._column_names()
        except UnicodeDecodeError as error:
            raise _not_utf8(self.name) from error
        except OSError as error:
            raise unreadable(str(path), error) from error
        except (ValueError, csv.Error) as error:
            raise SourceError(f"{self.name}, line 1: {error}; correct the list") from error

    @property
    def has_json(self) -> bool:
        """Whether cells have types, and may be lists."""
        return self.form in ("jsonl", "parquet")

    def require(self, column: str, advice: str) -> None:
        """Make sure that there is one column of that name.

        Args:
            advice: what to do where there is none, for the message.

        Raises:
            SourceError: there is none, or more than one.
        """
        if (count := self.columns.count(column)) != 1:
            shown = ", ".join(map(_called, self.columns[:_SHOWN]))
            if more := len(self.columns[_SHOWN:]):
                shown += f" and {more} more"
            folded = {name.lower(): name for name in self.columns if not count}
            close = get_close_matches(column.lower(), folded, n=1)
            close = close or [each for each in folded if column.lower() in re.split(r"\W", each)]
            meant = f"; did you mean {_called(folded[close[0]])}?" if close else ""
            if len(self.columns) == 1 and ";" in self.columns[0]:
                meant = "; are its cells separated by ; where commas are expected?"
            if leads_out(self.path.parent, self.path.name):
                shown, meant = "others, in a link that leads out of its directory", ""
            raise SourceError(
                f"{self.name} has {count or 'no'} columns {_called(column)}, expected one; it "
                f"has {shown}{meant}; {advice}"
            )

    def cells(
        self, wanted: Mapping[str, str], *, as_json: Collection[str] = ()
    ) -> tuple[str, dict[str, object]]:
        """A query for cells, and its parameters.

        Args:
            wanted: columns of the list, by what the query calls them; nothing but null for those
                without a name.
            as_json: which of them are JSON, where `has_json`.

        Returns:
            SQL that has the columns wanted, as text, and ``blank``: whether a line says nothing.
        """
        if self.form == "txt":
            # A path may have spaces, and so has that of Caffe's convert_imageset.
            parts = "regexp_extract(line, '^(.*)[ \t]([^ \t]*)$', {})"
            places = [parts.format(1), parts.format(2)]
            if self.bare:
                places = ["line", "regexp_extract(trim(line), '^([^/]*)/', 1)"]
        else:  # their own names may be any text, and the same twice
            places = [f"c{place}" for place in range(len(self._there))]
        blank = "false"
        if self.form == "parquet":
            source = f"{self._parquet} as given({', '.join(places)})"
        elif self.form in _DELIMITERS:
            columns = ", ".join(f"'{place}': 'VARCHAR'" for place in places)
            # An empty cell is empty text; null is only what a row does not have.
            source = (
                f"read_csv({self._file}, auto_detect=false, hive_partitioning=false, header=true, "
                f"delim='{_DELIMITERS[self.form]}', quote='\"', escape='\"', nullstr='\x01', "
                f"columns={{{columns}}}{self._more})"
            )
        else:
            blank, source = "trim(line, ' ' || chr(9)) = ''", READ_LINES.format(file=self._file)
            if self.form == "jsonl":
                source = f"(select line, try_cast(line as json) as object from {source})"
        named, values = [f"{blank} as blank"], dict[str, object]()
        for number, (name, column) in enumerate(wanted.items()):
            cell = places[self._there.index(column)] if column in self._there else "null::varchar"
            if column and self.form == "jsonl":
                extract = "json_extract" if name in as_json else "json_extract_string"
                cell = f"{extract}(object, $field{number})"
                values[f"field{number}"] = _pointer(column)
            elif column and self.form == "parquet":
                # Of Hugging Face's images and files, what says where they are.
                cell = f"{cell}.path" if column in self._with_path else cell
                cell = f"to_json({cell})" if name in as_json else f"{cell}::varchar"
            named.append(f"{cell} as {identifier(name)}")
        return f"select {', '.join(named)} from {source}", values

    def wrong(self, row: int, reason: str) -> SourceError:
        """What is wrong with a row, named as an editor shows it: in CSV, cells may have lines.

        Args:
            row: from 0, the header not counted.
        """
        place = f"{'row' if self.form == 'parquet' else 'line'} {row + 1}"
        if self.form in _DELIMITERS:
            with self.path.open(encoding="utf-8", errors="replace", newline="") as text:
                reader = csv.reader(text, delimiter=_DELIMITERS[self.form])
                next(islice(filter(None, reader), row + 1, None))
                place = f"line {reader.line_num}"
        return SourceError(f"{self.name}, {place}: {printable(reason)}; correct the list")

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Say in one line what the database cannot read, and where."""
        import duckdb
        import pyarrow as pa

        try:
            yield
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            text = str(error).strip()
            place, reason = self.name, text.partition("\n")[0]
            if line := re.search(r"on Line: (\d+)", reason):
                place = f"{self.name}, line {line[1]}"
                # Not the line itself, which may be anybody's: the last before the advice.
                reason = text.partition("\nPossible")[0].rstrip().rpartition("\n")[2]
            if "not utf-8 encoded" in reason:
                raise _not_utf8(place) from error
            if "state machine" in reason:
                reason = "lines end in different ways; expected LF or CR LF throughout"
            raise SourceError(f"{place}: {printable(reason)}; correct the list") from error

    def _column_names(self) -> list[str]:
        """The names in its header, a line, or, in JSON, of its first object."""
        if self.form == "parquet":
            with (
                open_regular(self.path),
                open_database(None, [self.path]) as database,
                self.explaining(),
            ):
                found = database.execute(f"describe select * from {self._parquet}").fetchall()
            self._with_path = {it for it, kind, *_ in found if re.fullmatch(_IMAGE, kind)}
            return [name for name, *_ in found]
        with open_regular(self.path) as file:
            line = file.readline(_LONGEST_LINE).decode("utf-8-sig")
        if "\0" in line:
            raise ValueError("UTF-16 or no text; save it as UTF-8")
        if self.form == "txt":
            self.bare = "/" in line and not re.search("[ \t]", line.strip())
            return ["path", "label"]
        if self.form == "jsonl":
            value = json.loads(line)
            if not isinstance(value, dict):
                raise ValueError("expected one JSON object a line")
            return list(value)
        if not line.strip():
            raise ValueError("found nothing, expected a header and then one image a line")
        return next(csv.reader([line], delimiter=_DELIMITERS[self.form]))

    @property
    def _parquet(self) -> str:
        return f"read_parquet({self._file}, binary_as_string=true, hive_partitioning=false)"


def read_lines(path: Path) -> dict[int, str]:
    """The lines of a small list that are not blank, by number from 1.

    Raises:
        SourceError: it cannot be read, or is not UTF-8.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_utf8(printable(path.name)) from error
    except OSError as error:
        raise unreadable(str(path), error) from error
    return {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}


@dataclass(frozen=True, slots=True)
class ClassList:
    """The classes of a data set, in the order of their labels."""

    # What messages call the list.
    place: str = field(repr=False)  # the same classes elsewhere are the same list
    classes: tuple[tuple[str, str], ...]  # (identifier, name), by 0-based index
    forms: dict[str, str] = field(repr=False)  # the identifiers by their NFC

    def named(self, name: str) -> str | None:
        """The identifier of a class, however Unicode composes its name; None: there is none."""
        return self.forms.get(unicodedata.normalize("NFC", name))


def in_order(classes: Iterable[str]) -> list[str]:
    """Names of classes as they are numbered: sorted; by value if all are whole numbers.

    ``nan`` beside these is the last.
    """
    names = sorted(classes)
    numbers = {name: int(name) for name in names if _WHOLE.fullmatch(name)}
    if all(name in numbers or name.lower() == "nan" for name in names):
        names.sort(key=lambda name: numbers.get(name, math.inf))
    return names


def one_form(names: Iterable[str]) -> dict[str, str]:
    """What each name is called: of names that differ in Unicode's form alone, all NFC.

    Every other name is called what it is, in whatever form.
    """
    forms: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        forms.setdefault(unicodedata.normalize("NFC", name), []).append(name)
    return {name: form if len(same) > 1 else name for form, same in forms.items() for name in same}


def classes_by_name(found: Collection[str], *, of_folders: bool = False) -> Classes:
    """Classes that are called so, in order, and what may be a surprise.

    Raises:
        SourceError: one is -1 or ``nan`` beside whole numbers, as where nobody knows the class;
            unless they are folders.
    """
    forms = one_form(found)
    names = in_order({*forms.values()})
    if not of_folders:
        refuse_unknown(names)
    said = "; ".join(filter(None, (about_forms(forms), about_numbers(names))))
    named = [(name, name) for name in names]
    return Classes(named, forms if about_forms(forms) else {}, said)


def about_forms(forms: Mapping[str, str]) -> str:
    """What to say of names that `one_form` has made the same; else nothing."""
    merged = {form for name, form in forms.items() if name != form}
    return f"spelled in two forms of Unicode, and one class: {some_of(merged)}" if merged else ""


def about_numbers(names: Sequence[str]) -> str:
    """What to say of classes in order that are numbers, where labels are others; else nothing."""
    none = [name for name in names if name.lower() in ("-1", "nan")]
    said = [f"a class like any other: {some_of(none)}"] * bool(none)
    numbers = [name for name in names if _WHOLE.fullmatch(name)]
    if len(numbers) == len(names) and names != [*map(str, range(len(names)))]:
        said.append(
            f"labels are numbers from {names[0]} to {names[-1]}, and "
            f"{counted(len(names), 'class is', 'classes are')} numbered anew from 0; --classes "
            "FILE with every number, one a line, keeps them"
        )
    return "; ".join(said)


def refuse_unknown(names: Collection[str]) -> None:
    """Refuse -1 and ``nan`` beside whole numbers, as people write where nobody knows the class.

    Raises:
        SourceError: one is there.
    """
    none = sorted(name for name in names if name.lower() in ("-1", "nan"))
    numbers = {int(name) for name in names if _WHOLE.fullmatch(name)} - {-1}
    others = [name for name in names if name not in none and not _WHOLE.fullmatch(name)]
    if none and numbers and not others and min(numbers) >= 0 and (none, numbers) != (["-1"], {1}):
        raise SourceError(
            f"a label {none[0]} beside whole numbers up to {max(numbers)}; expected classes; if it "
            "means that nobody knows one, leave these images out, or, in `dataprep folder`, give "
            f"--no_label {none[0]}; if it is one, --classes FILE with a line {none[0]}"
        )


def _called(column: str) -> str:
    """A column's name, in quotes where it would not be told from others or from nothing."""
    text = printable(column)
    return text if text and text.strip() == text and "," not in text else f"'{text}'"


def load_class_list(path: Path) -> ClassList:
    """Read a list of classes: one a line, in the order of the labels; after a tab may be its name.

    Raises:
        SourceError: it is unreadable, empty or not UTF-8, names a class twice, or numbers them.
    """
    place, lines = printable(str(path)), read_lines(path)
    if not lines:
        raise SourceError(f"{place} is empty; expected one class a line")
    # Of `/a/airfield 0` the number would be taken for part of the class or for its name.
    if all(map(_NUMBERED.fullmatch, lines.values())):
        raise SourceError(
            f"{place}: a number ends every line; expected classes in the order of their labels; "
            "sort the lines by it and take it away, or put a TAB behind it if it is part of a class"
        )
    classes: dict[str, str] = {}
    forms: dict[str, str] = {}
    for number, line in lines.items():
        identifier, _, name = line.partition("\t")
        identifier = identifier.strip().strip("/")
        if (form := unicodedata.normalize("NFC", identifier)) in forms:
            raise SourceError(
                f"{place}, line {number}: class {printable(identifier)} is there already; "
                "expected each class once; remove one of them"
            )
        forms[form] = identifier
        classes[identifier] = name.strip() or identifier
    return ClassList(place, tuple(classes.items()), forms)


def _not_utf8(place: str) -> SourceError:
    return SourceError(f"{place} is not UTF-8; save it as UTF-8")


def _pointer(name: str) -> str:
    """A JSON pointer (RFC 6901) to a field."""
    return "/" + name.replace("~", "~0").replace("/", "~1")
