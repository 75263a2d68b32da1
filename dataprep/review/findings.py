"""Running the rules of ``dataprep lint``, and writing down what to leave out."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa

from dataprep.errors import UsageError
from dataprep.review.near import FLATTEST, MOST_PAIRS, find_near_pairs, usual_distance
from dataprep.review.rules import (
    CONFLICTING,
    NEEDS_NEAR,
    NEEDS_PICTURES,
    RULES,
    Rule,
    Severity,
)
from dataprep.sealed.set import SealedSet
from dataprep.system.durable_files import write_beside
from dataprep.system.messages import counted, printable
from dataprep.tables.database import Database, identifier, make_table, open_database, rows, tables
from dataprep.tables.records import NAME, RecordsTable
from dataprep_schemas.fields import MASK
from dataprep_schemas.tables import patient_column

FINDING_COLUMNS: Final = ("rule", "level", "text", "split", "key", "images")
"""Of a table of findings: the image is the first, ``images`` all of them, as JSON."""

# Of the file that ``--write_exclude`` writes and ``--exclude`` reads.
EXCLUDE_COLUMNS: Final = ("split", "key", "rule", "instead_of")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule found.

    Attributes:
        text: what, in a line.
        images: split and key of each; the first is the one to keep, if any.
    """

    text: str
    images: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a rule found.

    Attributes:
        rule: its name.
        level: ``error``: results are wrong; ``warning``: they may be; ``note``: good to know.
        meaning: of a finding.
        count: how many findings there are.
        findings: the worst ones, as many as `show` allows.
    """

    rule: str
    level: Severity
    meaning: str
    count: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Excluded:
    """An image to leave out: why, and for which other image's sake."""

    split: str
    key: str
    rule: str
    instead_of: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What is odd, in numbers."""

    # Bits of 255 in which the hashes of nearly the same image may differ; None: what suits them.
    distance: int | None = None
    fewest: int = 10  # images of the smallest class of a split that is accepted
    imbalance: float = 10  # largest accepted ratio of a split's largest class to its smallest


def chosen_rules(names: Sequence[str] | None) -> tuple[Rule, ...]:
    """The rules of these names; all if None.

    Raises:
        UsageError: there is no such rule.
    """
    known = {rule.name: rule for rule in RULES}
    for name in names or ():
        if name not in known:
            raise UsageError(f"there is no rule {name!r}; expected some of {', '.join(known)}")
    return tuple(known[name] for name in (known if names is None else names))


@contextmanager
def opened(
    sealed: SealedSet,
    rules: Sequence[Rule] = (),
    limits: Limits = Limits(),
    advance: Callable[[int], None] = lambda _count: None,
) -> Iterator[tuple[Database, list[str]]]:
    """A database with the tables that these rules read, and lines on what they cannot find.

    Args:
        advance: told of each of `CHOICES` steps, if pairs are looked for.

    Raises:
        DatasetError: the table of records is damaged, or only a part of the data set is here.
    """
    sealed.require_whole("looked at")
    table = sealed.manifest.records_table
    RecordsTable(sealed.out, table).close()  # it is the one that was sealed
    remarks = []
    with (
        TemporaryDirectory(prefix="dataprep-lint-") as scratch,
        open_database(Path(scratch), [sealed.out / NAME], rows=table.rows) as database,
    ):
        _make_tables(database, sealed)
        database.execute(
            "create table limits as select $fewest as fewest, $imbalance as imbalance, "
            "$flattest as flattest",
            {"fewest": limits.fewest, "imbalance": limits.imbalance, "flattest": FLATTEST},
        )
        needs = {rule.name for rule in rules}
        ((unseen,),) = rows(database, "select count(*) from images where contrast is null")
        if unseen and needs & NEEDS_PICTURES:
            remarks.append(
                f"{counted(unseen, 'image')} not measured (made with --check header): look-alikes, "
                "blank and dark ones among them are not found"
            )
        if needs & NEEDS_NEAR:
            distance, why = limits.distance, None
            if distance is None:
                distance, why = usual_distance(database)
            remarks += [why] if why else []
            if not find_near_pairs(database, distance, advance):
                remarks.append(
                    f"more than {MOST_PAIRS:,} pairs look alike, and not all were found; such "
                    "images need a smaller --distance"
                )
        yield database, remarks


def _make_tables(database: Database, sealed: SealedSet) -> None:
    records, classes = sealed.out / NAME, sealed.manifest.classes
    patient = patient_column(sealed.info.fields)
    masks = [it for it in sealed.info.fields if it.kind == MASK.kind]
    numbers = [number for it in masks for number, _ in it.numbers]
    database.execute(
        "create table meant as select $numbers::bigint[] as numbers", {"numbers": numbers or None}
    )
    # Views: of fourteen million rows, a copy takes longer than all rules do.
    database.execute(
        "create table middles as select split, median(width::bigint * height) as middle "
        f"from {tables([records])} where position is not null group by split"
    )
    database.execute(
        "create view images as select file_row_number as number, split, key, labels, status, "
        "reason, bytes, height, width, xxh3, substr(phash, 1, 64) as phash, "
        "nullif(substr(phash, 65), '') as phash_cut, brightness, contrast, flat, middle, "
        f"{identifier(patient) if patient else 'null'}::varchar as patient, "
        f"{identifier(masks[0].name) if masks else 'null'}::bigint[][] as mask "
        f"from {tables([records], numbered=True)} join middles using (split) "
        "where position is not null"
    )
    database.execute(
        # Numbers first: they are grouped in half the time, and leave few of the hashes.
        "create table twice as select xxh3 from images where hash(xxh3) in "
        "(select hash(xxh3) from images group by 1 having count(*) > 1) "
        "group by xxh3 having count(*) > 1"
    )
    database.execute(
        "create table others as select split, key, status, reason, container "
        f"from {tables([records])} where position is null"
    )
    columns = {
        "number": range(len(classes)),
        "class": pa.array([identifier for identifier, _ in classes], pa.string()),
        "name": pa.array([name for _, name in classes], pa.string()),
    }
    make_table(database, "given", pa.table(columns))
    database.execute(
        "create table counted as select split, number, class, name, coalesce(images, 0) as images "
        "from (from given cross join (select distinct split from images)) "
        "left join (select split, number, count(*) as images "
        "from (select split, unnest(labels) as number from images) group by split, number) "
        "using (split, number)"
    )


def conflicting(database: Database) -> set[tuple[str, str]]:
    """The images of which people must say which label is right."""
    return {image for (images,) in rows(database, CONFLICTING) for image in _images(images)}


def finding_rows(found: Iterable[Findings]) -> Iterator[tuple[str, ...]]:
    """A row of `FINDING_COLUMNS` for every finding."""
    for rule in found:
        for finding in rule.findings:
            first = finding.images[0] if finding.images else ("", "")
            images = json.dumps(finding.images, ensure_ascii=False)
            yield rule.rule, rule.level, finding.text, *first, images


def write_findings(path: Path, found: Iterable[Findings]) -> None:
    """Write every finding as a row: of Parquet, or of CSV, as the file's name says.

    Raises:
        UsageError: it says neither, or the file cannot be written.
    """
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UsageError(f"--findings {path}: expected a name that ends with .csv or .parquet")
    lines = [*finding_rows(found)]
    if path.suffix.lower() == ".csv":
        data = _csv(FINDING_COLUMNS, lines)
    else:
        from pyarrow import parquet

        schema = pa.schema([(name, pa.string()) for name in FINDING_COLUMNS])
        table = [dict(zip(FINDING_COLUMNS, line, strict=True)) for line in lines]
        file = pa.BufferOutputStream()
        parquet.write_table(pa.Table.from_pylist(table, schema), file)
        data = file.getvalue().to_pybytes()
    write_beside(path, data, "choose another file (--findings)")


def lint(
    database: Database,
    rules: Sequence[Rule],
    *,
    show: int | None,
    chosen: dict[tuple[str, str], Excluded] | None = None,
    undecided: AbstractSet[tuple[str, str]] = frozenset(),
) -> list[Findings]:
    """Look for everything that these rules are about.

    Args:
        show: how many findings of a rule to return; None for all.
        chosen: gets the images to leave out.
        undecided: images that are none of those because they are copies.
    """
    found = []
    for rule in rules:
        database.execute(f"create or replace temp table found as {rule.query}")
        ((count,),) = rows(database, "select count(*) from found")
        first = rows(database, "from found limit $show", {"show": show})
        # As text, since a forged table may have no key and no reason.
        findings = tuple(Finding(printable(str(text)), _images(images)) for text, images in first)
        found.append(Findings(rule.name, rule.level, rule.meaning, count, findings))
        if chosen is not None and rule.drop != "none":
            shown = database.execute("select images from found")
            while some := shown.fetchmany(1 << 12):
                _leave_out(rule, (_images(images) for (images,) in some), chosen, undecided)
    return found


def _images(images: Sequence[Mapping[str, str | None]]) -> tuple[tuple[str, str], ...]:
    # Text in any case: a forged table may have nulls.
    return tuple((str(image["split"]), str(image["key"])) for image in images)


def _leave_out(
    rule: Rule,
    findings: Iterable[tuple[tuple[str, str], ...]],
    chosen: dict[tuple[str, str], Excluded],
    undecided: AbstractSet[tuple[str, str]],
) -> None:
    """Choose the images to leave out, but none for the sake of one that is left out itself."""
    for first, *copies in findings:
        others = [image for image in copies if image not in undecided]
        if rule.drop == "all":
            for image in (first, *copies):
                chosen.setdefault(image, Excluded(*image, rule.name, ""))
        elif first not in chosen:
            for image in others:
                chosen.setdefault(image, Excluded(*image, rule.name, "/".join(first)))


def write_excluded(path: Path, images: Iterable[Excluded]) -> None:
    """Write down which images to leave out, as CSV; whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    lines = ((row.split, row.key, row.rule, row.instead_of) for row in images)
    write_beside(path, _csv(EXCLUDE_COLUMNS, lines), "choose another file (--write_exclude)")


def _csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> bytes:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows((header, *lines))
    return text.getvalue().encode()
