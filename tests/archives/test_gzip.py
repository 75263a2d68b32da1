"""Gzip archives: images are read from any restart point, and damage is found out."""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.archives.containers import list_container
from dataprep.archives.gzip import Restarts, find_restarts, unpack
from dataprep.archives.listing import Listing
from dataprep.archives.open_files import LocalFile
from dataprep.datasets import close_archives, read_image
from dataprep.errors import RemoteError, SourceError
from dataprep.rows import Row
from tests.datasets.conftest import RawData

# Ways to end a block: at any bit, at a byte, at a byte without a window, or left to deflate.
FLUSHES = (zlib.Z_PARTIAL_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_BLOCK, None)


def content(seed: int, size: int) -> bytes:
    """Bytes of which some repeat what came before and some do not."""
    chance = random.Random(seed)
    words = [chance.randbytes(chance.randrange(2, 20)) for _ in range(99)]
    pieces = []
    while size > 0:
        run = chance.randrange(1, 20_000)
        kinds = (chance.randbytes(run), bytes(run), b"".join(chance.choices(words, k=run // 9)))
        pieces.append(chance.choice(kinds)[:size])
        size -= len(pieces[-1])
    return b"".join(pieces)


def compressed(data: bytes, seed: int, level: int, strategy: int, memory: int) -> bytes:
    """A member whose blocks end where chance has it."""
    chance = random.Random(seed)
    packer = zlib.compressobj(level, zlib.DEFLATED, 31, memory, strategy)
    packed, place = [], 0
    while place < len(data):
        step = chance.randrange(1, 30_000)
        packed.append(packer.compress(data[place : place + step]))
        if (flush := chance.choice(FLUSHES)) is not None:
            packed.append(packer.flush(flush))
        place += step
    return b"".join(packed) + packer.flush()


members = st.tuples(
    st.integers(0, 99),  # seed
    st.integers(0, 300_000),  # size
    st.integers(0, 9),  # level
    st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]),
    st.integers(1, 9),  # memory, and so the size of blocks
    st.integers(0, 9),  # zeros after it
)


def restarts_of(directory: Path, packed: bytes, unpacked: int) -> tuple[LocalFile, Restarts]:
    """An open archive and its points, as close together as they may be."""
    (directory / "a.gz").write_bytes(packed)
    file = LocalFile(str(directory / "a.gz"))
    found = find_restarts(file, unpacked, images=10**6)
    (directory / "a.restarts").write_bytes(found)
    return file, Restarts(str(directory / "a.restarts"))


@settings(max_examples=25)
@given(st.lists(members, min_size=1, max_size=3), st.data())
def test_any_part_is_read_as_it_was(
    described: list[tuple[int, int, int, int, int, int]], draw: st.DataObject
) -> None:
    parts = [content(seed, size) for seed, size, *_ in described]
    data = b"".join(parts)
    packed = b"".join(
        compressed(part, seed, *how) + bytes(zeros)
        for part, (seed, _, *how, zeros) in zip(parts, described, strict=True)
    )
    with TemporaryDirectory() as directory:
        file, restarts = restarts_of(Path(directory), packed, len(data))
        assert b"".join(unpack(file)) == data
        starts = restarts._points["unpacked"].tolist()
        offsets = draw.draw(st.lists(st.integers(0, len(data)), max_size=3))
        for offset in {*starts, *(max(0, start - 1) for start in starts), *offsets}:
            size = draw.draw(st.integers(0, 60_000))
            assert restarts.read(file, offset, size) == data[offset : offset + size]


IMAGES = [(f"images/{number:03}.png", content(number, 90_000)) for number in range(60)]


class Archive:
    """An indexed gzip archive of 5.4 MB, with two restart points besides the start."""

    def __init__(self, path: Path, packed: bytes) -> None:
        self.path = path
        (path / "a.tgz").write_bytes(packed)
        listing = list_container(path, "a.tgz", restarts_name="unit.restarts")
        assert not listing.ignored
        self.restarts = path / "index" / "unit.restarts"
        self.restarts.parent.mkdir()
        self.restarts.write_bytes(listing.restarts)
        found = (image.row(image.path, (0,)) for image in listing.images)
        self.rows = [
            msgspec.structs.replace(row, container_mtime=0) for row in found
        ]  # so that content counts

    def read(self, row: Row) -> bytes:
        return read_image(self.path, row, self.path / "index")

    def read_all(self) -> None:
        for row in self.rows:
            self.read(row)


@pytest.fixture(scope="module")
def packed(make_raw: type[RawData]) -> bytes:
    return gzip.compress(make_raw.tar(IMAGES), 1, mtime=0)


@pytest.fixture
def archive(tmp_path: Path, packed: bytes) -> Archive:
    close_archives()
    return Archive(tmp_path, packed)


def test_every_image_is_read_in_any_order_by_any_thread(archive: Archive) -> None:
    assert all(row.packing == ("gzip", "unit.restarts") and row.offset > 0 for row in archive.rows)
    assert len(Restarts(str(archive.restarts))._points) > 3
    rows = random.Random(0).sample(archive.rows, len(archive.rows))
    with ThreadPoolExecutor(8) as pool:
        images = dict(zip([row.key for row in rows], pool.map(archive.read, rows), strict=True))
    assert images == dict(IMAGES)


def test_an_archive_overwritten_in_place_is_noticed(archive: Archive, packed: bytes) -> None:
    for filling in (b"\0", b"\xff"):
        (archive.path / "a.tgz").write_bytes(filling * len(packed))
        for row in archive.rows[::10]:
            with pytest.raises(SourceError, match=r"a.tgz, which is damaged or changed since"):
                archive.read(row)


def test_restart_points_that_are_gone_or_torn_are_noticed(archive: Archive) -> None:
    whole = archive.restarts.read_bytes()
    with pytest.raises(ValueError, match=r"a.tgz is a gzip archive"):
        read_image(archive.path, archive.rows[0])
    archive.restarts.unlink()
    with pytest.raises(SourceError, match=r"the index lacks unit.restarts, .* of a.tgz"):
        archive.read(archive.rows[0])
    for kept in (0, 10, 60, len(whole) // 2):
        archive.restarts.write_bytes(whole[:kept])
        close_archives()
        with pytest.raises(SourceError, match="which is damaged"):
            archive.read_all()
    for promised in (0, 2**32 - 1):
        archive.restarts.write_bytes(whole[:31] + struct.pack("=I", promised) + whole[35:])
        close_archives()
        with pytest.raises(SourceError, match=f"a table of {promised} restart points"):
            archive.read_all()


SMALL = [(f"{number}.png", bytes([number]) * 700) for number in range(1, 5)]


def scan(directory: str | Path, packed: bytes) -> Listing:
    (Path(directory) / "a.tgz").write_bytes(packed)
    return list_container(Path(directory), "a.tgz", restarts_name="r")


@settings(max_examples=60)
@given(data=st.data())
def test_a_truncated_archive_is_refused(make_raw: type[RawData], data: st.DataObject) -> None:
    packed = gzip.compress(make_raw.tar(SMALL), mtime=0)
    kept = data.draw(st.integers(2, len(packed) - 1))
    with TemporaryDirectory() as directory:
        with pytest.raises(SourceError, match=r"^a.tgz (is|has) .*again") as caught:
            scan(directory, packed[:kept])
        assert "\n" not in str(caught.value)


def test_damage_and_what_follows_are_named(tmp_path: Path, make_raw: type[RawData]) -> None:
    packed = gzip.compress(make_raw.tar(SMALL), mtime=0)
    with pytest.raises(SourceError, match=r"a.tgz is damaged or truncated: Compressed file ended"):
        scan(tmp_path, packed[:-1])
    with pytest.raises(SourceError, match=r"a.tgz is damaged or truncated: CRC check failed"):
        scan(tmp_path, packed[:-8] + b"\0\0\0\0" + packed[-4:])
    with pytest.raises(SourceError, match=r"a.tgz is damaged or truncated: Incorrect length"):
        scan(tmp_path, packed[:-4] + b"\0\0\0\0")
    for garbage in (b"garbage", b"\0\0garbage", b"<html>" * 99):
        with pytest.raises(SourceError, match=r"a.tgz is damaged or truncated: Not a gzipped file"):
            scan(tmp_path, packed + garbage)
    with pytest.raises(SourceError, match=r"a.tgz is damaged or truncated"):
        scan(tmp_path, packed + b"\x1f")
    assert len(scan(tmp_path, packed + bytes(999)).images) == len(SMALL)


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 7000), st.binary(min_size=1, max_size=40)), max_size=4))
def test_compressed_or_not_the_listing_is_the_same(
    make_raw: type[RawData], patches: list[tuple[int, bytes]]
) -> None:
    content = bytearray(make_raw.tar(SMALL))
    for offset, patch in patches:
        content[offset : offset + len(patch)] = patch
    with TemporaryDirectory() as directory:
        (Path(directory) / "a.tar").write_bytes(content)
        answers: list[object] = []
        ways: tuple[Callable[[], Listing], ...] = (
            lambda: list_container(Path(directory), "a.tar"),
            lambda: scan(directory, gzip.compress(content, 1)),
        )
        for list_it in ways:
            try:
                found = list_it()
            except SourceError:
                answers.append(None)
            else:
                images = [
                    (image.path, image.offset, image.size, image.modified) for image in found.images
                ]
                answers.append((images, [(entry.name, entry.reason) for entry in found.ignored]))
        assert answers[0] == answers[1]


class Silent(LocalFile):
    """As of a bucket that does not answer any more."""

    def read_some(self, offset: int, size: int) -> bytes:
        raise RemoteError("s3://bucket: it does not answer")


def test_that_a_bucket_does_not_answer_is_said(tmp_path: Path) -> None:
    data = random.Random(0).randbytes(1 << 20)
    _, restarts = restarts_of(tmp_path, gzip.compress(data), len(data))
    silent = Silent(str(tmp_path / "a.gz"))
    reads: tuple[Callable[[], bytes], ...] = (
        lambda: restarts.read(silent, 1000, 10),
        lambda: find_restarts(silent, 9, 1),
    )
    for read in reads:
        with pytest.raises(RemoteError, match="does not answer"):
            read()
