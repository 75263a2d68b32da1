"""Gzip archives: images are read from any restart point, and damage is found out."""

from __future__ import annotations

import gzip
import io
import os
import random
import struct
import tarfile
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.archives.containers import list_container
from dataprep.archives.gzip import (
    Point,
    Restarts,
    filled,
    find_restarts,
    pack_restarts,
    read_unpacked,
    spacing_for,
    unpack,
    unpack_from,
)
from dataprep.datasets import close_archives, read_image
from dataprep.errors import SourceError
from dataprep.index import Row

SPACING = 40_000
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
    st.integers(0, 150_000),  # size
    st.integers(0, 9),  # level
    st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]),
    st.integers(1, 9),  # memory, and so the size of blocks
    st.integers(0, 9),  # zeros after it
)


def restarts_of(directory: Path, packed: bytes, data: bytes) -> tuple[int, Restarts]:
    (directory / "a.gz").write_bytes(packed)
    descriptor = os.open(directory / "a.gz", os.O_RDONLY)
    found = find_restarts(descriptor, "a.gz", len(data), spacing=SPACING)
    (directory / "a.restarts").write_bytes(found)
    return descriptor, Restarts(str(directory / "a.restarts"), "a.restarts")


@settings(max_examples=25)
@given(st.lists(members, min_size=1, max_size=3), st.data())
def test_any_part_is_read_as_it_was(described, draw):
    parts = [content(seed, size) for seed, size, *_ in described]
    data = b"".join(parts)
    packed = b"".join(
        compressed(part, seed, *how) + bytes(zeros)
        for part, (seed, _, *how, zeros) in zip(parts, described, strict=True)
    )
    with TemporaryDirectory() as directory:
        descriptor, restarts = restarts_of(Path(directory), packed, data)
        try:
            assert b"".join(unpack(descriptor)) == data
            starts = {restarts.before(place)[0].unpacked for place in range(0, len(data), 1000)}
            assert len(starts) <= 2 + 2 * len(data) // SPACING
            offsets = draw.draw(st.lists(st.integers(0, len(data)), max_size=3))
            for offset in {*starts, *(max(0, start - 1) for start in starts), *offsets}:
                size = draw.draw(st.integers(0, 60_000))
                wanted = data[offset : offset + size]
                assert read_unpacked(descriptor, restarts, offset, size) == wanted
        finally:
            os.close(descriptor)


def test_points_lie_at_every_bit_and_with_and_without_a_window(tmp_path):
    data = content(1, 3_000_000)
    cut = len(data) // 2
    packed = b"".join(
        compressed(part, 2, 6, zlib.Z_DEFAULT_STRATEGY, 8) for part in (data[:cut], data[cut:])
    )
    descriptor, restarts = restarts_of(tmp_path, packed, data)
    try:
        found = dict(restarts.before(place) for place in range(0, len(data), SPACING // 4))
        assert {point.bits for point in found} == set(range(8))
        assert [len(window) for window in found.values()].count(0) == 2
        assert len(found) > len(data) // SPACING // 2
        for point, window in found.items():
            assert window in ("", data[:0], data[max(0, point.unpacked - 32768) : point.unpacked])
            wanted = data[point.unpacked : point.unpacked + 5000]
            assert read_unpacked(descriptor, restarts, point.unpacked, 5000) == wanted
    finally:
        os.close(descriptor)


def test_members_that_start_often_do_not_make_a_point_each(tmp_path):
    data = content(3, 1_000_000)
    packed = b"".join(gzip.compress(data[place : place + 500]) for place in range(0, 10**6, 500))
    descriptor, restarts = restarts_of(tmp_path, packed, data)
    try:
        found = [restarts.before(place)[0].unpacked for place in range(0, len(data), 500)]
        assert 20 < len(set(found)) < 30
        assert max(place - start for place, start in enumerate(found) if place % 500 == 0) < 41_000
        assert read_unpacked(descriptor, restarts, 123_456, 234_567) == data[123_456:358_023]
    finally:
        os.close(descriptor)


@settings(max_examples=60)
@given(st.integers(1, 7), st.binary(min_size=1, max_size=300), st.integers(0, 255), st.booleans())
def test_bits_before_a_block_are_filled_without_touching_the_window(used, data, other, stored):
    window = random.Random(0).randbytes(32_768 - len(data)) + data
    if stored:  # a last block, stored: 3 bits, then from the next whole byte on
        head = (1 << used).to_bytes(2 if used > 5 else 1, "little")
        block = head + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    else:
        packer = zlib.compressobj(9, zlib.DEFLATED, -15, 8, zlib.Z_FIXED, window)
        packed = packer.compress(data) + packer.flush()
        block = (int.from_bytes(packed, "little") << used).to_bytes(len(packed) + 1, "little")
    first = block[0] | other & ((1 << used) - 1)
    inflater = zlib.decompressobj(-15, window)
    assert inflater.decompress(filled(used, first) + block[1:]) == data
    assert inflater.eof


def test_what_precedes_an_image_is_unpacked_but_not_kept(tmp_path):
    data = bytes(30_000_000) + b"image"
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    (tmp_path / "restarts").write_bytes(pack_restarts(0, len(data), [(Point(10, 0, 0), b"")]))
    restarts = Restarts(str(tmp_path / "restarts"), "restarts")
    descriptor = os.open(tmp_path / "a.gz", os.O_RDONLY)
    tracemalloc.start()
    try:
        assert read_unpacked(descriptor, restarts, 30_000_000, 99) == b"image"
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
        os.close(descriptor)


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
        self.rows = [replace(row, container_mtime=0) for row in found]  # so that content counts

    def read(self, row: Row) -> bytes:
        return read_image(self.path, row, self.path / "index")

    def read_all(self) -> None:
        for row in self.rows:
            self.read(row)


@pytest.fixture(scope="module")
def packed(make_raw):
    return gzip.compress(make_raw.tar(IMAGES), 1, mtime=0)


@pytest.fixture
def archive(tmp_path, packed):
    close_archives()
    return Archive(tmp_path, packed)


def test_every_image_is_read_in_any_order_by_any_thread(archive):
    assert all(row.packing == ("gzip", "unit.restarts") and row.offset > 0 for row in archive.rows)
    restarts = Restarts(str(archive.restarts), "unit.restarts")
    points = {restarts.before(row.offset)[0] for row in archive.rows}
    assert len(points) > 3
    unpacked = sorted(point.unpacked for point in points)
    least = spacing_for(archive.rows[-1].offset, len(archive.rows))
    assert all(later - earlier > least for earlier, later in pairwise(unpacked))
    rows = random.Random(0).sample(archive.rows, len(archive.rows))
    with ThreadPoolExecutor(8) as pool:
        images = dict(zip([row.key for row in rows], pool.map(archive.read, rows), strict=True))
    assert images == dict(IMAGES)


def test_short_reads_are_completed(archive, monkeypatch):
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, offset: pread(fd, min(size, 999), offset))
    assert archive.read(archive.rows[30]) == IMAGES[30][1]


def test_an_archive_of_another_size_is_noticed(archive, packed):
    (archive.path / "a.tgz").write_bytes(packed + b"\0")
    with pytest.raises(SourceError, match=rf"a.tgz changed since .* expected {len(packed)};"):
        archive.read(archive.rows[0])
    (archive.path / "a.tgz").unlink()
    close_archives()
    with pytest.raises(SourceError, match=r"a.tgz changed since it was indexed: it no longer"):
        archive.read(archive.rows[0])


def test_an_archive_overwritten_in_place_is_noticed(archive, packed):
    for filling in (b"\0", b"\xff"):
        (archive.path / "a.tgz").write_bytes(filling * len(packed))
        for row in archive.rows[::10]:
            with pytest.raises(SourceError, match=r"a.tgz, which is damaged or changed since"):
                archive.read(row)


def test_restart_points_that_are_gone_or_torn_are_noticed(archive):
    whole = archive.restarts.read_bytes()
    with pytest.raises(ValueError, match=r"a.tgz is a gzip archive"):
        read_image(archive.path, archive.rows[0])
    archive.restarts.unlink()
    with pytest.raises(SourceError, match=r"the index lacks unit.restarts, .* of a.tgz"):
        archive.read(archive.rows[0])
    for kept in (0, 10, 60, 150, len(whole) // 2):
        archive.restarts.write_bytes(whole[:kept])
        close_archives()
        with pytest.raises(SourceError, match=r"unit.restarts in the index is damaged"):
            archive.read_all()
    for place in (0, 9, 30, 60, 100, len(whole) // 2, len(whole) * 2 // 3):
        archive.restarts.write_bytes(
            whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :]
        )
        close_archives()
        with pytest.raises(SourceError, match=r"unit.restarts in the index is damaged"):
            archive.read_all()


def test_restart_points_are_read_anew_after_archives_were_closed(archive):
    archive.read(archive.rows[0])
    archive.restarts.write_bytes(b"torn")
    assert archive.read(archive.rows[0]) == IMAGES[0][1]
    close_archives()
    with pytest.raises(SourceError, match="is damaged"):
        archive.read(archive.rows[0])


def test_an_archive_replaced_between_its_two_passes_is_noticed(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 5000))
    descriptor = os.open(tmp_path / "a.gz", os.O_RDONLY)
    try:
        first = sum(map(len, unpack(descriptor)))
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 5001))
        with pytest.raises(SourceError, match=r"a.gz changed .* unpacked to 5000 bytes, then to 5"):
            find_restarts(descriptor, "a.gz", first, spacing=SPACING)
    finally:
        os.close(descriptor)


SMALL = [(f"{number}.png", bytes([number]) * 700) for number in range(1, 5)]


def scan(directory: str | Path, packed: bytes):
    (Path(directory) / "a.tgz").write_bytes(packed)
    return list_container(Path(directory), "a.tgz", restarts_name="r")


@settings(max_examples=60)
@given(data=st.data())
def test_a_truncated_archive_is_refused(make_raw, data):
    packed = gzip.compress(make_raw.tar(SMALL), mtime=0)
    kept = data.draw(st.integers(2, len(packed) - 1))
    with TemporaryDirectory() as directory:
        with pytest.raises(SourceError, match=r"^a.tgz (is|has) .*again") as caught:
            scan(directory, packed[:kept])
        assert "\n" not in str(caught.value)


def test_damage_and_what_follows_are_named(tmp_path, make_raw):
    packed = gzip.compress(make_raw.tar(SMALL), mtime=0)
    with pytest.raises(SourceError, match=r"a.tgz is truncated: .* at byte \d+; copy or"):
        scan(tmp_path, packed[:-1])
    with pytest.raises(SourceError, match=r"a.tgz is damaged: .*incorrect data check"):
        scan(tmp_path, packed[:-8] + b"\0\0\0\0" + packed[-4:])
    with pytest.raises(SourceError, match=r"a.tgz is damaged: .*incorrect length check"):
        scan(tmp_path, packed[:-4] + b"\0\0\0\0")
    for garbage in (b"garbage", b"\0\0garbage", b"<html>" * 99):
        with pytest.raises(SourceError, match=r"a.tgz is damaged: something else follows"):
            scan(tmp_path, packed + garbage)
    with pytest.raises(SourceError, match=r"a.tgz is (truncated|damaged)"):
        scan(tmp_path, packed + b"\x1f")
    assert len(scan(tmp_path, packed + bytes(999)).images) == len(SMALL)


def test_the_tar_is_checked_as_strictly_as_a_plain_one(tmp_path, make_raw):
    whole = make_raw.tar(SMALL)
    end = len(SMALL) * 1536
    for content, message in (
        (whole[:end], r"is truncated: it ends at byte 6144 without an end-of-archive mark"),
        (whole[:1000], r"is truncated: it has 1000 bytes, but its member 1.png ends at byte 1536"),
        (whole * 2, r"has an end-of-archive mark at byte 6144 but goes on; expected padding only"),
        (whole + bytes(66 << 20), r"has an end-of-archive mark at byte 6144 but goes on"),
        (whole[:1536] + b"x" * 512 + whole[2048:], r"is damaged: expected a tar header at byte 15"),
        (b"text," * 999, r"is damaged or not a tar archive"),
        (gzip.compress(whole), r"is compressed \(gzip\); expected a plain tar archive"),
        (b"", r"is damaged or not a tar archive"),
    ):
        with pytest.raises(SourceError, match=f"^a.tgz {message}"):
            scan(tmp_path, gzip.compress(content, 1))


def test_a_forged_extension_length_claims_no_memory(tmp_path, make_raw):
    header = make_raw.special("long", tarfile.GNUTYPE_LONGNAME, size=48 << 20)
    content = header.tobuf(tarfile.GNU_FORMAT) + bytes(2 << 20)
    with pytest.raises(SourceError, match=r"a.tgz is damaged .*extension header of \d+ bytes"):
        scan(tmp_path, gzip.compress(content, 1))


@settings(max_examples=150)
@given(st.lists(st.tuples(st.integers(0, 7000), st.binary(min_size=1, max_size=40)), max_size=4))
def test_compressed_or_not_the_listing_is_the_same(make_raw, patches):
    content = bytearray(make_raw.tar(SMALL))
    for offset, patch in patches:
        content[offset : offset + len(patch)] = patch
    with TemporaryDirectory() as directory:
        (Path(directory) / "a.tar").write_bytes(content)
        answers = []
        for list_it in (
            lambda: list_container(Path(directory), "a.tar"),
            lambda: scan(directory, gzip.compress(content, 1)),
        ):
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


def test_a_point_behind_the_end_or_in_another_file_is_an_error(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"x" * 1000, mtime=0)[:15])
    descriptor = os.open(tmp_path / "a.gz", os.O_RDONLY)
    try:
        for offset, bits in ((10, 0), (999, 0), (999, 3)):
            with pytest.raises((EOFError, zlib.error)):
                b"".join(unpack_from(descriptor, Point(offset, bits, 0), b""))
    finally:
        os.close(descriptor)


def test_members_of_many_sizes_are_found_in_a_stream(tmp_path):
    stream = io.BytesIO()
    sizes = [0, 1, 511, 512, 513, 300_000, 7, 1_000_000, 0]
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for number, size in enumerate(sizes):
            info = tarfile.TarInfo(f"long/{'n' * 200}/{number}.png")
            info.size = size
            tar.addfile(info, io.BytesIO(bytes(size)))
    found = scan(tmp_path, gzip.compress(stream.getvalue(), 1))
    assert [image.size for image in found.images] == sizes
    assert [image.name for image in found.images] == [f"{n}.png" for n in range(len(sizes))]


@pytest.mark.parametrize(
    ("unpacked", "images", "spacing"),
    [
        (0, 0, 64 << 10),
        (1 << 20, 0, 2 << 20),
        (10 << 20, 1000, 64 << 10),  # small images
        (1 << 30, 4096, 1 << 20),
        (4 << 30, 10_000, (4 << 32) // 10_000),  # one of ChestX-ray14's archives
        (1 << 30, 100, 2 << 20),
        (40 << 30, 112_120, 10 << 20),  # all of ChestX-ray14 in one
    ],
)
def test_restart_points_are_as_far_apart_as_a_few_images(unpacked, images, spacing):
    assert spacing_for(unpacked, images) == spacing
