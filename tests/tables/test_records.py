"""The table of records: rows of shards, joined; what it says, and to whom."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import duckdb
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dataprep.errors import DatasetError
from dataprep.formats import DatasetInfo, ShardName, WrittenFile
from dataprep.formats.example import Example
from dataprep.jobs.output.commit import commit
from dataprep.jobs.output.lock import locked
from dataprep.jobs.output.workspace import Workspace
from dataprep.jobs.running import shard as shard_module
from dataprep.jobs.running.job import Made, Rejected, SplitJob
from dataprep.jobs.running.seal import join_rows
from dataprep.jobs.running.shard import ShardRows
from dataprep.system.state_files import file_sha256
from dataprep.tables import sealing
from dataprep.tables.records import NAME, STATUSES, RecordsTable, conspicuous
from dataprep.tables.sealing import WrittenRecords
from dataprep_schemas.fields import BOXES, Field
from dataprep_schemas.state import CommitRecord
from dataprep_schemas.tables import RECORDS, schema_of
from tests.conftest import few
from tests.jobs.conftest import job_of, workspace
from tests.system.test_parquet_files import promise

__all__ = ["workspace"]  # the fixture

CLASSES = (("n01", "tench"), ("n02", "goldfish"), ("n03", "shark|fish"))
INFO = DatasetInfo(CLASSES, multilabel=True)
FIELDS = (BOXES, Field("age", "int"), Field("view", "text"))
SETTINGS = few(4, 8)

KEYS = st.text("aZ0/é\U0001f41f'\"|", min_size=1, max_size=4)
LABELS = st.sets(st.integers(0, 2)).map(lambda some: tuple(sorted(some)))
KNOWN = st.fixed_dictionaries({}, optional={"age": st.integers(0, 99), "view": st.just("PA")})
STATUS = st.sampled_from(["stored", "repaired", "warned"])


@st.composite
def made(draw: st.DrawFn) -> Made:
    status = draw(STATUS)
    example = Example(
        key=draw(KEYS),
        encoded=draw(st.binary(max_size=9)),
        format=draw(st.sampled_from(["JPEG", "PNG"])),
        height=draw(st.integers(1, 9)),
        width=draw(st.integers(1, 9)),
        colorspace="RGB",
        labels=draw(LABELS),
        synset="",
        class_name="",
    )
    reason = None if status == "stored" else "why"
    return Made(example, draw(st.sampled_from([1, 3])), status, reason, draw(KNOWN))  # type: ignore[arg-type]  # of these three


ITEMS = st.lists(made() | st.builds(Rejected, KEYS, st.just("a.tar"), LABELS, KEYS, KNOWN))


@contextmanager
def small_groups() -> Iterator[None]:
    with patch.object(shard_module, "_GROUP", 3), patch.object(sealing, "_GROUP", 4):
        yield


def write(workspace: Workspace, shard: ShardName, items: Sequence[Made | Rejected]) -> CommitRecord:
    path = workspace.rows(shard)
    with ShardRows(path, shard, INFO, FIELDS) as rows:
        for item in items:
            rows.add(item)
        rows.close()
    written = WrittenFile(path.stat().st_size, file_sha256(path))
    return rows.record([path.relative_to(workspace.out)], [written], None)


def expected(shard: ShardName, items: Sequence[Made | Rejected]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    stored = 0
    for item in items:
        row = dict.fromkeys([*RECORDS, "boxes", "age", "view"])
        row |= {"split": shard.split, "shard": shard.number, "reason": item.reason}
        if isinstance(item, Rejected):
            said: Any = item
            row |= {"status": "rejected", "container": "a.tar"}
        else:
            said = item.example
            row |= {
                "status": item.status,
                "position": stored,
                "format": said.format,
                "height": said.height,
                "width": said.width,
                "channels": item.channels,
                "bytes": len(said.encoded),
                "xxh3": xxhash.xxh3_128(said.encoded).hexdigest(),
            }
            stored += 1
        classes = [CLASSES[label][0] for label in said.labels]
        rows.append(
            {**row, "key": said.key, "labels": [*said.labels], "classes": classes}
            | dict(item.fields)
        )
    return rows


@SETTINGS
@given(ITEMS)
def test_a_shard_s_rows_come_back(items: list[Made | Rejected]) -> None:
    with TemporaryDirectory() as name, small_groups():
        workspace = Workspace(Path(name))
        workspace.make()
        shard = ShardName("train", 3, 5)
        record = write(workspace, shard, items)
        path = workspace.rows(shard)
        assert parquet.read_table(path).to_pylist() == expected(shard, items)
        assert record.images == len(items)
        known = [tuple(row[name] for name in ("status", "key")) for row in expected(shard, items)]
        odd = [row for row in known if row[0] != "stored"]
        assert [*conspicuous(path, ("status", "key"))] == odd
        path.unlink()
        assert write(workspace, shard, items) == record  # the same bytes


def test_the_hash_is_xxh3_of_128_bits(workspace: Workspace) -> None:
    """The empty input's, from the tests of the reference implementation."""
    example = Example("k", b"", "JPEG", 1, 1, "RGB", (), "", "")
    shard = ShardName("train", 0, 1)
    write(workspace, shard, [Made(example, 3)])
    (row,) = parquet.read_table(workspace.rows(shard)).to_pylist()
    assert row["xxh3"] == "99aa06d3014798d86001c324468d497f"


# --- joined ---

SPLITS = {"train": 3, "a'b": 1}
OTHERS = st.lists(
    st.fixed_dictionaries(
        {
            "status": st.sampled_from(["missing", "unlisted", "ignored"]),
            "key": KEYS,
            "split": st.sampled_from([None, *SPLITS]),
            "container": st.sampled_from([None, "list.csv"]),
        }
    )
)


def join(
    workspace: Workspace,
    contents: dict[ShardName, list[Made | Rejected]],
    others: Sequence[dict[str, Any]] = (),
) -> WrittenRecords:
    splits = tuple(
        SplitJob(name, shards, "none", images=0, source_bytes=0) for name, shards in SPLITS.items()
    )
    tables = [pa.Table.from_pylist([row]) for row in others]
    records = [write(workspace, shard, items) for shard, items in contents.items()]
    for record in records:
        commit(workspace, record)
    job = job_of(workspace.out, INFO, *splits, fields=FIELDS)
    with locked(workspace) as lease:
        return join_rows(replace(job, lease=lease), records, tables)


def spread(counts: Sequence[Counter[Any]]) -> int:
    names = {name for count in counts for name in count}
    return max((max(c[n] for c in counts) - min(c[n] for c in counts) for n in names), default=0)


@SETTINGS
@given(st.lists(ITEMS, min_size=4, max_size=4), OTHERS, st.randoms())
def test_the_table_has_every_row_and_the_sums_are_its_own(
    lists: list[list[Made | Rejected]], others: list[dict[str, Any]], random: Any
) -> None:
    shards = [ShardName(name, at, count) for name, count in SPLITS.items() for at in range(count)]
    contents = dict(zip(shards, lists, strict=True))
    with TemporaryDirectory() as name, small_groups():
        workspace = Workspace(Path(name))
        workspace.make()
        joined = join(workspace, contents, others)
        data = workspace.records.read_bytes()
        found = parquet.read_table(workspace.records).to_pylist()
        with RecordsTable(workspace.out, None) as table:
            assert table.fields == FIELDS
            read = [row for part in table.between(0, columns=["key"]) for row in part.to_pylist()]
            for start, stop in ((0, 0), (0, len(found)), (len(found) // 3, 2 * len(found) // 3)):
                keys = [row["key"] for row in found[start:stop]]
                assert [key for (key,) in table.rows(start, stop, ["key"])] == keys
            with pytest.raises(DatasetError, match="has no row"):
                [*table.rows(0, len(found) + 1, ["key"])]
        assert [row["key"] for row in read] == [row["key"] for row in found]
        # The same bytes, however it came.
        for path in workspace.commits.iterdir():
            path.unlink()
        random.shuffle(others)
        assert join(workspace, contents, others) == joined
        assert workspace.records.read_bytes() == data
        assert sorted(path.name for path in workspace.out.iterdir()) == [".dataprep", NAME]
    records = [
        row
        for shard in sorted(shards, key=lambda it: (it.split, it.number))
        for row in expected(shard, contents[shard])
        if row["position"] is not None
    ]
    assert found[: len(records)] == records
    empty = dict.fromkeys([*RECORDS, "boxes", "age", "view"])
    rest = [row for shard in shards for row in expected(shard, contents[shard])]
    rest = [row for row in rest if row["position"] is None] + [{**empty, **row} for row in others]
    order = ["rejected", "missing", "unlisted", "ignored"]
    assert sorted(map(repr, found[len(records) :])) == sorted(map(repr, rest))
    places = [
        (order.index(row["status"]), row["split"] is None, row["split"] or "", row["key"])
        for row in found[len(records) :]
    ]
    assert places == sorted(places)
    assert joined.file.rows == len(found)
    statuses = Counter(row["status"] for row in found)
    assert joined.totals.records == len(records)
    assert joined.totals.repaired == statuses["repaired"]
    assert joined.totals.missing == statuses["missing"]
    for split, said in joined.splits.items():
        own = [row for row in records if row["split"] == split]
        labels = [
            Counter(label for row in own if row["shard"] == at for label in row["labels"])
            for at in range(SPLITS[split])
        ]
        sets = [
            Counter(tuple(row["labels"]) for row in own if row["shard"] == at)
            for at in range(SPLITS[split])
        ]
        expected_classes = sum(labels, Counter())
        assert said.class_records == {str(at): n for at, n in expected_classes.items()}
        assert said.class_spread == spread(labels)
        assert said.label_set_spread == spread(sets)
        there = Counter(row["status"] for row in found if row["split"] == split)
        assert {k: n for k in STATUSES[1:] if (n := getattr(said, k))} == {
            status: n for status, n in there.items() if status != "stored"
        }


def filled(workspace: Workspace) -> dict[ShardName, list[Made | Rejected]]:
    example = Example("k", b"abc", "JPEG", 1, 1, "RGB", (0, 2), "", "")
    shards = [ShardName(name, at, count) for name, count in SPLITS.items() for at in range(count)]
    return {shard: [Made(example, 3), Rejected("r", "a.tar", (), "why")] for shard in shards}


def test_a_damaged_table_is_one_line(workspace: Workspace) -> None:
    join(workspace, filled(workspace))
    right = workspace.records.read_bytes()
    wanted = parquet.read_table(workspace.records).to_pylist()
    for at in range(0, len(right), 40):
        data = bytearray(right)
        data[at] ^= 1 << at % 8
        workspace.records.write_bytes(data)
        with suppress(DatasetError), RecordsTable(workspace.out, None) as table:
            found = [row for part in table.between(0) for row in part.to_pylist()]
            assert len(found) == len(wanted)  # of pages: checked; of the footer: by its hash
    workspace.records.write_bytes(right[:100])
    with pytest.raises(DatasetError, match=r"^[^\n]*cannot be read[^\n]*$"):
        RecordsTable(workspace.out, None)


def test_other_readers_see_the_schema(workspace: Workspace) -> None:
    join(workspace, filled(workspace), [{"status": "ignored", "key": "x"}])
    assert parquet.read_schema(workspace.records) == schema_of("records", FIELDS)
    types = duckdb.execute(f"describe from '{workspace.records}'").fetchall()
    assert [name for name, *_ in types] == [*RECORDS, "boxes", "age", "view"]
    assert dict(row[:2] for row in types)["labels"] == "INTEGER[]"
    count = duckdb.execute(
        f"select status, count(*) from '{workspace.records}' group by 1 order by 1"
    )
    assert count.fetchall() == [("ignored", 1), ("rejected", 4), ("stored", 4)]
    pandas = pytest.importorskip("pandas")
    assert len(pandas.read_parquet(workspace.records)) == 9


# --- forged ---

PLAIN = pa.Table.from_pylist(
    [dict.fromkeys(RECORDS) | {"key": f"k{number}"} for number in range(200)],
    schema_of("records"),
)
ONES = pa.array([1] * len(PLAIN))
WORDS = pa.array(["a"] * len(PLAIN))


def with_key(values: pa.Array) -> pa.Table:
    return PLAIN.set_column(0, "key", values)


FORGED = {
    # What a name of another column may not be.
    **{
        name: (PLAIN.append_column(name, ONES), said)
        for name, said in {
            "x\"; COPY (select 1) to 'x": 'column x"; COPY',
            "\x1b[31m\n": r"column \x1b[31m\n of",
            "\u202eevil": r"column \u202eevil of int64",
            "a" * 10**6: "column aaa",
            "": "the column  of int64",
            "a\n": r"column a\n of int64",
            "é": "column é of int64",
            "KEY": "columns of the same name",
        }.items()
    },
    # Nor what is in it.
    **{
        f"of {value!r}": (
            PLAIN.append_column("own", pa.array([value] * 200)),
            f"column own of {kind}",
        )
        for value, kind in (({"a": 1}, "struct"), ([1], "list"), (b"x", "binary"))
    },
    "twice": (PLAIN.append_column("key", WORDS), "columns of the same name"),
    "own ones twice": (
        PLAIN.append_column("own", ONES).append_column("Own", ONES),
        "columns of the same name",
    ),
    "very many": (
        pa.table(
            {**{name: PLAIN[name] for name in RECORDS}, **{f"c{n}": ONES for n in range(1001)}}
        ),
        "more than 1000",
    ),
    "a number": (with_key(ONES), "no column key of string in place 1"),
    "a dictionary": (with_key(WORDS.dictionary_encode()), "no column key of string"),
    "one missing": (PLAIN.drop(["bytes"]), "no column bytes of int64 in place 13"),
    "another order": (PLAIN.select([*PLAIN.column_names[1:], "key"]), "no column key of string"),
    "nothing": (PLAIN.select([]), "no column key of string"),
}


@pytest.mark.parametrize("name", FORGED, ids=lambda name: repr(name[:20]))
def test_other_columns_are_refused_in_a_short_line(tmp_path: Path, name: str) -> None:
    table, said = FORGED[name]
    parquet.write_table(table, tmp_path / NAME)
    with pytest.raises(DatasetError, match=re.escape(said)) as caught:
        RecordsTable(tmp_path, None)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 800


def test_a_table_of_nothing_has_no_rows(tmp_path: Path) -> None:
    for table in (None, PLAIN.slice(0, 0)):
        with parquet.ParquetWriter(tmp_path / NAME, PLAIN.schema) as file:
            if table is not None:
                file.write_table(table)
        with RecordsTable(tmp_path, None) as found:
            assert [row for part in found.between(0) for row in part.to_pylist()] == []
            with pytest.raises(DatasetError, match="has no row 0"):
                [*found.rows(0, 1, ["key"])]


@pytest.mark.parametrize("promised", [201, 400, 1_000_000])
def test_a_footer_that_promises_more_rows_than_there_are(tmp_path: Path, promised: int) -> None:
    parquet.write_table(PLAIN, tmp_path / NAME)
    promise(tmp_path / NAME, len(PLAIN), promised)
    with RecordsTable(tmp_path, None) as table:
        said = rf"row group 0 has 200 rows, not {promised:,}"
        with pytest.raises(DatasetError, match=said):
            [*table.rows(0, 10, ["key"])]
    with pytest.raises(DatasetError, match=said):
        [*conspicuous(tmp_path / NAME, ["key"])]


def test_text_that_is_no_utf_8_is_one_line(tmp_path: Path) -> None:
    raw = pa.array([b"caf\xe9"] * len(PLAIN))
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    parquet.write_table(with_key(text), tmp_path / NAME)
    said = pytest.raises(DatasetError, match=r"cannot be read .*UTF8")
    with RecordsTable(tmp_path, None) as table, said:
        [*table.rows(0, 10, ["key"])]
