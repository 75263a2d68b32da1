"""Hostile archives: names are data, links and devices are never followed."""

from __future__ import annotations

import os
import tarfile

import pytest

from dataprep.datasets import read_image
from dataprep.errors import SourceError
from tests.datasets.conftest import Form, Member, RawData

SYNSET = "n01440764"


def test_only_regular_files_are_taken(raw: RawData) -> None:
    members: list[Member] = [
        raw.special("folder", tarfile.DIRTYPE),
        raw.special("a.JPEG", tarfile.SYMTYPE, linkname="/etc/passwd"),
        raw.special("b.JPEG", tarfile.LNKTYPE, linkname="ok.JPEG"),
        raw.special("c.JPEG", tarfile.CHRTYPE),
        raw.special("f.JPEG", tarfile.GNUTYPE_SPARSE),
        raw.special("g.JPEG", b"Z"),
        ("._ok.JPEG", b"mac"),
        ("notes.txt", b"text"),
        ("ok.JPEG", b"image"),
    ]
    rows, ignored = raw.scan_class_tar(SYNSET, raw.tar(members))
    assert [row.key for row in rows] == [f"{SYNSET}/ok.JPEG"]
    assert read_image(raw.path, rows[0]) == b"image"
    reasons = {entry.name: entry.reason for entry in ignored}
    words = {
        "a.JPEG": "symbolic or hard link",
        "b.JPEG": "symbolic or hard link",
        "c.JPEG": "not a regular file",
        "f.JPEG": "sparse file",
        "g.JPEG": "not a regular file",
        "._ok.JPEG": "hidden file",
        "notes.txt": "not an image name",
    }
    assert reasons.keys() == words.keys()
    assert all(reasons[name].startswith(word) for name, word in words.items())


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_undecodable_names(raw: RawData, form: Form) -> None:
    names = ["d/" * 200 + "n" * 180 + ".JPEG", os.fsdecode(b"\xff\xe9.JPEG"), "line\nbreak.JPEG"]
    content = raw.tar([(name, b"bytes") for name in names], form=form)
    rows, _ = raw.scan_class_tar(SYNSET, content)
    expected = {f"{SYNSET}/{name.rpartition('/')[2]}" for name in names}
    assert {row.key for row in rows} == expected
    assert all(read_image(raw.path, row) == b"bytes" for row in rows)


def test_a_member_beyond_eight_gigabytes(raw: RawData) -> None:
    size = 9 << 30
    header = raw.special("a.JPEG", tarfile.REGTYPE, size=size).tobuf(tarfile.GNU_FORMAT)
    raw.write(f"train/{SYNSET}.tar", header)
    os.truncate(raw.path / f"train/{SYNSET}.tar", 512 + size + 1024)
    rows = raw.scan("train")[0]
    assert [(row.offset, row.size) for row in rows] == [(512, size)]


def test_an_empty_archive_is_named(raw: RawData) -> None:
    rows, ignored = raw.scan_class_tar(SYNSET, raw.tar([]))
    assert not rows
    assert [(entry.container, entry.reason) for entry in ignored] == [
        (f"train/{SYNSET}.tar", "empty archive")
    ]


def test_a_link_in_the_outer_archive_is_refused(raw: RawData) -> None:
    inner = raw.tar([("a.JPEG", b"a")])
    link = raw.special("n01443537.tar", tarfile.SYMTYPE, linkname=f"{SYNSET}.tar")
    raw.write_tar("ILSVRC2012_img_train.tar", [(f"d/{SYNSET}.tar", inner), link])
    with pytest.raises(
        SourceError, match=r"found n01443537.tar in ILSVRC2012_img_train.tar .*link"
    ):
        raw.scan("train")
