"""The images of all parts of the index, as tables of a database, and the rules they must follow.

Every rule is one query, which finds nothing where it holds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from dataprep.errors import SourceError
from dataprep.system.durable_files import partial_path
from dataprep.system.messages import counted, printable, some_of
from dataprep.tables.database import Database, identifier, open_database, quoted, tables
from dataprep.tables.exclude import leave_out
from dataprep.tables.label_sets import rank_label_sets
from dataprep_schemas.tables import ORDER

_SHOWN: Final = 5  # of what cannot be listed in full

# What is known of an image from a list, and what from where it lies.
_OF_LIST: Final = ["split", "key", "labels", "boxes", "box_labels", "group"]
_OF_PLACE: Final = [name for name in ORDER if name not in ("shard", *_OF_LIST)]

_MATCHED: Final = """
create temp table matched as
select member.*, coalesce(listed.key, other.key) as listed_key
from (select * from parts where status = 'member') as member
left join listed on listed.key = {name}
left join listed as other on listed.key is null and other.key = member.alias
"""

# The names of a list without folders are those of files, wherever these lie.
_BARE: Final = "select coalesce(bool_and(not contains(key, '/')), false) from listed"

_IMAGES: Final = """
create {kind} {name} as
select {columns} from parts where status = 'image'
"""

_JOINED: Final = """
union all by name
select {columns} from matched join listed on listed.key = matched.listed_key
"""

_UNMATCHED: Final = """
create temp table unmatched as
select status, split, key, container from parts
where status in ('missing', 'unlisted') and (split is null or {wanted})
"""

_UNMATCHED_JOINED: Final = """
union all
select 'unlisted', null, key, container from matched where listed_key is null
union all
select 'missing', split, key, container from listed
where {wanted} and key not in (select listed_key from matched where listed_key is not null)
"""

_KNOWN: Final = """
create temp table known as
select split, key, status, classes, bytes from {table}
where position is not null or status = 'rejected';
create view fresh as
select * from images anti join known using (split, key);
create view kept as
select * from images semi join known using (split, key)
"""

_LABEL_SETS: Final = """
select split, labels, count(*) as images, min(key) as example from fresh
where split is not null group by split, labels order by split, labels
"""

# The same for every layout of the raw data: it says nothing of where an image lies.
_SUMMARY: Final = """
select split, count(*), sum(size)::bigint, printf('%032x', bit_xor(md5_number(concat(
    key, chr(0), size, chr(0), array_to_string(labels, '|'), chr(0), boxes::varchar, chr(0),
    array_to_string(box_labels, '|'){attributes}
))))
from {table} group by split order by split
"""


_SHARE: Final = "ceil(count(*) over (partition by split) * {} / {})"

# Of splits in which anything has a class, and of classes that anything has.
_LACKING: Final = """
with found as (select distinct split, unnest(numbers) as number from label_sets)
select split, list(name order by number) from (select distinct split from found)
cross join (select distinct number from found) anti join found using (split, number)
join classes using (number) group by split order by split
"""


# An image that is elsewhere is known by its key or, if its folder was renamed, by name and size.
_COMPARED: Final = """
with old as (
    select true as known, split, key, labels, classes,
        if({sizes} and status = 'stored', bytes, null) as size
    from {table} where position is not null or status = 'rejected'),
now as (
    select true as there, split, key, numbers, labels, size
    from chosen join label_sets using (split, labels)),
other as materialized (
    select split, key, known, there, old.labels as before, numbers, old.size as size_before,
        now.size as size, parse_filename(key) as name,
        list_sort(classes) <> list_sort(now.labels) or old.size <> now.size as changed
    from old full join now using (split, key)
    where known is null or there is null or old.labels <> numbers or changed),
gone as (from other where there is null),
come as (from other where known is null),
same as (
    select before <> numbers as renumbered, false as moved, changed
    from other where known and there union all
    select gone.before <> come.numbers, gone.split <> come.split, false
    from gone join come using (key) union all
    (select gone.before <> come.numbers, gone.split <> come.split, false
    from (from gone anti join come using (key)) as gone
    join (from come anti join gone using (key)) as come
    on gone.name = come.name and gone.size_before = come.size
    qualify greatest(count(*) over (partition by gone.split, gone.key),
        count(*) over (partition by come.split, come.key)) = 1))
select count_if(renumbered), count_if(moved),
    (select count(*) from come),
    (select count(distinct regexp_replace(key, '[^/]*$', '')) from come),
    (select count(*) from gone),
    count_if(changed)
from same
"""


@dataclass
class Images:
    """The images of all parts; the database is opened when it is first needed.

    Attributes:
        paths: the tables of the parts.
        scratch: a directory for what does not fit into memory.
        statuses: rows by status, of all parts.
        attributes: names of the data set's own columns.
        wanted: the splits asked for; None: all.
        exclude: a file of images to leave out; see `dataprep.tables.exclude`.
        known: the table of records of a data set that is to grow; None if there is none.
        sealed: that of one whose place is to be taken.
    """

    paths: Sequence[Path]
    scratch: Path
    statuses: Mapping[str, int]
    attributes: Sequence[str]
    wanted: Sequence[str] | None
    exclude: Path | None = None
    known: Path | None = None
    sealed: Path | None = None
    _has_chosen: bool = field(default=False, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def __enter__(self) -> Self:
        """Nothing is opened yet."""
        return self

    def __exit__(self, *exception: Any) -> None:  # noqa: PYI036  # handed on as they are
        """Close the database, and word its errors."""
        self._stack.__exit__(*exception)

    @cached_property
    def database(self) -> Database:
        """The tables ``parts``, ``images``, ``fresh``, ``excluded`` and ``unmatched``.

        ``fresh`` are the images that are not known; if any may be, ``kept`` are the others.
        """
        rows = sum(self.statuses.values())
        files = [*self.paths, *filter(None, (self.known, self.sealed))]
        database = self._stack.enter_context(open_database(self.scratch, files, rows=rows))
        database.execute(f"create view parts as select * from {tables(self.paths)}")
        columns = column_list([*_OF_LIST, *_OF_PLACE, *self.attributes])
        name = "images" if self.exclude is None else "found"
        images = _IMAGES.format(kind="view", name=name, columns=columns)
        unmatched = _UNMATCHED.format(wanted=self._is_wanted)
        if self._has_lists:
            database.execute("create view listed as select * from parts where status = 'listed'")
            self._check_listed_once(database)
            (bare,) = database.execute(_BARE).fetchone() or (False,)
            member = "parse_filename(member.key)" if bare else "member.key"
            database.execute(_MATCHED.format(name=member))
            of_list = column_list([*_OF_LIST, *self.attributes], "listed.")
            of_place = column_list(_OF_PLACE, "matched.")
            images = _IMAGES.format(kind="temp table", name=name, columns=columns)
            images += _JOINED.format(columns=f"{of_list}, {of_place}")
            unmatched += _UNMATCHED_JOINED.format(wanted=self._is_wanted)
        database.execute(images)
        database.execute(unmatched)
        if self.exclude is not None:
            leave_out(database, self.exclude)
        if self.known is None:
            database.execute("create view fresh as select * from images")
        else:
            database.execute(_KNOWN.format(table=tables([self.known])))
        return database

    @property
    def _has_lists(self) -> bool:
        return bool(self.statuses.get("listed") or self.statuses.get("member"))

    @property
    def _is_wanted(self) -> str:
        if self.wanted is None:
            return "split is not null"
        return f"split in ({', '.join(map(quoted, self.wanted)) or 'null'})"

    def rows(self, query: str) -> list[Any]:
        """What a query finds."""
        return self.database.execute(query).fetchall()

    def splits(self) -> list[str]:
        """Those that have images."""
        return [split for (split,) in self.rows("select distinct split from images") if split]

    def class_names(self) -> set[str]:
        """Those that images have."""
        return {name for (name,) in self.rows("select distinct unnest(labels) from images")}

    def unmatched(self) -> dict[str, Any]:
        """How many images are missing, or not listed, and the first few names of each."""
        numbers = {"missing": 0, "unlisted": 0}
        first = {}
        for status, number, names in self.rows(
            f"select status, count(*), list(key order by split, key)[:{_SHOWN}] from unmatched "
            "group by status"
        ):
            numbers[status] = number
            first[status] = [printable(name) for name in names]
        return {**numbers, "first": first}

    def ignored(self) -> tuple[int, str]:
        """How many files are no images, and what the first is."""
        number = self.statuses.get("ignored", 0)
        query = (
            "select key, container, reason from parts where status = 'ignored' "
            "order by container, key limit 1"
        )
        for name, container, reason in self.rows(query) if number else ():
            place = container or "the raw directory"
            return number, f"{f'{name!r} in ' if name else ''}{place}: {reason}"
        return 0, ""

    def excluded(self) -> dict[str, Any]:
        """How many images are left out, a digest of their names, and how many names are of none."""
        if self.exclude is None:
            return {}
        images, digest = self.rows(
            "select count(*), printf('%032x', coalesce(bit_xor("
            "md5_number(concat(split, chr(0), key))), 0)) from excluded"
        )[0]
        ((unknown,),) = self.rows(
            "select count(*) from named anti join places on places.name = named.name "
            "and places.named_split is not distinct from named.split "
            f"where {self._is_wanted} or split is null"
        )
        return {"images": images, "digest": digest, "unknown": unknown}

    def write_unmatched(self, path: Path) -> None:
        """All of them, as CSV; whole or not at all."""
        temporary = partial_path(path)
        try:
            rows = self.database.execute(
                "select status, split, key as name, container as place from unmatched "
                "order by status, split, key"
            )
            with temporary.open("x", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(("status", "split", "name", "place"))
                while some := rows.fetchmany(1 << 12):
                    writer.writerows(some)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def unstored(self) -> Iterator[pa.Table]:
        """What is known of and not stored: missing, unlisted, ignored, excluded; as records."""
        kept = "key, split, status, container, reason"
        if self.exclude is not None:
            yield self.database.sql(
                f"select {kept} from (select *, 'excluded' as status, null as reason "
                "from excluded) order by split, key"
            ).to_arrow_table()
        yield self.database.sql(
            f"select {kept} from (select *, null as reason from unmatched) "
            f"union all select {kept} from parts where status = 'ignored' "
            "order by status = 'ignored', status = 'unlisted', split, container, key"
        ).to_arrow_table()

    def choose(
        self,
        splits: Sequence[str],
        classes: Sequence[str],
        *,
        multilabel: bool,
        seed: int,
        limit: int | str | None,
    ) -> None:
        """Make the table ``chosen``: the fresh images of the splits, at most `limit` of each.

        Of a share, ``10%``, as many as are at least that. Those are taken whose hashes are
        smallest. And the table ``label_sets``, what each set of labels is in numbers: ``split``,
        ``labels`` as in ``images``, ``numbers`` (0-based, ascending), ``category``: of those next
        to each other when images are assigned to shards. Nothing is done the second time.

        Raises:
            SourceError: an image has a class that is not known, or not as many as it must have.
        """
        if self._has_chosen:
            return
        self._number_labels(splits, classes, multilabel=multilabel)
        named = ", ".join(map(quoted, splits))
        query = f"select * from fresh where split in ({named})"
        if limit is not None:
            share = Fraction(limit[:-1]) / 100 if isinstance(limit, str) else None
            query += (
                f" qualify row_number() over (partition by split order by {hash_sql(seed)}) <= "
                + (str(limit) if share is None else _SHARE.format(*share.as_integer_ratio()))
            )
        kind = "view" if limit is None else "temp table"
        self.database.execute(f"create {kind} chosen as {query}")
        self._has_chosen = True

    def _number_labels(
        self, splits: Sequence[str], classes: Sequence[str], *, multilabel: bool
    ) -> None:
        number = {name: position for position, name in enumerate(classes)}
        found = [row for row in self.rows(_LABEL_SETS) if row[0] in splits]
        for split, labels, _, example in found:
            _check_labels(split, labels or (), example, number, multilabel=multilabel)
        numbers = [tuple(sorted(number[name] for name in row[1] or ())) for row in found]
        categories: list[int] = []
        for split in dict.fromkeys(row[0] for row in found):
            counts = {
                some: row[2] for row, some in zip(found, numbers, strict=True) if row[0] == split
            }
            ranks = rank_label_sets(counts) if multilabel else {some: some[0] for some in counts}
            categories += [ranks[some] for some in counts]
        strings, integers = pa.list_(pa.string()), pa.list_(pa.int32())
        table = pa.table(
            {
                "split": pa.array([row[0] for row in found], pa.string()),
                "labels": pa.array([row[1] for row in found], strings),
                "numbers": pa.array(numbers, integers),
                "category": pa.array(categories, pa.int32()),
            }
        )
        names = pa.table({"name": pa.array(classes, pa.string()), "number": range(len(classes))})
        for name, content in (("label_sets", table), ("classes", names)):
            self.database.register("content", content)
            self.database.execute(f"create table {name} as select * from content")
            self.database.unregister("content")

    def lacking(self) -> dict[str, list[str]]:
        """Of each split the classes that only others have; call it after `choose`."""
        return dict(self.rows(_LACKING)) if self.known is None else {}

    def compared(self, *, sizes: bool) -> tuple[int, ...]:
        """What is chosen, with the table that was sealed, which must have been looked at.

        Args:
            sizes: whether images are stored in the size in which they are found.

        Returns:
            How many images get other numbers of classes; another split; how many are new, and in
            how many folders; how many are gone; how many have other labels or another size.
        """
        table = tables([self.sealed] if self.sealed else [])
        found: tuple[int, ...] = self.rows(_COMPARED.format(table=table, sizes=sizes))[0]
        return found

    def summaries(self) -> dict[str, dict[str, Any]]:
        """Of each split that is chosen: images, their bytes, a digest of what shapes the output."""
        return self._summaries("chosen")

    def kept_summaries(self) -> dict[str, dict[str, Any]]:
        """The same of the images that are known, as they are now."""
        return self._summaries("kept")

    def _summaries(self, table: str) -> dict[str, dict[str, Any]]:
        attributes = "".join(f", chr(0), {column_list([name])}" for name in self.attributes)
        return {
            split: {"images": images, "bytes": size, "digest": digest}
            for split, images, size, digest in self.rows(
                _SUMMARY.format(table=table, attributes=attributes)
            )
        }

    def vanished(self) -> tuple[int, str, str, str | None]:
        """How many known images there are no more; split, key and present split of the first."""
        found = self.rows(
            "select split, key, count(*) over () from known anti join images using (split, key) "
            "order by split, key limit 1"
        )
        if not found:
            return 0, "", "", None
        split, key, number = found[0]
        ((now,),) = self.rows(f"select min(split) from images where key = {quoted(key)}")
        return number, split, key, now

    def changed(self, *, sizes: bool) -> tuple[int, str, str]:
        """How many known images have other labels now; split and key of the first.

        Args:
            sizes: also those that have other sizes than what is stored of them.
        """
        differs = "list_sort(coalesce(classes, [])) <> list_sort(coalesce(labels, []))"
        if sizes:
            differs += " or (status = 'stored' and bytes <> size)"
        found = self.rows(
            "select split, key, count(*) over () from known join images using (split, key) "
            f"where {differs} order by split, key limit 1"
        )
        return (found[0][2], *found[0][:2]) if found else (0, "", "")

    def included(self) -> tuple[int, str]:
        """How many fresh images --exclude left out before; the key of the first."""
        if self.known is None:
            return 0, ""
        ((number, first),) = self.rows(
            f"select count(*), min(key) from fresh semi join (select split, key from "
            f"{tables([self.known])} where status = 'excluded') using (split, key)"
        )
        return number, first or ""

    def check_splits_known(self) -> None:
        """Every image has a split.

        Raises:
            SourceError: names some that have none.
        """
        ((number, keys),) = self.rows(
            f"select count(*), list(key)[:{_SHOWN}] from images where split is null"
        )
        if number:
            raise SourceError(
                f"{counted(number, 'image')} in no split: {some_of(keys)}; "
                "expected each in one of the lists of splits; correct the lists"
            )

    def check_keys(self) -> None:
        """No split has two images of one name.

        Raises:
            SourceError: names the first, and where both are.
        """
        for split, key in self.rows(
            "select split, key from images group by split, key having count(*) > 1 "
            "order by split, key limit 1"
        ):
            one = f"split = {quoted(split)} and key = {quoted(key)}"
            ((places,),) = self.rows(f"select list(distinct container) from images where {one}")
            ((place, lines),) = self.rows(
                "select min(reason), list_sort(list(line)) from parts where status = 'image' "
                f"and reason is not null and {one}"
            )
            if place:
                raise _listed_twice(place, key, lines)
            raise SourceError(
                f"{split}: two images have the same name, {printable(key)}, in "
                f"{' and '.join(map(printable, sorted(places)))}; rename one"
            )

    def check_groups(self, word: str) -> None:
        """No group, such as a patient, is in two splits.

        Raises:
            SourceError: names the first, with an image of each split.
        """
        for group, places in self.rows(
            "select \"group\", list(split || ' (' || key || ')' order by split = 'test', "
            "split != 'train') from (select \"group\", split, min(key) as key from images "
            'where "group" is not null group by "group", split) group by "group" '
            'having count(*) > 1 order by min(key), "group" limit 1'
        ):
            raise SourceError(
                f"{word} {printable(group)} is in {' and '.join(map(printable, places))}; expected "
                f"each {word} in one split only: give all its images the same split, or let "
                "dataprep make the splits, and run again"
            )

    def _check_listed_once(self, database: Database) -> None:
        found = database.execute(
            "select key, min(container), list_sort(list(line)) from listed group by key "
            "having count(*) > 1 order by key limit 1"
        ).fetchone()
        if found is not None:
            key, place, lines = found
            raise _listed_twice(place, key, lines)


def column_list(names: Iterable[str], table: str = "") -> str:
    """Columns in SQL."""
    return ", ".join(table + identifier(name) for name in names)


def hash_sql(seed: int) -> str:
    """The hash of an image, a number of 128 bits, which decides about its place.

    MD5 of the seed, the split and the key, with a NUL between them.
    """
    return f"md5_number(concat('{seed}', chr(0), split, chr(0), key))"


def _check_labels(
    split: str,
    labels: Iterable[str],
    example: str,
    number: Mapping[str, int],
    *,
    multilabel: bool,
) -> None:
    labels = list(labels)
    unknown = [name for name in labels if name not in number]
    if unknown:
        raise SourceError(
            f"{split}: {printable(example)} has the unknown class {printable(unknown[0])}; "
            "expected one of the list of classes; add what is missing there"
        )
    if not multilabel and len(labels) != 1:
        raise SourceError(
            f"{split}: {printable(example)} has {len(labels)} labels, expected exactly one; "
            "a data set whose images have any number must say so (multilabel)"
        )


def _listed_twice(place: str, key: str, lines: Sequence[int] | None) -> SourceError:
    where = f", lines {' and '.join(map(str, lines))}" if lines and lines[0] else ""
    return SourceError(
        f"{printable(place)} lists {printable(key)} twice{where}; expected each image once; "
        "remove one"
    )
