"""The queries of docs/on-disk.md answer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import pytest

from tests.conftest import Cli, Raw, rows_of
from tests.docs.pages import DOCS, said

PAGE = DOCS / "on-disk.md"


def test_the_queries_answer_what_they_ask(
    cli: Cli, spoilt: Raw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli(*spoilt.command(tmp_path / "OUT", "--max_bad", 4)).code == 0
    monkeypatch.chdir(tmp_path)
    ((_, block),) = said(r"```sql\n([\s\S]*?)```", PAGE)
    example = rows_of(tmp_path / "OUT", "stored")[3]
    text = block[1].replace("n01440764/n01440764_10026.JPEG", example["key"])
    odd, classes, place, twice, sizes = (
        duckdb.execute(query).fetchall() for query in text.split(";") if query.strip()
    )
    assert sorted(row[1] for row in odd) == ["rejected"] * 4 + ["repaired"] * 2
    records = rows_of(tmp_path / "OUT", "stored", "repaired", "warned")
    assert sum(row[-1] for row in classes) == len(records)
    assert place == [(example["split"], example["shard"], example["position"])]
    hashes = Counter(row["xxh3"] for row in records)
    assert {row[0] for row in twice} == {found for found, number in hashes.items() if number > 1}
    assert {row[:2] for row in sizes} == {(row["split"], row["format"]) for row in records}
