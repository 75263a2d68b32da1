"""Zip archives: read in place, whatever wrote them; damage is found out."""

from __future__ import annotations

import io
import os
import shutil
import stat
import struct
import subprocess
import time
import zipfile
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataprep.archives.containers import list_container
from dataprep.archives.listing import Listing
from dataprep.datasets import close_archives, read_image
from dataprep.errors import SourceError
from dataprep.rows import Row

MOMENT = (2017, 9, 1, 12, 30, 58)  # as seconds since 1970, in UTC:
SECONDS = 1_504_269_058
IMAGES = [(f"images/{number:03}.png", b"image %d " % number * number * 20) for number in range(9)]


def entry(name: str, method: int = zipfile.ZIP_DEFLATED, **fields: object) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, MOMENT)
    info.compress_type = method
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def zipped(*members: tuple[zipfile.ZipInfo, bytes], large: bool = False) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for info, content in members:
            with archive.open(info, "w", force_zip64=large) as file:
                file.write(content)
    return stream.getvalue()


def images_zipped() -> bytes:
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return zipped(*((entry(name, methods[len(body) % 3 % 2]), body) for name, body in IMAGES))


def scan(directory: str | Path, content: bytes) -> Listing:
    (Path(directory) / "a.zip").write_bytes(content)
    close_archives()
    return list_container(Path(directory), "a.zip")


def rows(listing: Listing) -> list[Row]:
    return [image.row(image.path, (0,)) for image in listing.images]


def test_stored_and_deflated_images_are_read(tmp_path: Path) -> None:
    found = rows(scan(tmp_path, images_zipped()))
    assert {row.packing[:1] for row in found} == {("stored",), ("deflate",)}
    assert all(row.offset > 0 for row in found)
    assert [(row.key, read_image(tmp_path, row)) for row in found] == IMAGES


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("prefix", [b"", b"#!/bin/sh\n" * 9])
def test_long_fields_and_what_precedes_the_archive(
    tmp_path: Path, method: int, prefix: bytes
) -> None:
    content = zipped((entry("a.png", method), b"large"), (entry("b.png", method), b""), large=True)
    found = rows(scan(tmp_path, prefix + content))
    assert [read_image(tmp_path, row) for row in found] == [b"large", b""]


def test_times_do_not_depend_on_the_time_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        found = scan(tmp_path, zipped((entry("a.png"), b"a")))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert found.images[0].modified == SECONDS


def test_names_are_decoded_as_they_were_encoded(tmp_path: Path) -> None:
    names = ["Größe.png", "日本.png", "plain.png"]
    found = scan(tmp_path, zipped(*((entry(name), b"x") for name in names)))
    assert [image.path for image in found.images] == names
    old = zipped((entry("Grxse.png", create_system=0), b"x")).replace(
        b"Grxse", b"Gr\x94se"
    )  # code page 437
    found = scan(tmp_path, old)
    assert [image.path for image in found.images] == ["Gröse.png"]
    assert read_image(tmp_path, rows(found)[0]) == b"x"


def test_what_is_no_readable_image_is_left_out_and_says_why(tmp_path: Path) -> None:
    link = entry("link.png", create_system=3, external_attr=(stat.S_IFLNK | 0o777) << 16)
    pipe = entry("pipe.png", create_system=3, external_attr=(stat.S_IFIFO | 0o666) << 16)
    kept = entry("kept.png", create_system=3, external_attr=(stat.S_IFREG | 0o644) << 16)
    content = zipped(
        (entry("folder/"), b""),
        (link, b"/etc/passwd"),
        (pipe, b""),
        (entry("bzip2.png", zipfile.ZIP_BZIP2), b"x" * 99),
        (entry("lzma.png", zipfile.ZIP_LZMA), b"x" * 99),
        (entry("large.png"), b"large"),
        (entry("secret.png"), b"secret"),
        (entry("../../up.png"), b"up"),
        (entry("__MACOSX/images/a.png"), b"mac"),
        (entry("__MACOSX/images/._a.png"), b"mac"),
        (entry("README.txt"), b"text"),
        (kept, b"kept"),
    )
    place = content.rindex(b"secret.png") - 46 + 8  # its flags in the central directory
    content = content[:place] + bytes([content[place] | 1]) + content[place + 1 :]
    place = content.rindex(b"large.png") - 46 + 10  # its method
    content = content[:place] + b"\x09" + content[place + 1 :]
    found = scan(tmp_path, content)
    assert [image.path for image in found.images] == ["kept.png"]
    assert {ignored.name: ignored.reason.partition(" (")[0] for ignored in found.ignored} == {
        "link.png": "symbolic link, never followed",
        "pipe.png": "not a regular file",
        "bzip2.png": "compressed by bzip2",
        "lzma.png": "compressed by LZMA",
        "large.png": "compressed by deflate64",
        "secret.png": "encrypted",
        "../../up.png": "path with .. in it, which may lead elsewhere",
        "__MACOSX/images/a.png": "in a hidden or system folder",
        "__MACOSX/images/._a.png": "in a hidden or system folder",
        "README.txt": "not an image name",
    }


@settings(max_examples=60)
@given(data=st.data())
def test_a_truncated_archive_is_refused(data: st.DataObject) -> None:
    content = images_zipped()
    kept = data.draw(st.integers(0, len(content) - 1))
    with TemporaryDirectory() as directory:
        with pytest.raises(SourceError, match=r"a.zip is damaged or not a zip .* again$") as caught:
            scan(directory, content[:kept])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_damage_after_the_scan_is_noticed(tmp_path: Path, method: int) -> None:
    body = os.urandom(50) * 20
    row = msgspec.structs.replace(
        rows(scan(tmp_path, of({"a.png": body}, method)))[0], container_mtime=0
    )
    content = (tmp_path / "a.zip").read_bytes()
    assert read_image(tmp_path, row) == body
    for place in (row.offset, row.offset + 30):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "a.zip").write_bytes(damaged)
        with pytest.raises(SourceError, match=r"cannot unpack a.png from a.zip, which is damaged"):
            read_image(tmp_path, row)
    os.truncate(tmp_path / "a.zip", row.offset + 10)
    with pytest.raises(SourceError, match=r"a.zip changed since .* but the archive has \d+ bytes"):
        read_image(tmp_path, row)


def of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    return zipped(*((entry(name, method), body) for name, body in members.items()))


def test_backslashes_separate_where_there_is_no_slash(tmp_path: Path) -> None:
    members = {"cat\\": b"", "cat\\1.jpg": b"one", "cat/a\\b.jpg": b"three"}
    found = scan(tmp_path, of(members))
    read = {row.key: read_image(tmp_path, row) for row in rows(found)}
    assert read == {"cat/1.jpg": b"one", "cat/a\\b.jpg": b"three"}
    assert not found.ignored


@pytest.mark.parametrize("large", [False, True], ids=["zip", "zip64"])
@pytest.mark.parametrize("more", [-1, 0, 1, 100])
def test_an_end_that_promises_another_number_of_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: bool, more: int
) -> None:
    if large:  # what more than 65,535 entries need
        monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 0)
    content = bytearray(images_zipped())
    at = len(content) - (20 + 22 + 32 if large else 12)
    if large:
        content[-12:-10] = b"\xff\xff"
    assert content[at] == len(IMAGES) == content[at + (8 if large else -2)]
    content[at] += more
    if large:
        content[at + 8] += more
    if more == 0:
        assert len(scan(tmp_path, bytes(content)).images) == len(IMAGES)
        return
    expected = f"its end promises {len(IMAGES) + more} entries, its directory has {len(IMAGES)}"
    with pytest.raises(SourceError, match=expected):
        scan(tmp_path, bytes(content))


def unflagged(name: bytes, host: int, extra: bytes = b"") -> tuple[zipfile.ZipInfo, bytes]:
    """A member whose name is these bytes, and nothing says in which characters."""

    class Plain(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802
            return name, self.flag_bits & ~0x800

    info = Plain("x", MOMENT)
    info.create_system, info.extra = host, extra
    return info, b"x"


def unicode_path(name: bytes, text: str) -> bytes:
    field = b"\1" + zlib.crc32(name).to_bytes(4, "little") + text.encode()
    return struct.pack("<HH", 0x7075, len(field)) + field


@pytest.mark.parametrize(
    ("member", "path"),
    [
        (unflagged("Größe/日本.png".encode(), 3), "Größe/日本.png"),  # zip of Debian
        (unflagged("cafe\u0301.png".encode(), 19), "cafe\u0301.png"),  # macOS
        (unflagged("Größe.png".encode("cp437"), 0), "Größe.png"),
        (unflagged("Größe.png".encode("cp437"), 10), "Größe.png"),
        (unflagged("é.png".encode(), 0), "├⌐.png"),  # as the specification says
        (unflagged("Größe.png".encode("latin-1"), 3), "Gr\udcf6\udcdfe.png"),
        (unflagged(b"Gr\x94.png", 0, unicode_path(b"Gr\x94.png", "Größe.png")), "Größe.png"),
        (unflagged(b"Gr\x94.png", 0, unicode_path(b"other.png", "Größe.png")), "Grö.png"),
        (unflagged(b"\xff.png", 3, unicode_path(b"\xff.png", "日本.png")), "日本.png"),
    ],
)
def test_names_without_a_flag_are_of_whoever_made_them(
    tmp_path: Path, member: tuple[zipfile.ZipInfo, bytes], path: str
) -> None:
    found = scan(tmp_path, zipped(member))
    assert [image.path for image in found.images] == [path]
    assert read_image(tmp_path, rows(found)[0]) == b"x"


@pytest.mark.skipif(shutil.which("zip") is None, reason="the program zip is not installed")
@pytest.mark.parametrize("options", [(), ("-UN=UTF8",), ("-UN=no",)])
def test_names_of_the_program_zip(tmp_path: Path, options: tuple[str, ...]) -> None:
    names = ["Größe/1.png", "日本/ñ.png", "plain/1.png"]
    for name in names:
        (tmp_path / "raw" / name).parent.mkdir(parents=True)
        (tmp_path / "raw" / name).write_bytes(b"x")
    subprocess.run(
        ["zip", "-q", "-r", *options, "../a.zip", "."],
        cwd=tmp_path / "raw",
        check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    found = scan(tmp_path, (tmp_path / "a.zip").read_bytes())
    assert sorted(image.path for image in found.images) == sorted(names)
