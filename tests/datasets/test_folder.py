"""The folder data set: every layout of class folders and archives, and what contradicts itself."""

from __future__ import annotations

import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataprep.datasets.folder.dataset import Folder
from dataprep.datasets.folder.layout import Container, make_units
from dataprep.errors import SourceError, UsageError
from dataprep.rows import Row, Scanned

# "a-b" sorts before "a/" but its containers must not.
SMALL = {
    f"{split}/{name}/{number}.jpg": f"{split} {name} {number}".encode() * number
    for split in ("train", "val")
    for name in ("a", "a-b", "c d")
    for number in (1, 2)
}
CLASSES_ONLY = {name: content for name, content in SMALL.items() if name.startswith("train/")}
Files = Mapping[str, bytes]
Write = Callable[[Path, Files], object]
MODIFIED = 77


def below(prefix: str, files: Files) -> dict[str, bytes]:
    return {
        name.removeprefix(prefix): content
        for name, content in files.items()
        if name.startswith(prefix)
    }


def tops(files: Files) -> list[str]:
    return sorted({name.partition("/")[0] for name in files})


def write_tree(raw: Path, files: Files) -> None:
    for name, content in files.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(content)
        os.utime(raw / name, (MODIFIED, MODIFIED))


def write_archive(path: Path, files: Files) -> None:
    """An archive of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return
    mode: Any = {"gz": "w:gz", "xz": "w:xz"}.get(path.name[-2:], "w")
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), MODIFIED
            tar.addfile(info, io.BytesIO(content))


def scan_all(dataset: Folder, raw: Path, splits: tuple[str, ...] | None = None) -> list[Scanned]:
    found = dataset.find(raw, splits)
    scans = [dataset.scan(raw, found, unit) for unit in found.units]
    return [it if it.copy is None else copied(it.copy) for it in scans]


def copied(copy: Callable[[BinaryIO], Scanned]) -> Scanned:
    with TemporaryFile() as file:
        return copy(cast("BinaryIO", file))


def labelled(scans: Iterable[Scanned]) -> dict[str, dict[str, tuple[str, ...]]]:
    """The labels' names by split and key; a key that is there twice fails."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for scan in scans:
        assert scan.classes is not None
        for split, rows in scan.rows.items():
            for row in rows:
                assert row.key not in found.setdefault(split, {})
                found[split][row.key] = tuple(scan.classes[label] for label in row.labels)
    return found


def labels_of(raw: Path, **options: Any) -> dict[str, dict[str, tuple[str, ...]]]:
    return labelled(scan_all(Folder(**options), raw))


def rows_of(scans: Iterable[Scanned], split: str) -> list[Row]:
    return [row for scan in scans for row in scan.rows.get(split, ())]


def refusal(raw: Path, error: type[Exception] = SourceError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        scan_all(Folder(**options), raw)
    assert "\n" not in str(caught.value)
    return str(caught.value)


ALL = {f"{c}/{n}.jpg": (c,) for c in ("a", "a-b", "c d") for n in (1, 2)}
EXPECTED = {"train": ALL, "validation": ALL}


def class_archives(raw: Path, suffix: str, *, in_folders: bool = False) -> None:
    for split in tops(SMALL):
        files = below(f"{split}/", SMALL)
        for name in tops(files):
            own = below(f"{name}/", files)
            content = {f"{name}/{key}": data for key, data in own.items()} if in_folders else own
            write_archive(raw / split / f"{name}{suffix}", content)


def split_archives(raw: Path, suffix: str, prefix: str = "") -> None:
    """The prefix may have the split's name in it."""
    for split in tops(SMALL):
        files = below(f"{split}/", SMALL)
        content = {prefix.format(split) + name: data for name, data in files.items()}
        write_archive(raw / f"{split}{suffix}", content)


def half_packed(raw: Path) -> None:
    write_tree(raw, {n: d for n, d in SMALL.items() if "/a-b/" not in n})
    for split in tops(SMALL):
        write_archive(raw / split / "a-b.tar", below(f"{split}/a-b/", SMALL))


SPLIT_LAYOUTS: dict[str, Callable[[Path], object]] = {
    "folders": lambda raw: write_tree(raw, SMALL),
    "class tars of folders": lambda raw: class_archives(raw, ".tar", in_folders=True),
    "class txz": lambda raw: class_archives(raw, ".txz"),
    "one tar.xz": lambda raw: write_archive(raw / "images.tar.xz", SMALL),
    "class tgz": lambda raw: class_archives(raw, ".tgz"),
    "split tars with dot": lambda raw: split_archives(raw, ".tar", "./"),
    "split zips": lambda raw: split_archives(raw, ".zip"),
    "split tars with split folders": lambda raw: split_archives(raw, ".tar", "{}/"),
    "one tar.gz": lambda raw: write_archive(raw / "images.tar.gz", SMALL),
    "one zip": lambda raw: write_archive(raw / "images.zip", SMALL),
    "half packed": half_packed,
}


@pytest.mark.parametrize("layout", SPLIT_LAYOUTS)
def test_every_layout_gives_the_same_keys_and_labels(tmp_path: Path, layout: str) -> None:
    SPLIT_LAYOUTS[layout](tmp_path)

    assert labels_of(tmp_path) == EXPECTED


def write_class_tars(raw: Path, files: Files) -> None:
    for name in tops(files):
        write_archive(raw / f"{name}.tar", below(f"{name}/", files))


@pytest.mark.parametrize(
    "write",
    [
        lambda raw, files: write_tree(raw, files),
        lambda raw, files: write_archive(raw / "images.tar", files),
        write_class_tars,
    ],
    ids=["folders", "one tar", "class tars"],
)
def test_classes_without_splits_are_one_split(tmp_path: Path, write: Write) -> None:
    write(tmp_path, below("train/", SMALL))

    assert labels_of(tmp_path) == {"train": EXPECTED["train"]}
    assert labels_of(tmp_path, split_name="Val") == {"validation": EXPECTED["train"]}


@pytest.mark.parametrize(
    "write",
    [
        lambda raw, files: write_tree(raw, files),
        lambda raw, files: write_archive(raw / "original.tar", files),
    ],
    ids=["folders", "tar"],
)
def test_inside_takes_what_is_below_and_keeps_it_out_of_keys(tmp_path: Path, write: Write) -> None:
    write(tmp_path, {f"places/{name}": data for name, data in SMALL.items()} | {"b/x.jpg": b"x"})

    assert labels_of(tmp_path, inside="./places/") == EXPECTED
    assert labels_of(tmp_path, inside="places/val", split_name="validation") == {
        "validation": EXPECTED["validation"]
    }


DEEP = {"a/airfield/1.jpg": b"1", "a/apartment/outdoor/2.jpg": b"2", "b/3.jpg": b"3"}


@pytest.mark.parametrize(
    "write", [write_tree, lambda raw, files: write_archive(raw / "all.tar", files)]
)
def test_the_class_is_the_top_folder_or_the_path(tmp_path: Path, write: Write) -> None:
    write(tmp_path, DEEP)

    assert labels_of(tmp_path)["train"] == {path: (path[0],) for path in DEEP}
    paths = {path: (path.rpartition("/")[0],) for path in DEEP}
    assert labels_of(tmp_path, class_from="path")["train"] == paths


def test_split_folders_may_be_classes(tmp_path: Path) -> None:
    write_tree(tmp_path, {"train/1.jpg": b"1", "plane/1.jpg": b"2"})
    assert "--split_folders never" in refusal(tmp_path)

    assert labels_of(tmp_path, split_folders="never") == {
        "train": {"plane/1.jpg": ("plane",), "train/1.jpg": ("train",)}
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, "no images in"),
        ({"note.txt": b""}, "found note.txt"),
        ({"x.jpg": b"x"}, "images outside a class folder: x.jpg"),
        ({"train/x.jpg": b"x", "val/x.jpg": b"x"}, "if train is a class, give --split_folders"),
        ({"train/note": b"", "val/a/x.jpg": b"x"}, "found note"),
        ({"train/a/x.jpg": b"x", "b/x.jpg": b"x"}, "could be splits, beside b"),
        ({"p/train/a/x.jpg": b"x", "p/val/a/x.jpg": b"x"}, "did you mean --inside p ?"),
    ],
)
def test_folders_that_contradict_themselves_are_refused(
    tmp_path: Path, files: Files, expected: str
) -> None:
    write_tree(tmp_path, files)

    assert expected in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "files", "expected"),
    [
        (
            "i.tar",
            {"a/x.jpg": b"x", "y.jpg": b"y"},
            "images outside a class folder in i.tar: y.jpg",
        ),
        ("train.tar", {"y.jpg": b"y"}, "images outside a class folder in train.tar"),
        ("train.tar", {"val/a/x.jpg": b"x"}, "train.tar has images in val, some of which could be"),
        ("i.tar", {"train/a/x.jpg": b"x", "b/a/y.jpg": b"y"}, "expected all in <split>/<class>/"),
        ("i.tar", {"train/a/x.jpg": b"x", "val/y.jpg": b"y"}, "expected all in <split>/<class>/"),
    ],
)
def test_archives_that_contradict_themselves_are_refused(
    tmp_path: Path, name: str, files: Files, expected: str
) -> None:
    write_archive(tmp_path / name, files)

    assert expected in refusal(tmp_path)


def test_a_place_inside_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "check --inside" in refusal(tmp_path, inside="gone")


def test_as_many_class_archives_as_imagenet_22k_give_few_units() -> None:
    containers = [Container(f"n{n:08d}.tar", stem=f"n{n:08d}") for n in range(21_841)]

    units = make_units("all", "", containers)

    assert len(units) == 347
    assert max(len(unit.containers) for unit in units) <= 64


def test_find_opens_no_archive_and_looks_two_levels_deep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train/a/deep").mkdir(parents=True)
    (tmp_path / "train/b.tar").write_bytes(b"no archive at all")
    looked_at, scandir = [], os.scandir

    def look(path: str | Path) -> Any:
        looked_at.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", look)

    found = Folder().find(tmp_path, None)

    assert {Path(path) for path in looked_at} == {tmp_path, tmp_path / "train"}
    assert found.splits == ("train",)
    assert found.whole
    assert len(found.units) == 2


def test_stray_entries_are_reported_once(tmp_path: Path) -> None:
    write_tree(tmp_path, SMALL | {"README.md": b"", ".DS_Store": b"", "train/list.txt": b""})

    found = Folder().find(tmp_path, None)

    scans = [Folder().scan(tmp_path, found, unit) for unit in found.units]
    assert sorted(entry.name for scan in scans for entry in scan.ignored) == [
        ".DS_Store",
        "README.md",
        "list.txt",
    ]
    assert "ignoring .DS_Store, README.md, list.txt" in found.description[0]


def test_splits_are_chosen_in_the_usual_order(tmp_path: Path) -> None:
    write_tree(tmp_path, SMALL | {"test/a/1.jpg": b"1"})
    dataset = Folder()

    assert dataset.find(tmp_path, None).splits == ("train", "validation", "test")
    assert dataset.find(tmp_path, ("validation",)).splits == ("validation",)
    assert labelled(scan_all(dataset, tmp_path, ("validation",))).keys() == {"validation"}
    with pytest.raises(UsageError, match="names dev; the splits are train, validation, test"):
        dataset.find(tmp_path, ("dev",))


FRACTIONS = "train=0.8,validation=0.1,test=0.1"


def test_fractions_cut_by_key_whatever_the_layout(tmp_path: Path) -> None:
    files = {f"{c}/{n}.jpg": b"x" for c in "abc" for n in range(50)}
    write_tree(tmp_path / "tree", files)
    write_archive(tmp_path / "tar/all.tar", files)

    def cut(
        form: str, fractions: str = FRACTIONS, seed: str = "0"
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        options = {"fractions": fractions, "split_seed": seed, "stratify": False}
        return labels_of(tmp_path / form, **options)

    found = cut("tree")
    assert found == cut("tar", "test=0.1,train=0.8,validation=0.1")
    assert found != cut("tree", seed="1")
    assert found.keys() == {"train", "validation", "test"}
    assert sum(map(len, found.values())) == 150
    assert 90 < len(found["train"]) < 140
    dataset = Folder(fractions=FRACTIONS)
    assert dataset.find(tmp_path / "tar", None).splits == ("train", "validation", "test")
    assert all(not row.group for row in rows_of(scan_all(dataset, tmp_path / "tree"), "train"))


@given(st.sets(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), min_size=1))
def test_fractions_by_folder_never_part_a_folder(
    tmp_path_factory: pytest.TempPathFactory, images: set[tuple[str, int]]
) -> None:
    raw = tmp_path_factory.mktemp("raw")
    write_archive(raw / "all.tar", {f"class/{f}/{n}.jpg": b"x" for f, n in images})

    options = {"fractions": "train=0.5,test=0.5", "group_by": "folder", "stratify": False}
    scans = scan_all(Folder(**options), raw)

    splits: dict[str, set[str]] = {}
    for scan in scans:
        for split, rows in scan.rows.items():
            for row in rows:
                assert row.group == row.key.rpartition("/")[0]
                splits.setdefault(row.group, set()).add(split)
    assert all(len(places) == 1 for places in splits.values())
    assert splits.keys() == {f"class/{folder}" for folder, _ in images}


def test_fractions_of_split_folders_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path / "tree", SMALL)
    write_archive(tmp_path / "tar/all.tar", SMALL)

    assert "--fractions with split folders" in refusal(tmp_path / "tree", fractions=FRACTIONS)
    assert "all.tar has split folders" in refusal(tmp_path / "tar", fractions=FRACTIONS)


# --classes


def test_a_list_of_classes_fixes_the_labels(tmp_path: Path) -> None:
    write_tree(tmp_path / "raw", {"cat/1.jpg": b"1", "ant/2.jpg": b"2"})
    (tmp_path / "classes.txt").write_text("dog\tthe dog\ncat\nant\tan ant\n\n")
    dataset = Folder(classes=str(tmp_path / "classes.txt"))

    scans = scan_all(dataset, tmp_path / "raw")

    classes = dataset.find(tmp_path / "raw", None).classes
    assert classes == (("dog", "the dog"), ("cat", "cat"), ("ant", "an ant"))
    assert {row.key: row.labels for row in rows_of(scans, "train")} == {
        "cat/1.jpg": (1,),
        "ant/2.jpg": (2,),
    }
    assert all(scan.classes is None for scan in scans)
    assert "classes" not in dataset.config()
    write_tree(tmp_path / "raw", {"cow/2.jpg": b"2"})
    message = refusal(tmp_path / "raw", classes=str(tmp_path / "classes.txt"))
    assert message.startswith("unknown class in cow: cow; expected those of ")


# fingerprints


def touch(directory: Path) -> None:
    """As if an entry were added, however coarse the file system's times are."""
    status = directory.stat()
    os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns + 10**9))


@pytest.mark.parametrize("folder", ["a", "a/b/c", "a/link"])
def test_an_image_added_at_any_depth_changes_the_fingerprint(tmp_path: Path, folder: str) -> None:
    raw, away = tmp_path / "raw", tmp_path / "away"
    write_tree(raw, {"a/b/c/1.jpg": b"1", "b/1.jpg": b"1"})
    away.mkdir()
    (raw / "a/link").symlink_to(away)
    unit, _ = Folder().find(raw, None).units
    before = Folder().fingerprint(raw, unit)

    (raw / folder / "new.jpg").write_bytes(b"new")
    touch(raw / folder)

    assert Folder().fingerprint(raw, unit) != before


# images and tables


def test_every_image_format_is_an_image_and_what_is_not_read_is_no_secret(tmp_path: Path) -> None:
    names = [f"1{suffix}" for suffix in (".webp", ".BMP", ".tif", ".TIFF", ".gif", ".heic", ".JP2")]
    write_tree(tmp_path / "tree", {f"cat/{name}": b"x" for name in (*names, "notes.txt")})
    write_archive(tmp_path / "tar/cat.tar", dict.fromkeys((*names, "notes.txt"), b"x"))
    write_archive(tmp_path / "zip/cat.zip", dict.fromkeys((*names, "notes.txt"), b"x"))

    for raw in ("tree", "tar", "zip"):
        assert labels_of(tmp_path / raw)["train"].keys() == {f"cat/{name}" for name in names}


@pytest.mark.parametrize("table", ["labels.csv", "train/l.TSV", "train/a/l.jsonl", "val/x.parquet"])
def test_a_table_beside_images_is_asked_about(tmp_path: Path, table: str) -> None:
    write_tree(tmp_path, SMALL | {table: b"path,label"})

    assert f"found the table {table}; give --listing {table} if it" in refusal(tmp_path)
    assert labels_of(tmp_path, listing="none") == EXPECTED
