"""Parquet that promises more than there is room for: refused in one line, unread."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dataprep.errors import DatasetError, SinkError
from dataprep.formats import DatasetInfo
from dataprep.plugins import load_sink
from dataprep.system import regular_files
from dataprep.tables.records import RecordsTable


def varint(number: int) -> bytes:
    """As Thrift's compact protocol has it."""
    number, data = number * 2, []
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes([*data, number])


def promise(path: Path, rows: int, promised: int) -> None:
    """Change how many rows the footer says there are, wherever it says so."""
    data = path.read_bytes()
    (size,) = struct.unpack("<I", data[-8:-4])
    body, footer = data[: -8 - size], data[-8 - size : -8]
    assert footer.count(varint(rows)) >= 2
    footer = footer.replace(varint(rows), varint(promised))
    path.write_bytes(body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_a_footer_that_promises_a_trillion_rows(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    parquet.write_table(pa.table({"key": pa.nulls(123_457, pa.string())}), path)
    promise(path, 123_457, 10**12)
    expected = r"^[^\n]*row group 0 of 1,000,000,000,000 rows[^\n]*$"
    with pytest.raises(DatasetError, match=expected):
        RecordsTable(tmp_path, None)
    with pytest.raises(SinkError, match=expected):
        load_sink("parquet").reader([path], DatasetInfo())


def test_a_few_bytes_that_become_very_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.parquet"
    parquet.write_table(pa.table({"key": [bytes(1 << 24)]}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    monkeypatch.setattr(regular_files, "_MOST_BYTES", 1 << 20)
    with pytest.raises(DatasetError, match="row group 0 of 1 rows and 16,777"):
        RecordsTable(tmp_path, None)
