"""The database: bounded memory, and one clear line when there is no room."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.errors import PipelineError, SinkError
from dataprep.tables import database
from dataprep.tables.database import identifier, open_database, tables
from tests.faults.conftest import small_disk

__all__ = ["small_disk"]

ROWS = 2_000_000
SORT = "create table t as select hash(range) as h, range::varchar as text from range({}) order by h"


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "memory_limit", lambda rows: 48 << 20)


def test_what_does_not_fit_in_memory_goes_to_files_that_are_removed(
    little_memory: None, tmp_path: Path
) -> None:
    with open_database(tmp_path) as found:
        found.execute(SORT.format(ROWS))
        assert [*tmp_path.glob(".sort.*.partial")]
        assert found.execute("select count(*) from t").fetchone() == (ROWS,)
    assert [*tmp_path.iterdir()] == []


def test_a_full_disk_is_one_clear_line(
    little_memory: None, small_disk: Callable[[str], Path]
) -> None:
    place = small_disk("4m")
    line = "no space left while sorting; free some and run the same"
    with pytest.raises(SinkError, match=line), open_database(place) as found:
        found.execute(SORT.format(ROWS))
    assert [*place.iterdir()] == []


def test_too_little_memory_is_one_clear_line(little_memory: None) -> None:
    line = r"^not enough memory to sort the images \(.*; ask the scheduler for more"
    with pytest.raises(PipelineError, match=line), open_database(None) as found:
        found.execute(SORT.format(ROWS))


def test_names_are_only_names(tmp_path: Path) -> None:
    path = tmp_path / "a=1" / "it's [x] *.parquet"
    path.parent.mkdir()
    name = 'a" from b; copy c to "d'
    parquet.write_table(pa.table({name: [7]}), path)
    with open_database(None, [path]) as found:
        query = f"select {identifier(name)} from {tables([path])}"
        assert found.execute(query).fetchall() == [(7,)]


@pytest.mark.parametrize(
    "query",
    [
        "from read_text('{other}')",
        "from '{other}'",
        "from glob('{other}')",
        "copy (select 1) to '{new}'",
        "copy (select 1) to '{given}'",
        "attach '{new}'",
        "from variable",
        "load httpfs",
        "install httpfs",
        "set enable_external_access = true",
        "set allowed_paths = ['{other}']",
        "set temp_directory = '{new}'",
        "reset lock_configuration",
        "pragma enable_profiling = 'json'",
        "call enable_logging(storage = 'file', storage_path = '{new}')",
        "create persistent secret s (type http, bearer_token 'x')",
        "export database '{new}'",
        "copy (select 1) to '{new}' (use_tmp_file false)",
        "from parquet_metadata('{other}')",
        "from sniff_csv('{other}')",
    ],
)
def test_no_query_reaches_beyond_its_files(tmp_path: Path, query: str) -> None:
    places = {name: tmp_path / name for name in ("given", "other", "new")}
    variable = pa.table({"a": [1]})
    for name in ("given", "other"):
        parquet.write_table(variable, places[name])
    before = places["given"].read_bytes()
    with open_database(tmp_path, [places["given"]]) as found:
        assert found.execute(f"from {tables([places['given']])}").fetchall() == [(1,)]
        with pytest.raises(duckdb.Error):
            found.execute(query.format(**places))
    assert places["given"].read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"given", "other"}


@pytest.mark.parametrize("spills", [True, False])
def test_what_is_opened_is_exactly_the_spill_directory_and_the_files(
    tmp_path: Path, spills: bool
) -> None:
    given = tmp_path / "given"
    with open_database(tmp_path if spills else None, [given]) as found:
        rows = found.execute("select name, value from duckdb_settings()").fetchall()
    allowed = dict(rows)
    spill = allowed["temp_directory"]
    assert Path(spill).parent == (tmp_path if spills else Path())
    assert allowed["allowed_directories"] == (f"[{spill}/]" if spills else "[]")
    assert allowed["allowed_paths"] == f"[{given}]"
    assert (allowed["enable_external_access"], allowed["lock_configuration"]) == ("false", "true")
    looked_for = {name for name in allowed if re.match("auto.*_known_extensions", name)}
    assert {allowed[name] for name in looked_for} == {"false"}


def test_what_workers_load_has_no_database_in_it() -> None:
    jobs = "dataprep.jobs.preparing.raw_images, dataprep.jobs.running.shard"
    program = f"import sys, {jobs}, dataprep_pipelines.write; sys.exit('duckdb' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
