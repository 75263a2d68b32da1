"""What is taken of finished sets, by a condition that may be hostile or never twice the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.errors import UsageError
from dataprep.tables.chosen import Selection
from dataprep.tables.selection import open_selection, take
from tests.tables.test_questions import ATTACKS, MARK, row, sealed


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_condition_is_one_and_reaches_nothing(tmp_path: Path, attack: str) -> None:
    sealed(tmp_path / "set", [row(number, number % 3) for number in range(20)])
    given = tmp_path / "set" / "records.parquet"
    before = given.read_bytes()
    places = {"given": given, "other": tmp_path / "other", "new": tmp_path / "new"}
    places["other"].write_text(f"{MARK}\n")
    with (
        pytest.raises(UsageError) as raised,
        open_selection([given], tmp_path, rows=20, rejected=True) as database,
    ):
        take(database, Selection(where=attack.format(**places)), ["0", "1", "2"])
    assert MARK not in str(raised.value)
    assert sorted(tmp_path.iterdir()) == sorted([places["other"], tmp_path / "set"])
    assert given.read_bytes() == before


def test_a_condition_is_asked_once(tmp_path: Path) -> None:
    sealed(tmp_path, [row(number, number % 3) for number in range(200)])
    path = tmp_path / "records.parquet"
    with open_selection([path], tmp_path, rows=200, rejected=True) as database:
        take(database, Selection(where="random() < 0.5"), ["0", "1", "2"])
        query = "select key from fresh order by key"
        assert database.sql(query).fetchall() == database.sql(query).fetchall()


def test_what_goes_wrong_in_the_midst_of_a_condition_is_one_line(tmp_path: Path) -> None:
    sealed(tmp_path, [row(number, 0) for number in range(20)])
    path = tmp_path / "records.parquet"
    with (
        pytest.raises(UsageError, match="Conversion Error"),
        open_selection([path], tmp_path, rows=20, rejected=True) as database,
    ):
        take(database, Selection(where="if(age < 15, 1, key::integer) = 1"), ["0"])
