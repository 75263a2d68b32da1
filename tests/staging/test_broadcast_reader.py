"""Parcels are read ahead within bounds, and a source that changes meanwhile is found out."""

from __future__ import annotations

import os
import time
from pathlib import Path

from dataprep.staging.broadcast.plan import parcels
from dataprep.staging.broadcast.reader import SOUND, ParcelReader
from dataprep.staging.inventory import SourceFile


def new_reader(source: Path, size: int, failures: list[BaseException]) -> ParcelReader:
    """Of one file in parcels of 10 bytes, of which 2 are read ahead."""
    order = parcels([SourceFile("f", size)], readers=1, lanes=1, length=10, run=80)
    return ParcelReader(
        source,
        order,
        run=80,
        length=10,
        threads=1,
        bandwidth=None,
        on_failure=failures.append,
        is_stopped=lambda: bool(failures),
    )


def take(reader: ParcelReader) -> bytearray:
    while (buffer := reader.next_ready()) is None:
        time.sleep(0.001)
    return buffer


def test_no_more_is_read_ahead_than_there_are_buffers(tmp_path: Path) -> None:
    data = os.urandom(35)
    (tmp_path / "f").write_bytes(data)
    failures: list[BaseException] = []
    with new_reader(tmp_path, 35, failures) as reader:
        first, second = take(reader), take(reader)
        assert reader.next_ready() is None
        assert bytes(first) + bytes(second) == data[:10] + b"\1" + data[10:20] + b"\1"
        assert reader.bytes_read == 20
        reader.give_back(first)
        reader.give_back(second)
        assert bytes(take(reader)) == data[20:30] + b"\1"
        assert bytes(take(reader)[:6]) == data[30:] + b"\1"
    assert failures == []


def test_a_file_that_changes_between_two_parcels_is_marked_as_bad(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(30)))
    failures: list[BaseException] = []
    with new_reader(tmp_path, 30, failures) as reader:
        held = [take(reader), take(reader)]
        os.utime(tmp_path / "f", ns=(1, 1))
        reader.give_back(held[0])
        assert take(reader)[10] & SOUND == 0
    assert "it was written to" in str(failures[0])
