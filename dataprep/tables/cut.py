"""Cutting images into splits in the shares asked for, of each class: a stratified cut.

What is cut are units: groups, or images that are in none. A unit's stratum is its label, or its
rarest if it has several, by how many units have each and then by name; units without a label are a
stratum, too. `quotas` says how many units of each stratum a split gets, in whole numbers: the
floors of the shares, and what is left of a stratum is handed out, strata by a hash, until each
split has its share of all units, rounded. Within a stratum the units are ranked by a hash, and the
splits take theirs in the order of `StratifiedCut.shares`. So the input alone decides, not its
layout or order.

A unit that is assigned stays where it is and counts for its split's quota; others fill the rest.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from dataprep.errors import UsageError
from dataprep.system.messages import printable, some_of
from dataprep.system.regular_files import open_parquet, read_regular
from dataprep.tables.database import rows, tables
from dataprep.tables.decisions import DECIDED, raw_rows
from dataprep_schemas.state import Assigned

if TYPE_CHECKING:
    import pyarrow as pa

    from dataprep.tables.database import Database

Stratum: TypeAlias = str | None
"""A label, or none."""

_PLACE: Final = 'md5_number(concat($seed, chr(0), coalesce("group", key)))'
"""The hash of a unit, which stands for it."""

# A unit with the same label in several images has it once.
_PAIRS: Final = f"""
create temp table pairs as
select {{distinct}} place, unnest(coalesce(nullif(labels, []), [null])) as label
from (select {_PLACE} as place, labels {{source}})
"""
_UNITS: Final = """
create temp table strata as
select row_number() over (order by label is null, count(*), label) as number, label
from pairs group by label;
create temp table units as
select place, min(number) as number
from pairs join strata on pairs.label is not distinct from strata.label group by place;
drop table pairs
"""

_THERE: Final = """
select
  count(*), count(*) filter (where key in (select key from uncut)),
  count(distinct "group"),
  count(distinct "group") filter (where "group" in (select "group" from uncut)),
  min(key), (select min(key) from uncut)
from named
"""

_KEPT: Final = """
create temp table kept as
select md5_number(concat($seed, chr(0), unit)) as place, min(split) as split,
  max(split) as other, any_value(unit) as unit
from (
    select coalesce(uncut."group", key) as unit, named.split
    from uncut join named using (key) where uncut.split is null
    union all
    select "group", split from named where "group" is not null
) group by place
"""

_COUNTS: Final = """
select label, split, count(*) from units left join kept using (place) join strata using (number)
group by all
"""

_ASSIGNED: Final = """
create or replace temp table assigned as
select place, split from kept semi join units using (place)
union all
select place, $splits[1 + len(list_filter(ends, lambda last: last < rank))] from (
    select *, row_number() over (partition by number order by place) as rank
    from units anti join kept using (place)
) join strata using (number) join quotas on quotas.label is not distinct from strata.label
"""

_CUT: Final = f"""
create temp table {{name}} as
select uncut.* replace (coalesce(uncut.split, assigned.split) as split)
from uncut left join assigned on assigned.place = {_PLACE}
"""


@dataclass(frozen=True, slots=True)
class StratifiedCut:
    """How to cut the images whose split scanning leaves open.

    Attributes:
        shares: (split, share of the units), which add up to 1; in this order splits take the units
            of a stratum, sorted by their hashes.
        kept: what says which images are assigned already: ``OUT/records.parquet``, or a CSV or
            Parquet table with the columns ``key`` and ``split``, and perhaps ``group``.
        digest: of what that is; empty if there is none.
    """

    seed: int
    shares: tuple[tuple[str, Fraction], ...]
    kept: Path | None = None
    digest: str = ""


def cut_images(
    database: Database, cut: StratifiedCut, name: str, known: Path | None
) -> Assigned | None:
    """Make the table of this name of the one called ``uncut``, with a split for every image.

    Args:
        known: the table of records of a data set that is to grow: assigned, too.

    Returns:
        How much of ``cut.kept`` there is; None without one.

    Raises:
        UsageError: what is assigned contradicts itself or the shares, is of no image that there
            is, or cannot be read.
    """
    source = "from uncut where split is null"
    assigned = _keep(database, cut, known)
    assign(database, source, cut)
    database.execute(_CUT.format(name=name), {"seed": str(cut.seed)})
    database.execute("drop table assigned")
    return assigned


def _keep(database: Database, cut: StratifiedCut, known: Path | None) -> Assigned | None:
    """Make the table ``kept``: where units are that are assigned."""
    database.execute('create temp table named (key text, split text, "group" text)')
    assigned = None
    for path in filter(None, (cut.kept, known)):
        content, group, there = _assigned_before(path)
        if content is not None:
            database.register("content", content)
        table = tables([path]) if content is None else "content"
        if path == known:
            table, there = raw_rows(table), "true"
        database.execute(
            f"insert into named select key, split, {group} from {table} "
            f"where split is not null and {there}"
        )
        if path == cut.kept:
            assigned = _count_there(database)
    database.execute(_KEPT, {"seed": str(cut.seed)})
    database.execute("drop table named")
    twice = "select unit, split, other from kept where split <> other order by unit limit 1"
    for unit, *both in rows(database, twice):
        remedy = "correct --splits_from, or leave it out"
        if known is not None:  # that was checked when it was made: the raw data is another
            remedy = "--append needs the same groups: bring them back, or use --overwrite"
        raise UsageError(
            f"{printable(unit)} is in {' and '.join(map(printable, both))} of what is "
            f"assigned already; expected each image, and each group, in one split; {remedy}"
        )
    names = [split for split, _ in cut.shares]
    for (split,) in rows(
        database, "select split from kept where split not in $names limit 1", {"names": names}
    ):
        raise UsageError(
            f"images are assigned to {printable(split)}, and --fractions has no such split; name "
            f"it there, with the share 0 if it is to get no others"
        )
    return assigned


def _count_there(database: Database) -> Assigned:
    """How much there is of what is assigned; none at all is a slip, such as other folders."""
    ((*numbers, old, new),) = rows(database, _THERE)
    found = Assigned(*numbers)
    if old is not None and new is not None and not (found.images_there or found.groups_there):
        raise UsageError(
            f"--splits_from names no image and no group that there is: its first is "
            f"{printable(old)}, here {printable(new)}; expected the same names, or a column group "
            "of which some are here; correct it, or leave it out"
        )
    return found


def _assigned_before(path: Path) -> tuple[pa.Table | None, str, str]:
    """What a table says, None if the database reads it itself; in SQL its groups, and which rows.

    Of an image that was moved it has a row where it was, which says nothing here.
    """
    import pyarrow as pa
    from pyarrow import csv

    content = None
    try:
        if path.suffix.lower() == ".csv":
            names = ("key", "split", "group")
            options = csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True
            )
            content = csv.read_csv(io.BytesIO(read_regular(path)), convert_options=options)
            schema = content.schema
        else:
            with open_parquet(path) as file:
                schema = file.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise _unusable(path, str(error).partition("\n")[0]) from error
    types = {name: schema.field(name).type for name in {"key", "split", "group"} & {*schema.names}}
    if not types.keys() >= {"key", "split"} or {*types.values()} - {pa.string(), pa.large_string()}:
        raise _unusable(path, f"its columns are {some_of(schema.names)}")
    decided = content is None and {"status", "reason"} <= {*schema.names}
    there = f"({DECIDED} is not true)" if decided else "true"
    return content, '"group"' if "group" in types else "null", there


def _unusable(path: Path, what: str) -> UsageError:
    return UsageError(
        f"--splits_from {path} cannot be used: {printable(what)}; expected the directory of a "
        "finished data set, or a .csv or .parquet with the text columns key and split"
    )


def assign(database: Database, source: str, cut: StratifiedCut) -> None:
    """Make the table ``assigned`` of the units of a query: ``place`` and ``split``.

    It reads the table ``kept``, which is like it.
    """
    import pyarrow as pa

    # Sorting out what groups have twice takes long, and images in none have nothing twice.
    grouped = database.execute(f'select 1 {source} and "group" is not null limit 1').fetchone()
    pairs = _PAIRS.format(source=source, distinct="distinct" if grouped else "")
    database.execute(pairs, {"seed": str(cut.seed)})
    database.execute(_UNITS)
    splits = [split for split, _ in cut.shares]
    kept: dict[Stratum, Counter[str]] = {}
    sizes: Counter[Stratum] = Counter()
    for label, split, number in database.execute(_COUNTS).fetchall():
        sizes[label] += number
        if split is not None:
            kept.setdefault(label, Counter())[split] = number
    found = quotas(sizes, kept, cut)
    ends = [[sum(parts[: at + 1]) for at in range(len(parts) - 1)] for parts in found.values()]
    columns = {"label": pa.array(found, pa.string()), "ends": pa.array(ends, pa.list_(pa.int64()))}
    database.register("quotas", pa.table(columns))
    database.execute(_ASSIGNED, {"splits": splits})
    database.unregister("quotas")
    database.execute("drop table units; drop table strata; drop table kept")


def quotas(
    sizes: Mapping[Stratum, int], kept: Mapping[Stratum, Mapping[str, int]], cut: StratifiedCut
) -> dict[Stratum, list[int]]:
    """How many units of each stratum, of those that are not kept, go to each split.

    Args:
        sizes: how many units each stratum has, the kept ones among them.
        kept: how many of them are in which split for good.
    """
    splits, shares = [split for split, _ in cut.shares], [share for _, share in cut.shares]
    names = sorted(sizes, key=lambda name: (name is None, name or ""))
    exact = {name: [share * sizes[name] for share in shares] for name in names}
    found = {name: [int(part) for part in exact[name]] for name in names}
    there = {name: [kept.get(name, {}).get(split, 0) for split in splits] for name in names}
    totals = _whole_parts(sum(sizes.values()), shares)
    for at, split in enumerate(splits):

        def order(name: Stratum, at: int = at, split: str = split) -> tuple[bool, bool, bool, str]:
            left = sizes[name] - sum(found[name])
            text = f"{cut.seed}\0{split}\0{name or ''}".encode()
            return (
                left < len(splits) - at,  # else a later split would get two
                there[name][at] <= found[name][at],  # what is kept need not be made up for
                exact[name][at] == found[name][at],
                hashlib.sha256(text).hexdigest(),
            )

        while lack := totals[at] - sum(parts[at] for parts in found.values()):
            for name in sorted((n for n in names if sizes[n] > sum(found[n])), key=order)[:lack]:
                found[name][at] += 1
    return _without_kept(found, there, totals) if kept else found


def _without_kept(
    found: dict[Stratum, list[int]], there: Mapping[Stratum, list[int]], totals: list[int]
) -> dict[Stratum, list[int]]:
    """What is to be added to what is there; less than wanted where another split has too much."""
    lack = [total - sum(kept[at] for kept in there.values()) for at, total in enumerate(totals)]
    added: dict[Stratum, list[int]] = {}
    for name, parts in found.items():
        wanted = [max(part - kept, 0) for part, kept in zip(parts, there[name], strict=True)]
        new = sum(parts) - sum(there[name])
        added[name] = [part * new // max(sum(wanted), 1) for part in wanted]
        lack = [each - part for each, part in zip(lack, added[name], strict=True)]
        for _ in range(new - sum(added[name])):
            open_ = [at for at, part in enumerate(wanted) if added[name][at] < part]
            most = max(open_, key=lambda at: lack[at])
            added[name][most] += 1
            lack[most] -= 1
    return added


def _whole_parts(number: int, shares: Sequence[Fraction]) -> list[int]:
    """The shares of a number, rounded so that they add up to it: by largest remainders."""
    parts = [int(share * number) for share in shares]
    lost = [share * number - part for share, part in zip(shares, parts, strict=True)]
    largest = sorted(range(len(parts)), key=lambda at: (-lost[at], at))
    for at in largest[: number - sum(parts)]:
        parts[at] += 1
    return parts
