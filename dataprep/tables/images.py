"""The images of all parts of the index, as tables of a database; see `dataprep.tables.rules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow.csv import write_csv

from dataprep.system.durable_files import whole
from dataprep.system.messages import printable
from dataprep.tables.arrow import check_index
from dataprep.tables.cut import StratifiedCut, cut_images
from dataprep.tables.database import Database, column_list, open_database, rows, tables
from dataprep.tables.decisions import DECIDED, raw_rows
from dataprep.tables.exclude import leave_out, read_exclude
from dataprep.tables.folds import NAME as FOLD
from dataprep.tables.folds import number_folds
from dataprep.tables.label_sets import number_label_sets, rename_labels
from dataprep.tables.masks import count_masks, join_masks, said_of_masks
from dataprep.tables.records import RecordsTable
from dataprep.tables.rules import check_listed_once
from dataprep_schemas.fields import BOX_LABELS, MASK, Fields, named
from dataprep_schemas.manifest import Input, Unmatched
from dataprep_schemas.state import Assigned, ExcludedNames
from dataprep_schemas.tables import ORDER

_FEW: Final = 100_000  # rows, up to which they are read once; opening files takes the time then
_SORTED: Final = 10_000_000  # rows; of more, workers sort those that must be sorted whole
_SHOWN: Final = 5  # of what cannot be listed in full
_LONGEST: Final = 1 << 12  # characters of a name there

# What is known of an image from a list, and what from where it lies.
_OF_LIST: Final = ["split", "key", "labels", "drawn_on", "frame", "group"]
_OF_PLACE: Final = [name for name in ORDER if name not in ("shard", *_OF_LIST)]

_MATCHED: Final = """
create temp table matched as
select member.*, coalesce(listed.key, other.key) as listed_key
from (select * from parts where status = 'member') as member
left join listed on listed.key = {name}
left join listed as other on listed.key is null and other.key = {alias}
"""

# The names of a list without folders are those of files, wherever these lie, and without suffixes
# those of files with any.
_BARE: Final = r"""
select coalesce(bool_and(not contains(key, '/')), false),
    coalesce(bool_and(not regexp_matches(key, '\.[A-Za-z][A-Za-z0-9]{1,4}$')), false) from listed
"""
_STEM: Final = r"regexp_replace({}, '\.[^./]*$', '')"

_IMAGES: Final = """
create {kind} {name} as
select {columns} from {parts} where status = 'image'
"""

_JOINED: Final = """
union all by name
select {columns} from matched join listed on listed.key = matched.listed_key
where listed.status = 'listed'
"""

_WANTED: Final = "split is not null and ($wanted is null or split in $wanted)"

_UNMATCHED: Final = f"""
create temp table unmatched as
select status, split, key, container from parts
where status in ('missing', 'unlisted') and (split is null or {_WANTED})
"""

_UNMATCHED_JOINED: Final = f"""
union all
select 'unlisted', null, key, container from matched where listed_key is null
union all
select 'missing', split, key, container from listed
where status = 'listed' and (($cut and split is null) or {_WANTED})
and key not in (select listed_key from matched where listed_key is not null)
"""

_FIRST_UNMATCHED: Final = """
select status, count(*), list(key order by split, key)[:$shown] from unmatched group by status
"""

LEFT_OUT: Final = f"""
select count(*), printf('%032x', coalesce(bit_xor(md5_number(concat(split, chr(0), key))), 0)), (
    select count(*) from named anti join places
    on places.name = named.name and places.named_split is not distinct from named.split
    where split is null or {_WANTED})
from excluded
"""
"""How many images are left out, a digest of them, and how many names are of none."""

_KNOWN: Final = """
create temp table known as
select split, key, status, classes, bytes{fold} from {rows}
where position is not null or status = 'rejected' or {decided};
create view {fresh} as
select * from images anti join known using (split, key);
create view kept as
select * from images semi join known using (split, key);
create view let_in as select * from {fresh} semi join (
    select split, key from {table} where status = 'excluded' and reason is null
) using (split, key)
"""

HASH: Final = "md5_number(concat($seed, chr(0), split, chr(0), key))"
"""The hash of an image, a number of 128 bits, which decides about its place.

MD5 of the seed, the split and the key, with a NUL between them.
"""

# The same for every layout of the raw data: it says nothing of where an image lies.
_SUMMARY: Final = """
select split, count(*), sum(size // coalesce(frame[2], 1))::bigint,
printf('%032x', bit_xor(md5_number(concat(
    key, chr(0), size, chr(0), array_to_string(labels, '|'){fields}
))))
from {table} group by split order by split
"""


_CLASS_SIZES: Final = """
select split, name, count(*) from (select split, unnest(labels) as name from chosen)
join classes using (name) group by split, name, number order by split, number
"""

_CHOSEN: Final = "select * from fresh where split in getvariable('splits')"

_FIRST_OF_THEM: Final = f"""
{_CHOSEN} qualify row_number() over (partition by split order by {HASH}) <= {{most}}
"""
SHARE: Final = (
    "((count(*) over (partition by split))::hugeint * $share::hugeint + $of - 1) // $of::hugeint"
)
"""How many images of a split its share is: as many as are at least that."""

_BY_SPLIT: Final = """
select split, list(distinct name order by name) from
(select split, unnest(numbers) as number from label_sets) join classes using (number)
group by split order by split
"""

_FOLDERS: Final = "select distinct parse_dirpath(key, 'forward_slash') from chosen"

# Of splits in which anything has a class, and of classes that anything has.
_LACKING: Final = """
with found as (select distinct split, unnest(numbers) as number from label_sets)
select split, list(name order by number) from (select distinct split from found)
cross join (select distinct number from found) anti join found using (split, number)
join classes using (number) group by split order by split
"""

# An image of the same name in another split, and none in that, is taken for the same.
_CHANGED: Final = """
with old as (select split, key, labels from {table} where position is not null),
new as (select split, key, numbers from chosen join label_sets using (split, labels)),
moved as (
    select key from (from old anti join new using (split, key))
    join (from new anti join old using (split, key)) using (key)),
changed as (
    select 'class number' as what, key from old join new using (split, key)
    where list_sort(coalesce(labels, [])) <> numbers
    union all select 'split', key from moved)
select what, count(*), list(key order by key)[:$shown] from changed group by what order by what
"""


@dataclass
class Images(AbstractContextManager["Images"]):
    """The images of all parts; the database is opened when it is first needed.

    Attributes:
        scratch: a directory for what does not fit into memory.
        statuses: rows by status, of all parts.
        attributes: names of the data set's own columns.
        wanted: the splits asked for; None: all.
        exclude: a file of images to leave out; see `dataprep.tables.exclude`.
        known: the table of records of a data set that is to grow; None if there is none.
        folds: how many the images of a split are put in; None: none.
        cut: how to cut the images that have no split; None: they are an error.
        sealed: where the table of records is of a data set that these images would replace, if
            there is one.
        identifiers: of the classes that the index calls otherwise, by what it calls them.
        renamed: what decisions call classes in the data set that is to grow, by their identifiers.
        workers_sort: whether workers put very many in order, so that less memory will do here.
    """

    paths: Sequence[Path]
    scratch: Path
    statuses: Mapping[str, int]
    fields: Fields
    wanted: Sequence[str] | None
    exclude: Path | None = None
    known: Path | None = None
    folds: int | None = None
    cut: StratifiedCut | None = None
    sealed: Path | None = None
    identifiers: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    workers_sort: bool = False
    _assigned: Assigned | None = field(default=None, init=False)
    _has_chosen: bool = field(default=False, init=False)
    _stack: ExitStack = field(default_factory=ExitStack, init=False)

    def __exit__(self, *exception: Any) -> None:  # noqa: PYI036  # handed on as they are
        """Close the database, and word its errors."""
        self._stack.__exit__(*exception)

    @cached_property
    def database(self) -> Database:
        """The tables ``parts``, ``images``, ``fresh``, ``excluded`` and ``unmatched``.

        ``fresh`` are the images that are not known; if any may be, ``kept`` are the others, and
        ``let_in`` those fresh ones that ``--exclude`` left out before.
        """
        rows = sum(self.statuses.values())
        largest = min(rows, _SORTED) if self.workers_sort and self.are_alone else rows
        kept = None if self.cut is None else self.cut.kept
        files = [*self.paths, *filter(None, [self.known, self.sealed, kept])]
        database = self._stack.enter_context(open_database(self.scratch, files, rows=largest))
        for path in self.paths:
            check_index(path, self.fields)
        if self.known is not None:
            RecordsTable(self.known.parent, None).close()  # its columns are ours
        kind = "temp table" if rows <= _FEW else "view"
        database.execute(f"create {kind} parts as select * from {tables(self.paths)}")
        parts = self._identify(database) if self.identifiers else "parts"
        whole = "images" if self.exclude is None else "found"
        first = whole if self.cut is None else "uncut"
        self._join_lists(database, parts, "unmasked" if self._has_masks else first)
        if self._has_masks:
            join_masks(database, "unmasked", first)
        if self.cut is not None:
            self._assigned = cut_images(database, self.cut, whole, self.known)
        if self.exclude is not None:
            leave_out(database, read_exclude(self.exclude))
        if self.known is None:
            database.execute("create view fresh as select * from images")
        else:
            fold = f", {FOLD}" if self.folds else ""
            table, fresh = tables([self.known]), "called" if self.renamed else "fresh"
            query = _KNOWN.format(
                table=table, rows=raw_rows(table), decided=DECIDED, fold=fold, fresh=fresh
            )
            database.execute(query)
            if self.renamed:
                rename_labels(database, fresh, "fresh", self.renamed)
        return database

    def _identify(self, database: Database) -> str:
        """Make the view ``identified``: the parts, with the identifiers of their classes."""
        boxes = named(self.fields, BOX_LABELS.kind)
        rename_labels(database, "parts", "identified", self.identifiers, ordered=False, more=boxes)
        return "identified"

    def _join_lists(self, database: Database, parts: str, name: str) -> None:
        """Make the table of this name, of images and of what lists say, and ``unmatched``."""
        own = [field.name for field in self.fields]
        columns = column_list([*_OF_LIST, *_OF_PLACE, *own])
        if not self._has_lists:
            query = _IMAGES.format(kind="view", name=name, columns=columns, parts=parts)
            database.execute(query)
            database.execute(_UNMATCHED, self._wanted)
            return
        database.execute(
            "create view listed as select * from parts where status in ('listed', 'excluded')"
        )
        check_listed_once(database)
        bare, stems = database.execute(_BARE).fetchone() or (False, False)
        called = ["parse_filename(member.key)" if bare else "member.key", "member.alias"]
        called = [*map(_STEM.format, called)] if stems else called
        database.execute(_MATCHED.format(name=called[0], alias=called[1]))
        query = _IMAGES.format(kind="temp table", name=name, columns=columns, parts=parts)
        of_list = column_list([*_OF_LIST, *own], "listed.")
        of_place = column_list(_OF_PLACE, "matched.")
        database.execute(query + _JOINED.format(columns=f"{of_list}, {of_place}"))
        values = {**self._wanted, "cut": self.cut is not None}
        database.execute(_UNMATCHED + _UNMATCHED_JOINED, values)

    @property
    def are_alone(self) -> bool:
        """Whether the parts of the index alone say of every image all that there is to say."""
        joined = (self._has_lists, self._has_masks, self.identifiers, self.known, self.cut)
        others = (self.exclude, self.folds, named(self.fields, "box_labels"))
        # A reader of Parquet calls the number of a row so.
        taken = "file_row_number" in (field.name.lower() for field in self.fields)
        return not (taken or any(joined) or any(others))

    @property
    def _has_masks(self) -> bool:
        return any(field.name == MASK.name for field in self.fields)

    def mask_counts(self) -> dict[str, int]:
        """How many images have no mask, and masks no image; call it after `choose`."""
        return count_masks(self.database) if self._has_masks else {}

    @property
    def _has_lists(self) -> bool:
        return bool(self.statuses.get("listed") or self.statuses.get("member"))

    @property
    def _wanted(self) -> dict[str, object]:
        return {"wanted": None if self.wanted is None else [*self.wanted]}

    def rows(self, query: str, values: Mapping[str, object] | None = None) -> list[Any]:
        """What a query finds, with these values of its parameters."""
        return rows(self.database, query, values)

    def splits(self) -> list[str]:
        """Those that have images."""
        return [split for (split,) in self.rows("select distinct split from images") if split]

    def class_names(self) -> set[str]:
        """Those that images have."""
        return {name for (name,) in self.rows("select distinct unnest(labels) from images")}

    def fresh_classes(self) -> set[str]:
        """Those that fresh images have."""
        return {name for (name,) in self.rows("select distinct unnest(labels) from fresh")}

    def unmatched(self) -> Unmatched:
        """How many images are missing, or not listed, and the first few names of each."""
        found = self.rows(_FIRST_UNMATCHED, {"shown": _SHOWN})
        numbers = {"missing": 0, "unlisted": 0} | {status: number for status, number, _ in found}
        first = {
            status: tuple(printable(name)[:_LONGEST] for name in names)
            for status, _, names in found
        }
        return Unmatched(**numbers, first=first)

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

    def excluded(self) -> ExcludedNames | None:
        """What --exclude leaves out; None if there is none."""
        if self.exclude is None:
            return None
        return ExcludedNames(*self.rows(LEFT_OUT, self._wanted)[0])

    def assigned(self) -> Assigned | None:
        """How much there is of what --splits_from assigns; None without it."""
        return self._assigned if self.database else None  # which is made when it is asked for

    def write_unmatched(self, path: Path) -> None:
        """All of them, as CSV; whole or not at all."""
        found = self.database.sql(
            "select status, split, key as name, container as place from unmatched "
            "order by status, split, key"
        )
        with whole(path) as temporary:
            write_csv(found.to_arrow_table(), temporary)

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
            f"or (status = 'excluded' and (split is null or {_WANTED})) order by "
            "status = 'ignored', status = 'unlisted', status = 'missing', split, container, key",
            params=self._wanted,
        ).to_arrow_table()

    def choose(
        self,
        splits: Sequence[str],
        classes: Sequence[str],
        *,
        multilabel: bool,
        seed: int,
        limit: int | Fraction | None,
    ) -> None:
        """Make the table ``chosen``: the fresh images of the splits, at most `limit` of each.

        Of a share, ``10%``, as many as are at least that. Those are taken whose hashes are
        smallest. And ``classes`` and ``label_sets``; see `number_label_sets`. Nothing is done the
        second time.

        Raises:
            SourceError: an image has a class that is not known, or not as many as it must have.
        """
        if self._has_chosen:
            return
        number_label_sets(self.database, splits, classes, multilabel=multilabel)
        # A view takes no parameters.
        self.database.execute("set variable splits = $splits", {"splits": [*splits]})
        name = "chosen" if self.folds is None else "unfolded"
        if limit is None:
            self.database.execute(f"create view {name} as {_CHOSEN}")
        else:
            most, values = "$limit", {"limit": limit}
            if isinstance(limit, Fraction):
                share, of = limit.as_integer_ratio()
                most, values = SHARE, {"share": share, "of": of}
            query = f"create temp table {name} as {_FIRST_OF_THEM.format(most=most)}"
            self.database.execute(query, {"seed": seed, **values})
        if self.folds is not None:
            grows = self.known is not None
            number_folds(self.database, self.folds, "images" if grows else name, grows=grows)
            self.database.execute(
                f"create view chosen as select {name}.*, {FOLD} from {name} "
                "join folded using (split, key)"
            )
        self._has_chosen = True

    def rejected_before(self) -> list[str]:
        """The keys of images that were rejected when the data set that is to grow was made."""
        query = "select key from known where status = 'rejected'"
        return [key for (key,) in self.rows(query)]

    def changed(self) -> list[tuple[str, int, list[str]]]:
        """What the images of `sealed` would have another of, how many, and the first few.

        Call it after `choose`, when that table was checked.
        """
        if self.sealed is None:
            return []
        return self.rows(_CHANGED.format(table=tables([self.sealed])), {"shown": _SHOWN})

    def classes_by_split(self) -> dict[str, list[str]]:
        """The classes that images of each split have; call it after `choose`."""
        return dict(self.rows(_BY_SPLIT))

    def folders(self) -> set[str]:
        """Those of the keys of the images; call it after `choose`."""
        return {it for (it,) in self.rows(_FOLDERS)}

    def lacking(self) -> dict[str, list[str]]:
        """Of each split the classes that only others have; call it after `choose`."""
        return dict(self.rows(_LACKING)) if self.known is None else {}

    def class_sizes(self) -> dict[str, dict[str, int]]:
        """Of each split the images of each class that has any; call it after `choose`."""
        sizes: dict[str, dict[str, int]] = {}
        for split, name, number in self.rows(_CLASS_SIZES):
            sizes.setdefault(split, {})[name] = number
        return sizes

    def summaries(self, table: str = "chosen") -> dict[str, Input]:
        """Of each split of a table: images, their bytes, a digest of what the raw data says."""
        if self.renamed and table == "chosen":
            table = "(select * from images semi join chosen using (split, key))"
        own = [column_list([field.name]) for field in self.fields if field.kind != MASK.kind]
        said = [f"{name}::varchar" for name in own]
        said += [said_of_masks(column_list([name])) for name in named(self.fields, MASK.kind)]
        fields = "".join(f", chr(0), {each}" for each in said)
        found = self.rows(_SUMMARY.format(table=table, fields=fields))
        return {split: Input(*rest) for split, *rest in found}
