"""The sending half: what is read, what is noticed, and what stays in memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from dataprep.errors import StagingError
from dataprep.staging.source import SourceFile, SourceReader
from dataprep.system.filesystems import filesystem_of

_PAGE = os.sysconf("SC_PAGE_SIZE")


def listed(source: Path, name: str, *, sha256: str | None = None) -> SourceFile:
    found = (source / name).stat()
    return SourceFile(name, found.st_size, sha256, None if sha256 else found.st_mtime_ns)


def resident(path: Path) -> float:
    """The share of a file's pages that are in the page cache."""
    size = path.stat().st_size
    pages = -(-size // _PAGE)
    found = (ctypes.c_ubyte * pages)()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as mapping:
        anchor = ctypes.c_char.from_buffer(mapping)
        address = ctypes.c_void_p(ctypes.addressof(anchor))
        assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), found) == 0
        del anchor
    return sum(flags & 1 for flags in found) / pages


def replace_file(path: Path) -> None:
    path.with_name("b").write_bytes(path.read_bytes())
    path.with_name("b").rename(path)


def read_all(reader: SourceReader, largest: int) -> bytes:
    buffer = memoryview(bytearray(largest))
    return b"".join(
        bytes(reader.read(offset, buffer[:count])) for offset, count in reader.pieces(largest)
    )


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 4096])
def test_the_pieces_are_the_file(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        assert read_all(reader, 1000) == data
        reader.check_unchanged()


def test_the_source_does_not_stay_in_memory(tmp_path: Path) -> None:
    if filesystem_of(tmp_path) in ("tmpfs", "ramfs", "overlay", ""):
        pytest.skip("the temporary directory is memory, or may be: set TMPDIR to one on a disk")
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(os.urandom(8_000_001))
        file.flush()
        os.fsync(file.fileno())
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        read_all(reader, 1 << 20)
        while_open = resident(path)
    assert while_open <= 0.05
    assert resident(path) == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda path: path.write_bytes(b"longer than before"),
            "was written to since it was listed",
        ),
        (lambda path: os.utime(path, ns=(1, 1)), "was written to since it was listed"),
        (lambda path: path.unlink(), "cannot read .*No such file"),
        (lambda path: (path.unlink(), path.mkdir()), "no regular file"),
        (lambda path: (path.unlink(), os.mkfifo(path)), "no regular file"),
    ],
    ids=["size", "time", "absent", "directory", "pipe"],
)
def test_a_file_that_is_not_as_listed_is_named(tmp_path: Path, change, says: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    file = listed(tmp_path, "a")
    change(path)
    with pytest.raises(StagingError, match=says) as raised:
        SourceReader(tmp_path, file)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: os.truncate(path, 3),
        replace_file,
        Path.unlink,
    ],
    ids=["time", "size", "file", "absent"],
)
def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path, change) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        read_all(reader, 1000)
        reader.check_unchanged()
        change(path)
        with pytest.raises(StagingError, match=r"changed while|No such file"):
            reader.check_unchanged()


def test_a_file_that_gets_shorter_under_the_reader_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        os.truncate(path, 70)
        buffer = memoryview(bytearray(50))
        reader.read(0, buffer)
        with pytest.raises(StagingError, match="changed while it was being copied"):
            reader.read(50, buffer)
