"""Zip archives: names with backslashes; stored members are checked as deflated ones are."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from dataprep.archives.kinds import list_container
from dataprep.datasets import close_archives, read_image
from dataprep.errors import SourceError
from dataprep.index import Row

BODY = b"a stored image " * 9


def scan(raw: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    (raw / "a.zip").write_bytes(stream.getvalue())
    close_archives()
    return list_container(raw, "a.zip")


def row(image) -> Row:
    place = (image.container, image.offset, image.size, image.modified)
    return Row(image.path, *place, (0,), packing=image.packing)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_backslashes_separate_where_there_is_no_slash(tmp_path, method):
    members = {
        "cat\\": b"",
        "cat\\1.jpg": b"one",
        "dog\\puppy\\2.jpg": b"two",
        "cat/a\\b.jpg": b"three",
        "4.jpg": b"four",
    }
    found = scan(tmp_path, members, method)
    read = {image.path: read_image(tmp_path, row(image)) for image in found.images}
    assert read == {
        "cat/1.jpg": b"one",
        "dog/puppy/2.jpg": b"two",
        "cat/a\\b.jpg": b"three",
        "4.jpg": b"four",
    }
    assert not found.ignored


def test_names_with_backslashes_are_trusted_no_more_than_others(tmp_path):
    names = ("..\\..\\up.png", "__MACOSX\\a.png", "a\\.hidden.png", "a\\notes.txt")
    found = scan(tmp_path, dict.fromkeys(names, b"x"))
    assert not found.images
    assert {ignored.name: ignored.reason.partition(" (")[0] for ignored in found.ignored} == {
        "../../up.png": "its name leads out of the archive",
        "__MACOSX/a.png": "in a hidden or system folder",
        "a/.hidden.png": "hidden file",
        "a/notes.txt": "not an image name",
    }


def test_a_stored_image_is_checked_when_it_is_read(tmp_path):
    (image,) = scan(tmp_path, {"a.png": BODY}).images
    assert image.packing[0] == "stored"
    stored = row(image)
    assert read_image(tmp_path, stored) == BODY
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[image.offset + 20] ^= 1
    (tmp_path / "a.zip").write_bytes(content)
    close_archives()
    message = r"cannot unpack a.png from a.zip, which is damaged .*: its CRC-32 is not what"
    with pytest.raises(SourceError, match=message):
        read_image(tmp_path, stored)
    (tmp_path / "a.zip").write_bytes(content[: image.offset + 20])
    with pytest.raises(SourceError, match=r"a.zip changed since it was indexed"):
        read_image(tmp_path, stored)
