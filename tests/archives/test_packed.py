"""Archives of Zstandard and xz: unpacked once into a copy, within limits; damage is found out."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import zstandard

from dataprep.archives import packed
from dataprep.archives.containers import list_container
from dataprep.archives.listing import Listing
from dataprep.archives.open_files import LocalFile
from dataprep.archives.packed import Codec, Copy, Unpacked, UnpackError
from dataprep.datasets import close_archives, read_image
from dataprep.errors import RemoteError, SourceError
from tests.archives.test_gzip import Silent, content
from tests.datasets.conftest import RawData

IMAGES = [(f"images/{number:03}.png", content(number, 9_000)) for number in range(60)]
DATA = content(7, 900_000)
# RFC 8878, 3.1.2: one of 16 magic numbers, a size, and anything.
SKIPPED = struct.pack("<II", 0x184D2A53, 7) + b"skipped"


def zstd(data: bytes, **options: int | bool) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True, **options).compress(data)  # type: ignore[arg-type]


def halves(pack: Callable[[bytes], bytes], between: bytes = b"") -> Callable[[bytes], bytes]:
    return lambda data: pack(data[:9999]) + between + pack(data[9999:]) + between


PACKS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "zstd": (".tar.zst", zstd),
    "zstd frames": (".tzst", halves(zstd)),
    "zstd skippable": (".tar.zst", lambda data: SKIPPED + halves(zstd, SKIPPED)(data)),
    "xz": (".tar.xz", lzma.compress),
    "xz streams": (".txz", halves(lzma.compress)),
    "xz padded": (".tar.xz", halves(lzma.compress, bytes(8))),
}


def scan(path: Path, name: str, data: bytes) -> Listing:
    (path / name).write_bytes(data)
    codec: Codec = "xz" if "xz" in name else "zstd"
    with (path / "unit.images").open("w+b") as file:
        return list_container(path, name, copy=Copy(codec, "unit.images", file))


@pytest.mark.parametrize("form", PACKS)
def test_every_image_is_read_from_the_copy(
    form: str, tmp_path: Path, make_raw: type[RawData]
) -> None:
    close_archives()
    suffix, pack = PACKS[form]
    tar = make_raw.tar(IMAGES)
    (tmp_path / "a.tar").write_bytes(tar)
    plain = list_container(tmp_path, "a.tar")
    found = scan(tmp_path, f"a{suffix}", pack(tar))
    assert (tmp_path / "unit.images").read_bytes() == tar
    places = [(image.path, image.offset, image.size, image.modified) for image in plain.images]
    assert places == [(it.path, it.offset, it.size, it.modified) for it in found.images]
    rows = [image.row(image.path, (0,)) for image in found.images]
    assert {row.packing for row in rows} == {("copy", "unit.images")}
    random.Random(0).shuffle(rows)
    assert {row.key: read_image(tmp_path, row, tmp_path) for row in rows} == dict(IMAGES)
    with pytest.raises(SourceError, match=f"a{suffix} cannot be read in place; expected a folder"):
        list_container(tmp_path, f"a{suffix}")


@pytest.mark.parametrize("form", PACKS)
def test_what_is_cut_off_damaged_or_followed_is_refused(
    form: str, tmp_path: Path, make_raw: type[RawData]
) -> None:
    suffix, pack = PACKS[form]
    whole = pack(make_raw.tar(IMAGES[:9]))
    chance = random.Random(0)
    cuts = {0, 1, 9, len(whole) // 2, *(chance.randrange(len(whole)) for _ in range(9))}
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x40
    ends = [whole[:-at] for at in (1, 2, 3)] if form in ("zstd", "xz") else []
    for data in (*(whole[:cut] for cut in cuts), bytes(flipped), whole + b"garbage", *ends):
        with pytest.raises(SourceError, match=f"^a{suffix} (is|has) .*again$") as caught:
            scan(tmp_path, f"a{suffix}", data)
        assert "\n" not in str(caught.value)


def unpacked(path: Path, codec: Codec, data: bytes) -> bytes:
    (path / "packed").write_bytes(data)
    with (path / "copy").open("w+b") as file:
        Unpacked(LocalFile(str(path / "packed")), Copy(codec, "", file)).reach(1 << 40)
    return (path / "copy").read_bytes()


@pytest.mark.parametrize(
    ("codec", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", zlib.compress),
        ("gzip", halves(gzip.compress)),
        ("bz2", halves(bz2.compress)),
        ("snappy", lambda data: pa.Codec("snappy").compress(data, asbytes=True)),
        ("brotli", lambda data: pa.Codec("brotli").compress(data, asbytes=True)),
    ],
)
def test_what_shards_of_others_are_packed_by(
    codec: Codec, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = pack(DATA)
    assert unpacked(tmp_path, codec, whole) == DATA
    for data in (whole[:-1], whole[: len(whole) // 2], whole + b"garbage"):
        with pytest.raises(UnpackError):
            unpacked(tmp_path, codec, data)


@pytest.mark.parametrize(
    ("codec", "bomb"), [("zstd", zstd(bytes(1 << 20))), ("xz", lzma.compress(bytes(1 << 20)))]
)
def test_what_promises_a_full_disk_is_refused(
    codec: Codec, bomb: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unpacked(tmp_path, codec, bomb) == bytes(1 << 20)  # as little as that is no harm
    monkeypatch.setattr(packed, "_ANY", 1000)
    with pytest.raises(UnpackError, match="it unpacks to more than"):
        unpacked(tmp_path, codec, bomb)
    assert (tmp_path / "copy").stat().st_size <= packed._MOST_TIMES * len(bomb)


def test_what_needs_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True)
    writer = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    with pytest.raises(UnpackError, match="too much memory"):
        unpacked(tmp_path, "zstd", writer.compress(DATA) + writer.flush())
    with pytest.raises(UnpackError, match="at once"):
        unpacked(tmp_path, "snappy", b"\xff\xff\xff\xff\x0f" + bytes(9))
    monkeypatch.setattr(packed, "_XZ_MEMORY", 1 << 20)
    with pytest.raises(UnpackError, match=r"[Mm]emory"):
        unpacked(tmp_path, "xz", lzma.compress(DATA))


@pytest.mark.parametrize("codec", ["zstd", "xz", "snappy"])
def test_that_a_bucket_does_not_answer_is_said(codec: Codec, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(DATA)
    with (tmp_path / "copy").open("w+b") as file, pytest.raises(RemoteError, match="not answer"):
        Unpacked(Silent(str(tmp_path / "a")), Copy(codec, "", file)).reach(1)
