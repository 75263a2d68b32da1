"""A ``records.parquet`` and a manifest that agree, made by somebody who wishes harm."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import dataprep
from dataprep.errors import DataprepError, DatasetError
from tests.conftest import Cli, Made
from tests.sealed.test_verify import resealed

INJECTION = """key" from (select chosen.*, [0] as numbers, 0 as rank from chosen) limit 0; \
copy (select content from read_text('/etc/hostname')) to 'PWNED.csv'; select 1 as "a"""

Forge = Callable[[pa.Table], pa.Table]


def with_column(name: str, values: Callable[[int], list[object]]) -> Forge:
    """One more column, behind the others."""
    return lambda table: table.append_column(name, [values(len(table))])


def with_type(name: str, values: pa.Array) -> Forge:
    """A column of other values, and another type."""
    return lambda table: table.set_column(
        table.column_names.index(name), name, pa.repeat(values[0], len(table))
    )


FORGED: dict[str, Forge] = {
    "sql": with_column(INJECTION, lambda rows: [1] * rows),
    "two columns of a name": with_column("key", lambda rows: ["a"] * rows),
    "the same in capitals": with_column("KEY", lambda rows: ["a"] * rows),
    "a list": with_column("more", lambda rows: [[1]] * rows),
    "a time": with_type("status", pa.array([0], pa.timestamp("s"))),
    "a number": with_type("key", pa.array([7])),
    "bytes": with_type("split", pa.array([b"train"])),
    "another order": lambda table: table.select([*table.column_names[1:], "key"]),
    "few long rows": lambda table: table.slice(0, 16).set_column(
        table.column_names.index("reason"), "reason", pa.array(["x" * 10_000_000] * 16)
    ),
}
READING: dict[str, Callable[[Path], tuple[object, ...]]] = {
    "lint": lambda out: ("lint", out),
    "inspect": lambda out: ("inspect", out),
    "convert": lambda out: ("convert", out, "--sink", "recordio", "--to", out.parent / "to"),
    "verify": lambda out: ("verify", out, "--level", "records"),
}


@pytest.fixture
def out(tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished set, from a working directory of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tiny.copy(tmp_path / "out")


# All parse the table in the same way.
@pytest.mark.parametrize(
    ("name", "commands"),
    [
        *((name, [*READING] if name == "sql" else ["lint"]) for name in FORGED),
        *(pytest.param(name, [*READING], marks=pytest.mark.thorough) for name in FORGED),
    ],
)
def test_forged_columns_are_one_line_everywhere(
    cli: Cli, out: Path, name: str, commands: list[str]
) -> None:
    path = out / "records.parquet"
    for _ in resealed(out):
        parquet.write_table(FORGED[name](parquet.read_table(path)), path)
    for command in commands:
        result = cli(*READING[command](out))
        assert result.code == 1
        assert "records.parquet" in result.out + result.error
        assert "Traceback" not in result.err
    with pytest.raises(DatasetError, match=r"records\.parquet"):
        dataprep.open(out, split="train").by_key("x")
    assert not list(Path.cwd().iterdir())


def test_any_flipped_bit_of_the_table_is_found_before_it_is_asked(cli: Cli, out: Path) -> None:
    path = out / "records.parquet"
    right = path.read_bytes()
    for at in range(4, len(right), len(right) // 12):
        data = bytearray(right)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        for name in ("lint", "inspect"):
            result = cli(*READING[name](out))
            assert result.code == 1
            assert "is not the table that was sealed" in result.error
        with pytest.raises(DataprepError, match="not the table that was sealed"):
            dataprep.open(out, split="train").by_key("x")


def test_a_table_that_changes_while_it_is_used_is_noticed(out: Path) -> None:
    records = dataprep.open(out, split="train")
    key = json.loads(json.dumps(records[0].key))
    assert records.by_key(key).key == key
    path = out / "records.parquet"
    path.write_bytes(path.read_bytes()[:-1] + b"2")
    with pytest.raises(DatasetError, match="not the table that was sealed"):
        dataprep.open(out, split="train").by_key(key)
