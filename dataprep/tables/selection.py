"""The images of finished data sets, chosen and changed by SQL, as an order is made of them.

What decides where an image goes, its key, split and labels, is in the table of records, and so is
what a condition is about. Columns that a job needs beside those of the table have a space in their
names, which no column of a data set has.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from dataprep.errors import DatasetError, UsageError
from dataprep.system.messages import counted, printable, some_of
from dataprep.system.regular_files import read_regular
from dataprep.tables.chosen import Selection
from dataprep.tables.database import (
    Database,
    column_list,
    identifier,
    make_table,
    open_database,
    rows,
    tables,
)
from dataprep.tables.decisions import LEFT_OUT_REASON, moved_reason
from dataprep.tables.exclude import leave_out, names_left_out
from dataprep.tables.images import LEFT_OUT
from dataprep.tables.label_sets import rename_labels
from dataprep.tables.questions import explained, sampled
from dataprep.tables.records import KEPT_COLUMNS
from dataprep_schemas.fields import BOX_LABELS, UNCERTAIN, Fields
from dataprep_schemas.manifest import Input
from dataprep_schemas.state import ExcludedNames
from dataprep_schemas.tables import RECORDS

SOURCE: Final = "source number"
ROW: Final = "row number"
STORED_KEY: Final = "stored key"
STORED_LABELS: Final = "stored labels"

RECORDED_COLUMNS: Final = (
    *(SOURCE, ROW, STORED_KEY, STORED_LABELS),
    *("key", "container", "xxh3", *KEPT_COLUMNS),
)
"""What an order of images of finished sets has of each besides ``labels`` and its own columns.

Which of the sets it is in, and in which row of its table of records, both from 0; and the key and
the labels that it has there, where it is to have others.
"""

_BATCH: Final = 1 << 16  # rows

_OF_SOURCE: Final = """
select {number}::integer as "source number", file_row_number as "row number",
    * exclude (file_row_number)
from {table} where position is not null{rejected}
"""

# What was not in them, but for images that are among those above.
_UNSTORED: Final = """
select * exclude (shard) from {table} where position is null{rejected}
"""
_OF_SPLITS: Final = "from others where $splits is null or split is null or split in $splits"

_FOUND: Final = """
create view found as
select key as "stored key", labels as "stored labels",
    * exclude (shard, position) replace (classes as labels) from taken
"""

# Each line is about the images that have its key; an image may get labels, a split, or both.
_RELABELLED: Final = """
create view gone as from found anti join images using (split, key);
create temp table asked as
select wanted.line, images.split, images.key, wanted.labels, wanted.place from wanted join images
on images.key = wanted.key and (wanted.split is null or wanted.split = images.split);
create temp table relabelled as
select split, key, any_value(labels) as labels, any_value(place) as place from asked
group by split, key
"""
_SAID_TWICE: Final = """
select split, key from asked group by split, key
having count(distinct labels) > 1 or count(distinct place) > 1 order by all limit 1
"""

_CHANGED: Final = """
create view {name} as
select images.* replace ({key} as key, {split} as split{labels}) from images
"""
_JOINED: Final = "left join relabelled using (split, key)"
_LABELS: Final = ", coalesce(relabelled.labels, images.labels) as labels"
# Who gives an image labels is certain of them.
_CERTAIN: Final = (
    f", if(relabelled.labels is null, images.{UNCERTAIN.name}, null) as {UNCERTAIN.name}"
)

# Evaluated once, whatever it is: what a condition says could differ from time to time.
_TAKEN: Final = """
create view taken as
from recorded semi join taken_rows using ("source number", "row number")
"""

_DIFFERENT: Final = """
select count(*) filter (
    where list_sort(coalesce(fresh.labels, [])) <> list_sort(coalesce(images.labels, []))),
    count(*) filter (where fresh.split <> images.split)
from fresh join images using ("source number", "row number")
"""

_GONE: Final = """
select count(*) from gone semi join wanted
on gone.key = wanted.key and (wanted.split is null or wanted.split = gone.split)
"""

# An image that was moved is known of where it was, too.
_MOVED: Final = """
select relabelled.key, relabelled.split, 'excluded' as status, {reason} as reason
from relabelled join images using (split, key)
semi join chosen using ("source number", "row number")
where place <> split order by relabelled.split, relabelled.key
"""

_TWICE: Final = """
select split, key, list(distinct "source number") from fresh
group by split, key having count(*) > 1 order by split, key limit 1
"""

_DIGEST: Final = """
select split, count(*), coalesce(sum(bytes), 0)::bigint, printf('%032x', bit_xor(md5_number(concat(
    key, chr(0), bytes, chr(0), array_to_string(labels, '|'), chr(0), xxh3{fields}
)))) from chosen group by split order by split
"""


@contextmanager
def open_selection(
    found: Sequence[Path], scratch: Path, *, rows: int, rejected: bool
) -> Iterator[Database]:
    """A database with the table ``recorded``: the images of finished sets, one after the other.

    And ``others``: those that they know of and do not have.

    Args:
        scratch: a directory for what does not fit into memory.
        rows: about how many images there are.
        rejected: whether those that could not be used are among them.
    """
    more, less = (" or status = 'rejected'", " and status <> 'rejected'") if rejected else ("", "")
    parts = [
        _OF_SOURCE.format(number=number, table=tables([path], numbered=True), rejected=more)
        for number, path in enumerate(found)
    ]
    others = [_UNSTORED.format(table=tables([path]), rejected=less) for path in found]
    with open_database(scratch, found, rows=rows) as database:
        database.execute(f"create view recorded as {' union all by name '.join(parts)}")
        database.execute(f"create view others as {' union all by name '.join(others)}")
        yield database


def take(
    database: Database,
    chosen: Selection,
    known: Sequence[str],
    *,
    split_of: Callable[[str], str] = str,
    several: bool = False,
) -> None:
    """Make the table ``fresh`` of what is taken, with names of classes as its labels.

    Args:
        known: identifiers of all classes that there may be.
        split_of: the split that a cell of the column means.
        several: whether there are several data sets.

    Raises:
        UsageError: the condition, a column or a file cannot be used.
        DatasetError: two images would have the same name.
    """
    _take(database, chosen)
    if chosen.exclude is None and chosen.decisions is None:
        database.execute("create view images as from found")
    else:
        leave_out(database, names_left_out(chosen.exclude, chosen.decided))
    labels, joined = "", ""
    if chosen.relabel is not None or chosen.decisions is not None:
        _make_wanted(database, chosen, {*known, *chosen.renamed} - {""})
        database.execute(_RELABELLED)
        _check_relabelled(database)
        labels, joined = _LABELS, _JOINED
        if UNCERTAIN.name in _columns(database, "images"):
            labels += _CERTAIN
    key = "images.key"
    if chosen.names:
        database.execute("set variable names = $names", {"names": [*chosen.names]})
        key = "getvariable('names')[images.\"source number\" + 1] || '/' || images.key"
    split = "images.split"
    renamed = chosen.renamed
    if chosen.split_by:
        cell = f"images.{identifier(chosen.split_by)}::varchar"
        found = rows(database, f"select distinct {cell} as cell from images where cell <> ''")
        named = {text: split_of(text) for (text,) in found}
        query = "set variable split_names = map($cells::varchar[], $names::varchar[])"
        database.execute(query, {"cells": [*named], "names": [*named.values()]})
        split = f"getvariable('split_names')[{cell}]"
    if joined:
        split = f"coalesce(relabelled.place, {split})"
    name = "called" if renamed else "fresh"
    database.execute(_CHANGED.format(name=name, key=key, split=split, labels=labels) + joined)
    if renamed:
        _check_certain(database, renamed)
        rename_labels(database, name, "fresh", renamed)
    moves = several or chosen.split_by or chosen.decided
    for name, one, places in rows(database, _TWICE) if moves else ():
        remedy = "leave one out with --exclude, or keep their splits"
        if len(places) > 1:
            remedy = "give each data set a name, which is put before its keys: a=SRC b=SRC"
        where = f"{printable(name)}: {printable(one)}" if name else printable(one)
        raise DatasetError(f"{where} would be there twice; {remedy}")


def _columns(database: Database, table: str) -> list[str]:
    """A data set's columns of a table."""
    return [name for name, *_ in rows(database, f"describe {table}") if " " not in name]


def _take(database: Database, chosen: Selection) -> None:
    import duckdb

    known = _columns(database, "recorded")
    if chosen.split_by and chosen.split_by not in known:
        raise UsageError(
            f"--split_by: there is no column {printable(chosen.split_by)}; expected one of "
            f"{', '.join(known)}"
        )
    taken = database.view("recorded")
    if chosen.splits is not None:
        database.execute("set variable splits = $splits", {"splits": [*chosen.splits]})
        taken = taken.filter("split in getvariable('splits')")
    if chosen.where is None:
        taken.create_view("taken")
    else:
        with explained(lambda: known):
            found = taken.filter(duckdb.SQLExpression(chosen.where))
            found.project(f'"{SOURCE}", "{ROW}"').create("taken_rows")
        database.execute(_TAKEN)
    database.execute(_FOUND)


def _check_relabelled(database: Database) -> None:
    """Every line is about one image, or about one that is left out; no two say different things."""
    found = rows(
        database,
        "select option, wanted.key, count(asked.key) from wanted left join asked using (line) "
        "where asked.key is not null or not exists (from gone where gone.key = wanted.key "
        "and (wanted.split is null or wanted.split = gone.split)) "
        "group by line, option, wanted.key having count(asked.key) <> 1 order by all",
    )
    for option in sorted({option for option, *_ in found})[:1]:
        odd = [(key, number) for which, key, number in found if which == option]
        names = some_of([f"{printable(key)} ({counted(number, 'image')})" for key, number in odd])
        raise UsageError(
            f"{option}: {counted(len(odd), 'line')} not about one image that is taken: "
            f"{names}; correct or remove them"
        )
    for split, key in rows(database, _SAID_TWICE):
        raise UsageError(
            f"{printable(split)}: {printable(key)} gets two different labels or splits; keep one "
            "line about it, in --relabel or --decisions"
        )


def _check_certain(database: Database, renamed: Mapping[str, str]) -> None:
    """No class is renamed that an image's fields name, unless they can be changed."""
    if "" in renamed.values() and BOX_LABELS.name in _columns(database, "called"):
        raise UsageError(
            "--decisions: a class without a new name, and images have boxes of classes, which "
            "need one; expected the class that they are of"
        )
    torn = {*renamed} & uncertain_classes(database, "called")
    if torn:
        raise UsageError(
            f"--decisions: {printable(min(torn))} is an uncertain label of some images, which "
            "keep its name; rename it in what the data set was made from"
        )


def uncertain_classes(database: Database, table: str) -> set[str]:
    """The classes that images are uncertain of."""
    if UNCERTAIN.name not in _columns(database, table):
        return set()
    query = f"select distinct unnest(string_split({UNCERTAIN.name}, '|')) from {table}"
    return {name for (name,) in rows(database, query)}


def emptied(database: Database, chosen: Selection) -> set[str]:
    """The classes that images were of, or were to be of, and that none of ``fresh`` is of."""

    def classes(table: str) -> set[str]:
        return {name for (name,) in rows(database, f"select distinct unnest(labels) from {table}")}

    if BOX_LABELS.name in _columns(database, "fresh"):
        return set()  # boxes have classes of their own
    there = classes("fresh") | uncertain_classes(database, "fresh")
    return (classes("found") | {*chosen.renamed.values()}) - there


_WANTED: Final = pa.schema(
    [
        *(("line", pa.int64()), ("option", pa.string()), ("split", pa.string())),
        *(("key", pa.string()), ("labels", pa.list_(pa.string())), ("place", pa.string())),
    ]
)


def _make_wanted(database: Database, chosen: Selection, known: set[str]) -> None:
    """Make the table ``wanted``: which image is to get which labels, or which split."""
    lines: list[dict[str, object]] = []
    if chosen.relabel is not None:
        option = f"--relabel {chosen.relabel}"
        lines += ({"option": option, **line} for line in _read_labels(chosen.relabel, known))
    for one in chosen.decided:
        line = {"option": "--decisions", "split": one.split or None, "key": one.key}
        if one.decision == "split":
            lines.append({**line, "place": one.value})
        elif one.decision == "label" and one.of_class is None:
            if unknown := one.labels - known:
                raise UsageError(
                    f"--decisions: {printable(one.key)}: no class {printable(min(unknown))}; "
                    "expected one of the data set, or the new name of one"
                )
            lines.append({**line, "labels": sorted(one.labels)})
    numbered = [{**line, "line": number} for number, line in enumerate(lines)]
    make_table(database, "wanted", pa.Table.from_pylist(numbered, schema=_WANTED))


def _read_labels(path: Path, classes: set[str]) -> list[dict[str, object]]:
    """The lines of a CSV with the columns key, label or labels, and perhaps split."""
    found: list[dict[str, object]] = []
    try:
        lines = csv.reader(io.StringIO(read_regular(path).decode("utf-8-sig"), newline=""))
        header = [name.strip() for name in next(lines, [])]
        column = next((name for name in ("labels", "label") if name in header), "")
        if "key" not in header or not column or len({*header}) < len(header):
            raise UsageError(
                f"--relabel {path}: expected columns key, label and perhaps split, each once; "
                f"found {', '.join(map(printable, header))[:200] or 'nothing'}"
            )
        for cells in filter(None, lines):
            row = dict(zip(header, cells, strict=True))
            labels = sorted({*map(str.strip, row[column].split("|"))} - {""})
            if unknown := [label for label in labels if label not in classes]:
                raise UsageError(
                    f"--relabel {path}, line {lines.line_num}: no class "
                    f"{printable(unknown[0])}; --classes gives another list of them"
                )
            found.append({"split": row.get("split") or None, "key": row["key"], "labels": labels})
    except (OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        raise UsageError(f"--relabel {path} cannot be used: {error}") from error
    return found


def sample(database: Database, chosen: Selection, splits: Sequence[str], seed: int) -> None:
    """Make the table ``chosen`` of `take`'s ``fresh``; call `number_label_sets` before."""
    database.execute("set variable splits = $splits", {"splits": [*splits]})
    if chosen.sample is None:
        database.execute("create view chosen as from fresh")
        return
    query, values = sampled(chosen.sample, "fresh", seed, stratify=chosen.stratify)
    database.execute(f"create temp table chosen as {query}", values)


def summaries(database: Database) -> dict[str, Input]:
    """Of each split of ``chosen``: images, their bytes as they are stored, a digest of them."""
    own = (name for name in _columns(database, "chosen") if name not in RECORDS)
    fields = "".join(f", chr(0), {identifier(name)}::varchar" for name in own)
    return {split: Input(*rest) for split, *rest in rows(database, _DIGEST.format(fields=fields))}


def splits(database: Database) -> list[str]:
    """Those that ``fresh`` has, sorted."""
    return [split for (split,) in rows(database, "select distinct split from fresh order by split")]


def left_out(database: Database) -> ExcludedNames:
    """What ``--exclude`` leaves out."""
    return ExcludedNames(*rows(database, LEFT_OUT, {"wanted": None})[0])


def in_several_splits(database: Database, column: str) -> list[tuple[int | str]]:
    """Values of a column, such as patients, of which ``fresh`` has images in several splits."""
    name = identifier(column)
    return rows(
        database,
        f"select {name} from fresh where {name} is not null group by all "
        "having count(distinct split) > 1 order by all",
    )


def count_changed(database: Database) -> tuple[int, int]:
    """How many images get other labels than they have; and how many come into another split."""
    ((relabelled, moved),) = rows(database, _DIFFERENT)
    return relabelled, moved


def count_found(database: Database) -> int:
    """How many images there are before any is left out."""
    return int(rows(database, "select count(*) from found")[0][0])


def count_gone(database: Database) -> int:
    """How many images would get other labels or another split, but are left out."""
    return int(rows(database, _GONE)[0][0])


def unstored(database: Database, chosen: Selection | None) -> Iterator[pa.Table]:
    """What is known of and not taken, as records: of the sets, and of a file that leaves some out.

    Args:
        chosen: what is taken; None: all.
    """
    splits = None if chosen is None or chosen.splits is None else [*chosen.splits]
    yield database.sql(_OF_SPLITS, params={"splits": splits}).to_arrow_table()
    if chosen is None or (chosen.exclude is None and chosen.decisions is None):
        return
    reason = "null" if chosen.decisions is None or chosen.exclude else f"'{LEFT_OUT_REASON}'"
    yield database.sql(
        f"select key, split, 'excluded' as status, {reason}::varchar as reason from excluded "
        "order by split, key"
    ).to_arrow_table()
    if chosen.decisions is not None:
        yield database.sql(_MOVED.format(reason=moved_reason("place"))).to_arrow_table()


def recorded_columns(fields: Fields) -> str:
    """The columns of an order of recorded images, as SQL over ``chosen`` and ``label_sets``."""
    changed = {
        STORED_KEY: 'nullif("stored key", key) as "stored key"',
        STORED_LABELS: 'nullif("stored labels", numbers) as "stored labels"',
    }
    taken = [changed.get(name) or column_list([name]) for name in RECORDED_COLUMNS]
    own = (identifier(field.name) for field in fields)
    return ", ".join(["numbers as labels", *taken, *own])


def as_recorded(
    database: Database, split: str, sizes: Sequence[int], columns: str
) -> Iterator[pa.Table]:
    """These columns of the images of a split, with their ``shard``, in the order that they have.

    Args:
        sizes: how many images each shard gets.
    """
    shards = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    query = (
        f"select {columns} from chosen join label_sets using (split, labels) "
        'where split = $split order by "source number", "row number"'
    )
    at = 0
    for batch in database.sql(query, params={"split": split}).to_arrow_reader(_BATCH):
        here = pa.array(shards[at : at + len(batch)])
        yield pa.Table.from_batches([batch]).add_column(0, "shard", here)
        at += len(batch)


def renumbered(
    before: Sequence[tuple[str, str]],
    now: Sequence[tuple[str, str]],
    called: Mapping[str, str],
) -> Mapping[int, int]:
    """The number that each class has now, by the one that it had; empty if all have theirs.

    Args:
        called: what a class is called now, by what it was called, where that differs.
    """
    if [name for name, _ in before] == [name for name, _ in now][: len(before)]:
        return {}
    numbers = {name: number for number, (name, _) in enumerate(now)}
    names = [called.get(name, name) for name, _ in before]
    return {at: numbers[name] for at, name in enumerate(names) if name in numbers}
