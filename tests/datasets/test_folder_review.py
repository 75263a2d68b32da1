"""The folder data set: classes that could be lost or confused, and lists of classes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from dataprep.datasets.folder.class_list import load_class_list
from dataprep.datasets.folder.dataset import Folder
from dataprep.errors import SourceError
from dataprep.index.tables import index_tables

WITHOUT = "class folders or archives without images"
NFC, NFD = "caf\u00e9", "cafe\u0301"


def write_tree(raw: Path, *names: str) -> None:
    for name in names:
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(b"x")


def write_tar(path: Path, *names: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))


def scan_all(dataset, raw):
    return [dataset.scan(raw, unit) for unit in dataset.find(raw, None).units]


def classes_and_count(raw, **options):
    scans = scan_all(Folder(**options), raw)
    classes = sorted({name for scan in scans for name in scan.classes or ()})
    return classes, sum(scan.counts.get(WITHOUT, 0) for scan in scans)


# links that lead nowhere


@pytest.mark.parametrize("place", ["b", "train/b"])
def test_a_class_folder_that_is_a_dangling_link_is_refused(tmp_path, place):
    write_tree(tmp_path, *(f"{place[:-1]}{name}/1.jpg" for name in "ac"))
    (tmp_path / place).symlink_to("gone/b")

    with pytest.raises(SourceError) as caught:
        Folder().find(tmp_path, None)
    assert str(caught.value) == (
        f"{place} is a symbolic link to gone/b, which cannot be read (No such file or directory); "
        "restore the folder or remove the link"
    )


def test_links_that_lead_somewhere_or_are_hidden_are_no_obstacle(tmp_path):
    write_tree(tmp_path, "raw/a/1.jpg", "elsewhere/1.jpg", "note")
    (tmp_path / "raw/b").symlink_to("../elsewhere")
    (tmp_path / "raw/readme").symlink_to("../note")
    (tmp_path / "raw/.b").symlink_to("gone")
    (tmp_path / "raw/lost+found").symlink_to("gone")

    assert classes_and_count(tmp_path / "raw") == (["a", "b"], 0)


@pytest.mark.parametrize("packed", [False, True])
def test_a_dangling_link_does_not_matter_beside_what_is_listed(tmp_path, packed):
    write_tree(tmp_path, "raw/a/1.jpg")
    if packed:
        write_tar(tmp_path / "raw/b.tar", "b/1.jpg")
    (tmp_path / "raw/z").symlink_to("gone")
    (tmp_path / "list.txt").write_text("a/1.jpg 0\n")

    scans = scan_all(Folder(listing=str(tmp_path / "list.txt")), tmp_path / "raw")
    tables = [table for scan in scans for table in index_tables(scan, (), ())]
    rows = [row for table in tables for row in table.to_pylist() if row["status"] != "ignored"]
    assert {row["key"] for row in rows} == {"a/1.jpg", *(["b/1.jpg"] if packed else [])}


# classes without images


@pytest.mark.parametrize("split", ["", "train/"])
def test_a_class_folder_without_images_keeps_its_number(tmp_path, split):
    write_tree(tmp_path, f"{split}a/1.jpg", f"{split}d/1.jpg", f"{split}c/1.bmp", f"{split}.e/1.x")
    (tmp_path / f"{split}b").mkdir()

    assert classes_and_count(tmp_path) == (["a", "b", "c", "d"], 2)


def test_a_class_archive_without_images_keeps_its_number(tmp_path):
    write_tar(tmp_path / "a.tar", "1.jpg")
    write_tar(tmp_path / "b.tar")
    write_tar(tmp_path / "c.tar", "./1.bmp")
    write_tar(tmp_path / "d.tar", "notes/readme.txt")

    assert classes_and_count(tmp_path) == (["a", "b", "c"], 2)


def test_labels_are_indices_into_the_classes_with_those_without_images(tmp_path):
    write_tree(tmp_path, "b/1.jpg")
    (tmp_path / "a").mkdir()
    dataset = Folder()
    container_of = {unit.container: unit for unit in dataset.find(tmp_path, None).units}

    assert dataset.scan(tmp_path, container_of["a"]).classes == ["a"]
    scan = dataset.scan(tmp_path, container_of["b"])
    assert (scan.classes, scan.rows["train"][0].labels, scan.counts) == (["b"], (0,), {})


def test_nothing_is_made_up_where_the_name_is_no_class(tmp_path):
    write_tree(tmp_path / "deep", "a/x/1.jpg")
    (tmp_path / "deep/b").mkdir()
    write_tar(tmp_path / "inside/a.tar", "in/c/1.jpg")
    write_tar(tmp_path / "inside/b.tar")
    write_tar(tmp_path / "split/train.tar", "c/1.jpg")
    write_tar(tmp_path / "split/val.tar")

    assert classes_and_count(tmp_path / "deep", class_from="path") == (["a/x"], 0)
    assert classes_and_count(tmp_path / "inside", inside="in") == (["c"], 0)
    assert classes_and_count(tmp_path / "split") == (["c"], 0)


def test_with_a_list_of_classes_only_these_are_counted(tmp_path):
    write_tree(tmp_path, "raw/a/1.jpg", "raw/notes/readme.txt", "raw/b/readme.txt")
    (tmp_path / "classes").write_text("a\nb\n")

    assert classes_and_count(tmp_path / "raw", classes=str(tmp_path / "classes")) == ([], 1)


# classes that look the same


def test_two_unicode_spellings_of_one_class_are_refused():
    with pytest.raises(SourceError) as caught:
        Folder().order_classes(["a", NFC, NFD])
    assert r"'cafe\u0301' and 'caf\xe9'" in str(caught.value)
    assert str(caught.value).isprintable()


def test_names_that_differ_are_classes(tmp_path):
    names = [NFC, "cafe", "Cafe", "cafè"]

    assert sorted(Folder().order_classes(names)) == sorted((name, name) for name in names)


def test_a_list_in_another_unicode_spelling_is_named_as_the_cause(tmp_path):
    write_tree(tmp_path, f"raw/{NFD}/1.jpg")
    (tmp_path / "classes").write_text(f"{NFC}\n", encoding="utf-8")

    with pytest.raises(SourceError, match=r"another Unicode spelling, 'caf.xe9' instead of 'cafe"):
        scan_all(Folder(classes=str(tmp_path / "classes")), tmp_path / "raw")


# lists of classes


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("apple pie\nbread\n", [("apple pie", "apple pie"), ("bread", "bread")]),
        ("boeing 747\ncessna\n", [("boeing 747", "boeing 747"), ("cessna", "cessna")]),
        ("apple pie 1\nbread 0\n", [("bread", "bread"), ("apple pie", "apple pie")]),
        ("boeing 747\t\r\nboeing 707\t\r\n", [(n, n) for n in ("boeing 747", "boeing 707")]),
        ("apple pie\tsweet\nbread\n", [("apple pie", "sweet"), ("bread", "bread")]),
        ("apple pie\t1\nbread\t0\n", [("bread", "bread"), ("apple pie", "apple pie")]),
    ],
)
def test_classes_may_have_spaces(tmp_path, text, classes):
    (tmp_path / "list").write_bytes(text.encode())

    assert list(load_class_list(tmp_path / "list").classes) == classes


def test_names_after_a_space_are_explained(tmp_path):
    write_tree(tmp_path, "raw/n01/1.jpg")
    (tmp_path / "classes").write_text("n00 goldfish\nn01 tench\n")

    with pytest.raises(SourceError, match=r"the list has n01 tench: what follows .* needs a TAB"):
        scan_all(Folder(classes=str(tmp_path / "classes")), tmp_path / "raw")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a\nb\n".encode("utf-16"), "line 1: not UTF-8; save the list as UTF-8"),
        ("a\nb\n".encode("utf-16-be"), "is UTF-16 or no text"),
        ("a\ncafé\n".encode("latin-1"), "line 2: not UTF-8; save the list as UTF-8"),
        (b"boeing 747\nairbus 380\n", "class numbers .* put a TAB after each"),
        (b"boeing 747\nboeing 707\n", "line 2: .* if 707 is part of the name, put a TAB after it"),
    ],
)
def test_lists_that_are_no_lines_of_utf8_are_refused(tmp_path, content, expected):
    (tmp_path / "list").write_bytes(content)

    with pytest.raises(SourceError, match=expected):
        load_class_list(tmp_path / "list")
