"""Parcels are read ahead within bounds, and a source that changes meanwhile is found out."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from dataprep.staging.broadcast.failure import Failure
from dataprep.staging.broadcast.plan import parcels
from dataprep.staging.broadcast.reader import SOUND, ParcelReader
from dataprep.staging.inventory import SourceFile


def new_reader(source: Path, *sizes: int, failure: Failure, run: int = 80) -> ParcelReader:
    """Of files f, g, … in parcels of 10 bytes, of which 2 are read ahead."""
    files = [SourceFile(name, size) for name, size in zip("fgh", sizes, strict=False)]
    order = parcels(files, readers=1, lanes=1, length=10, run=run)
    return ParcelReader(
        source,
        order,
        run=run,
        length=10,
        threads=1,
        bandwidth=None,
        failure=failure,
    )


def take(reader: ParcelReader) -> bytearray:
    while (buffer := reader.next_ready()) is None:
        time.sleep(0.001)
    return buffer


def test_no_more_is_read_ahead_than_there_are_buffers(tmp_path: Path) -> None:
    data = os.urandom(35)
    (tmp_path / "f").write_bytes(data)
    failure = Failure()
    with new_reader(tmp_path, 35, failure=failure) as reader:
        first, second = take(reader), take(reader)
        assert reader.next_ready() is None
        assert bytes(first) + bytes(second) == data[:10] + b"\1" + data[10:20] + b"\1"
        assert reader.bytes_read == 20
        reader.give_back(first)
        reader.give_back(second)
        assert bytes(take(reader)) == data[20:30] + b"\1"
        assert bytes(take(reader)[:6]) == data[30:] + b"\1"
    assert failure.error is None


def test_a_file_that_changes_between_two_parcels_is_marked_as_bad(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(30)))
    failure = Failure()
    with new_reader(tmp_path, 30, failure=failure) as reader:
        held = [take(reader), take(reader)]
        os.utime(tmp_path / "f", ns=(1, 1))
        reader.give_back(held[0])
        assert take(reader)[10] & SOUND == 0
    assert "it was written to" in str(failure.error)


def open_in(place: Path) -> set[str]:
    """Names of its files that this process has open."""
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            found.add(link.readlink())
    return {path.name for path in found if path.parent == place}


@pytest.mark.parametrize("run", [10, 80])
def test_a_file_stays_open_as_long_as_there_may_be_more_of_it(tmp_path: Path, run: int) -> None:
    for name, size in (("f", 30), ("g", 0), ("h", 30)):
        (tmp_path / name).write_bytes(bytes(size))
    failure = Failure()
    with new_reader(tmp_path, 30, 0, 30, failure=failure, run=run) as reader:
        seen = []
        for _ in range(7):
            held = take(reader)
            seen.append(open_in(tmp_path))
            reader.give_back(held)
        assert failure.error is None
        assert reader.bytes_read == 60
    # One more may have been opened ahead.
    assert all("f" in names for names in seen[:2])
    assert all(names == {"h"} for names in seen[5:])
    assert open_in(tmp_path) == set()


def test_what_was_to_be_read_when_it_ends_early_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(500))
    failure = Failure()
    with new_reader(tmp_path, 500, failure=failure) as reader:
        take(reader)
        assert open_in(tmp_path) == {"f"}
        failure.note(ValueError("no more"))
    assert open_in(tmp_path) == set()


def is_cached(path: Path, offset: int) -> bool:
    """Whether the kernel has that page of a file in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)  # looking must not read ahead
        return os.preadv(descriptor, [bytearray(1)], offset, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    except OSError as error:
        pytest.skip(f"this file system does not tell: {error.strerror}")
    finally:
        os.close(descriptor)


def test_what_another_node_reads_is_not_read_ahead(tmp_path: Path) -> None:
    length = 1 << 20
    with (tmp_path / "f").open("wb") as file:
        file.write(bytes(4 * length))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    if is_cached(tmp_path / "f", 2 * length):
        pytest.skip("this file system is memory")
    order = parcels([SourceFile("f", 4 * length)], readers=2, lanes=2, length=length, run=length)
    with ParcelReader(
        tmp_path,
        (parcel for parcel in order if parcel.reader == 0),
        run=length,
        length=length,
        threads=1,
        bandwidth=None,
        failure=Failure(),
    ) as reader:
        assert [take(reader)[length] & SOUND for _ in range(2)] == [SOUND] * 2
        assert not any(is_cached(tmp_path / "f", 3 * length + page) for page in (0, 4096, 16384))
