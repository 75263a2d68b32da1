"""The sending half: what is read, what is noticed, and what stays in memory."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import mmap
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from dataprep.errors import StagingError
from dataprep.staging import stage as module
from dataprep.staging.copying import Watch, read_files
from dataprep.staging.inventory import SourceFile
from dataprep.staging.reading import Piece, SourceReader
from dataprep.staging.request import StageRequest
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
        bytes(piece.bytes) if piece.hole else bytes(reader.read(piece, buffer))
        for piece in reader.pieces(largest)
    )


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 4096])
def test_the_pieces_are_the_file(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "a").write_bytes(data)
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        assert read_all(reader, 1000) == data
        reader.check_unchanged()


def test_a_link_in_the_source_is_read_as_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"here")
    (tmp_path / "a").symlink_to("elsewhere")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        assert read_all(reader, 1000) == b"here"


@pytest.mark.parametrize("keep", [False, True], ids=["copy", "warm"])
def test_only_warming_leaves_the_source_in_memory(tmp_path: Path, keep: bool) -> None:
    if filesystem_of(tmp_path) in ("tmpfs", "ramfs", "overlay", ""):
        pytest.skip("the temporary directory is memory, or may be: set TMPDIR to one on a disk")
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(os.urandom(8_000_001))
        file.flush()
        os.fsync(file.fileno())
    with SourceReader(tmp_path, listed(tmp_path, "a"), keep=keep) as reader:
        read_all(reader, 1 << 20)
        while_open = resident(path)
    if keep:
        assert resident(path) > 0.95
    else:
        assert while_open <= 0.05
        assert resident(path) == 0


def test_what_the_kernel_read_ahead_is_forgotten_too(tmp_path: Path) -> None:
    if filesystem_of(tmp_path) in ("tmpfs", "ramfs", "overlay", ""):
        pytest.skip("the temporary directory is memory, or may be: set TMPDIR to one on a disk")
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        piece = next(reader.pieces(1 << 16))
        reader.read(piece, memoryview(bytearray(1 << 16)))
    assert resident(path) == 0


def test_holes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"x" * (1 << 16))
        file.truncate(1 << 22)
    if path.stat().st_blocks * 512 >= 1 << 22:
        pytest.skip("the temporary directory's file system has no sparse files")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        assert reader.is_sparse
        pieces = list(reader.pieces(1 << 19))
        assert read_all(reader, 1 << 19) == path.read_bytes()
    assert [piece.offset for piece in pieces] == sorted(piece.offset for piece in pieces)
    assert sum(piece.bytes for piece in pieces) == 1 << 22
    assert sum(piece.bytes for piece in pieces if not piece.hole) <= 1 << 18


def test_where_holes_cannot_be_found_all_is_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 20)

    def unsupported(*_: int) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        monkeypatch.setattr(os, "lseek", unsupported)
        assert list(reader.pieces(1 << 20)) == [Piece(0, 1 << 20, hole=False)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: path.write_bytes(b"longer than before"), "has 18 bytes, expected 6"),
        (lambda path: os.utime(path, ns=(1, 1)), "was written to since it was listed"),
        (lambda path: path.unlink(), "has vanished"),
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


def test_with_a_manifest_the_time_says_nothing_but_the_advice_is_to_verify(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    file = listed(tmp_path, "a", sha256="0" * 64)
    os.utime(path, ns=(1, 1))
    with SourceReader(tmp_path, file):
        pass
    path.write_bytes(b"longer than before")
    with pytest.raises(StagingError, match=f"run dataprep verify {tmp_path}"):
        SourceReader(tmp_path, file)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: path.open("ab").close() or os.utime(path, ns=(1, 1)), "was written to"),
        (lambda path: os.truncate(path, 3), "had 6 bytes and has 3"),
        (replace_file, "another file has taken its place"),
    ],
    ids=["time", "size", "file"],
)
def test_a_file_that_changes_while_it_is_read_is_named(tmp_path: Path, change, says: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        read_all(reader, 1000)
        reader.check_unchanged()
        change(path)
        with pytest.raises(StagingError, match="changed while it was being copied") as raised:
            reader.check_unchanged()
    assert says in str(raised.value)


def test_a_file_that_gets_shorter_under_the_reader_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(range(100)))
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        pieces = list(reader.pieces(50))
        os.truncate(path, 70)
        buffer = memoryview(bytearray(50))
        reader.read(pieces[0], buffer)
        with pytest.raises(StagingError, match="ends after 70 bytes"):
            reader.read(pieces[1], buffer)


def test_a_file_that_vanishes_under_the_reader_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        (tmp_path / "a").unlink()
        with pytest.raises(StagingError, match="has vanished"):
            reader.check_unchanged()


@pytest.mark.parametrize(
    ("number", "says"),
    [(errno.EIO, "cannot read .*Input/output error.*healthy"), (errno.ESTALE, "has vanished")],
    ids=["EIO", "ESTALE"],
)
def test_what_the_storage_says_becomes_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, says: str
) -> None:
    (tmp_path / "a").write_bytes(b"before")

    def failing(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    with SourceReader(tmp_path, listed(tmp_path, "a")) as reader:
        monkeypatch.setattr(os, "preadv", failing)
        with pytest.raises(StagingError, match=says):
            read_all(reader, 1000)


def test_a_file_that_must_not_be_read_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "a").write_bytes(b"before")
    (tmp_path / "a").chmod(0)
    with pytest.raises(StagingError, match="Permission denied; check its permissions"):
        SourceReader(tmp_path, listed(tmp_path, "a"))


@pytest.fixture
def files(tmp_path: Path) -> list[SourceFile]:
    listed = []
    for name, size in (("a", 0), ("b", 10), ("c", (1 << 22) + 1)):
        data = os.urandom(size)
        (tmp_path / name).write_bytes(data)
        listed.append(SourceFile(name, size, hashlib.sha256(data).hexdigest()))
    return listed


def warm(source: Path, files: list[SourceFile], **options: Any) -> int:
    watch = options.pop("watch", Watch())
    defaults = {"verify": "copy", "streams": 2}
    read_files(source, files, watch=watch, **{**defaults, **options})
    return watch.done


@pytest.mark.parametrize("verify", ["none", "copy"])
def test_everything_is_read_once(tmp_path: Path, files: list[SourceFile], verify: str) -> None:
    assert warm(tmp_path, files, verify=verify) == sum(file.bytes for file in files)


def test_a_sparse_file_has_the_hash_of_its_zeros(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate((1 << 24) + 1)
    data = (tmp_path / "a").read_bytes()
    listed = SourceFile("a", len(data), hashlib.sha256(data).hexdigest())
    assert warm(tmp_path, [listed]) == len(data)


def test_a_flipped_byte_is_found_unless_nothing_is_verified(
    tmp_path: Path, files: list[SourceFile]
) -> None:
    data = bytearray((tmp_path / "c").read_bytes())
    data[1 << 22] ^= 1
    (tmp_path / "c").write_bytes(data)
    with pytest.raises(StagingError, match=f"c has SHA-256 .*run dataprep verify {tmp_path}"):
        warm(tmp_path, files)
    warm(tmp_path, files, verify="none")


def test_more_than_the_memory_is_refused_before_a_byte_is_read(
    tmp_path: Path, files: list[SourceFile], outside: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "available", lambda: sum(file.bytes for file in files) - 1)
    reporter = Mock(spec=["line"])  # is told of no byte
    with pytest.raises(StagingError, match=r"4\.2 MB do not fit into the 4\.2 MB of memory"):
        module.warm(StageRequest(tmp_path), reporter)


def test_the_failure_of_another_node_stops_it(tmp_path: Path, files: list[SourceFile]) -> None:
    watch = Watch()
    watch.stop(StagingError("n7: the source vanished"))
    with pytest.raises(StagingError, match="n7: the source vanished"):
        warm(tmp_path, files, watch=watch)
