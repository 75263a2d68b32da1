"""``dataprep select``: what comes out is what would have been prepared so from the raw data."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

import dataprep
from tests.conftest import (
    FORMATS,
    Cli,
    Made,
    Raw,
    Shelf,
    everyday,
    hashes,
    leftovers,
    make,
    rows_of,
)
from tests.datasets.test_folder import write_tree
from tests.finished_sets import keys_of as keys
from tests.finished_sets import manifest_of as manifest
from tests.finished_sets import shards_of as shards
from tests.formats.examples import picture

# What is taken is copied as by convert, whose test has other formats.
KINDS = everyday(["recordio"], ["tfrecord", "lmdb", "webdataset", "hdf5", "parquet", "arrayrecord"])


def write_csv(path: Path, rows: Iterable[Sequence[object]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def select(cli: Cli, *words: object) -> str:
    result = cli("select", *words, "--workers", 1)
    assert result.code == 0, result
    return result.out + result.err


def refused(cli: Cli, *words: object) -> str:
    result = cli("select", *words, "--workers", 1)
    assert result.code in (1, 2), result
    return result.error


def without(found: dict[str, Any]) -> dict[str, Any]:
    """What must be the same of a set that was prepared and one that was selected."""
    return {
        name: value
        for name, value in found.items()
        if name not in ("input", "lineage", "records_table", "sha256")
    }


@pytest.mark.parametrize("name", KINDS)
def test_what_is_left_is_as_if_only_that_had_been_prepared(
    cli: Cli, tiny: Made, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    names = write_csv(
        tmp_path / "exclude.csv",
        [("split", "key"), *(("train", key) for key in keys(tiny.out)[::5])],
    )
    options = (*FORMATS[name], "--exclude", names, "--num_shards", "train=2,validation=1")
    prepared = make(Raw(tiny.raw.path, ("--workers", "1")), tmp_path / "prepared", *options)
    out = tmp_path / "out"
    said = select(cli, shelf(name).out, "--to", out, *options)
    assert "5 images left out (--exclude)" in said
    assert leftovers(out) == []
    assert shards(out) == shards(prepared.out)
    assert without(manifest(out)) == without(manifest(prepared.out))
    stored = [row for row in rows_of(prepared.out) if row["status"] != "excluded"]
    assert [row for row in rows_of(out) if row["status"] != "excluded"] == stored
    assert cli("verify", out, "--level", "decode").code == 0


def test_names_to_exclude_that_no_image_has_are_counted(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    lines = [("split", "key"), ("train", keys(tiny.out)[0]), ("train", "no/such.JPEG")]
    names = write_csv(tmp_path / "exclude.csv", lines)
    said = select(cli, tiny.out, "--to", tmp_path / "out", "--exclude", names)
    assert "1 image left out (--exclude); 1 name there that no image has, or several have" in said


def test_other_labels_are_as_if_the_folders_had_had_them(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    moved = keys(tiny.out)[:7]
    raw = tmp_path / "raw"
    shutil.copytree(tiny.raw.path, raw)
    listed = {row["key"]: row for row in rows_of(tiny.out) if row["split"] == "train"}
    classes = sorted({row["classes"][0] for row in listed.values()})
    wanted = {key: next(it for it in classes if it != listed[key]["classes"][0]) for key in moved}
    listing = [("path", "label"), *((f"{key}", row["classes"][0]) for key, row in listed.items())]
    changed = [(path, wanted.get(path, label)) for path, label in listing]
    files = tmp_path / "files"
    for example in dataprep.open(tiny.out, "train"):
        (files / example.key).parent.mkdir(parents=True, exist_ok=True)
        (files / example.key).write_bytes(example.encoded)
    outs = [tmp_path / "before", tmp_path / "after"]
    for out, lines in zip(outs, (listing, changed), strict=True):
        table = write_csv(tmp_path / f"{out.name}.csv", lines)
        words = ("--num_shards", 3, "--workers", 1)
        result = cli("folder", "--raw", files, "--out", out, "--listing", table, *words)
        assert result.code == 0, result
    labels = write_csv(tmp_path / "labels.csv", [("key", "label"), *wanted.items()])
    chosen = tmp_path / "chosen"
    said = select(cli, outs[0], "--to", chosen, "--relabel", labels, "--num_shards", 3)
    assert "7 images with other labels (--relabel)" in said
    assert shards(chosen) == shards(outs[1])
    assert without(manifest(chosen)) == without(manifest(outs[1]))
    assert rows_of(chosen) == rows_of(outs[1])
    difference = dataprep.diff(outs[0], chosen)
    assert [split.relabelled for split in difference.splits] == [7]
    assert not difference.same


def test_a_share_is_that_of_a_smaller_preparation_and_nested(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    words = ("--num_shards", "train=2,validation=1")
    prepared = make(
        Raw(tiny.raw.path, ("--workers", "1")), tmp_path / "a", "--limit", "30%", *words
    )
    select(cli, tiny.out, "--to", tmp_path / "b", "--sample", "0.3", *words)
    assert shards(tmp_path / "b") == shards(prepared.out)
    select(cli, tiny.out, "--to", tmp_path / "c", "--sample", "50%", "--stratify")
    found = [row["classes"] for row in rows_of(tmp_path / "c") if row["split"] == "train"]
    assert [found.count([name]) for name in sorted({it[0] for it in found})] == [4, 4, 4]
    assert {*keys(tmp_path / "b")} < {*keys(tiny.out)}


def test_of_several_one_is_made_with_their_classes_joined_by_name(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    classes = sorted({row["classes"][0] for row in rows_of(folders.out)})
    select(cli, folders.out, "--to", first, "--where", f"classes[1] = '{classes[0]}'")
    select(cli, folders.out, "--to", second, "--where", f"classes[1] <> '{classes[0]}'")
    both = tmp_path / "both"
    select(cli, second, first, "--to", both, "--num_shards", "train=3,test=2")
    assert shards(both) == shards(folders.out)
    lineage = manifest(both)["lineage"]
    shas = [it["manifest_sha256"] for it in lineage]
    assert shas[::2] == [manifest(second)["sha256"], manifest(first)["sha256"]]
    assert shas[1] == shas[3] == manifest(folders.out)["sha256"]
    again = refused(cli, folders.out, second, "--to", tmp_path / "twice")
    assert "would be there twice; give each data set a name" in again
    named = tmp_path / "named"
    select(cli, f"all={folders.out}", f"two={second}", "--to", named)
    found = {key.partition("/")[0] for key in keys(named)}
    assert found == {"all", "two"}
    assert len(keys(named)) == len(keys(folders.out)) + len(keys(second))


def test_the_split_may_be_a_column(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    attributes = [it["name"] for it in manifest(radiographs.out)["examples"]["fields"]]
    column = next(name for name in attributes if "view" in name)
    said = select(cli, radiographs.out, "--to", out, "--split_by", column)
    there = {row[column].lower() for row in rows_of(radiographs.out) if row["position"] is not None}
    assert {*manifest(out)["splits"]} == there
    rows = [row for row in rows_of(out) if row["position"] is not None]
    assert all(row["split"] == row[column].lower() for row in rows)
    assert dataprep.diff(radiographs.out, out).same is False
    # A patient has radiographs of both views.
    splits: dict[int, set[str]] = {}
    for row in rows:
        splits.setdefault(row["patient_id"], set()).add(row["split"])
    torn = sorted(patient for patient, some in splits.items() if len(some) > 1)
    assert f"{len(torn)} patients in more than one split (patient_id): " in said
    (found,) = dataprep.lint(out, rules=["patient"], show=None).rules
    assert {finding.text for finding in found.findings} == {
        f"patient {patient} is in {', '.join(sorted(splits[patient]))}" for patient in torn
    }
    (found,) = dataprep.lint(radiographs.out, rules=["patient"]).rules
    assert found.count == 0


def test_splits_of_a_column_are_called_as_those_of_a_listing(cli: Cli, tmp_path: Path) -> None:
    images = {f"{at}.png": picture(at) for at in range(8)}
    write_tree(tmp_path / "raw", images)
    parts = ("Train", "training", "Val", "valid", "Test")
    lines = [(f"{at}.png", "a", parts[at % 5]) for at in range(8)]
    table = write_csv(tmp_path / "list.csv", [("path", "label", "part"), *lines])
    words = ("folder", "--raw", tmp_path / "raw", "--listing", table)
    listed, kept, out = tmp_path / "listed", tmp_path / "kept", tmp_path / "out"
    assert cli(*words, "--out", listed, "--split_column", "part").code == 0
    assert cli(*words, "--out", kept, "--attribute_columns", "part").code == 0
    select(cli, kept, "--to", out, "--split_by", "part")
    assert [*manifest(out)["splits"]] == [*manifest(listed)["splits"]]
    for split in manifest(out)["splits"]:
        assert keys(out, split) == keys(listed, split)
    table = write_csv(
        tmp_path / "list.csv", [("path", "label", "part"), ("0.png", "a", "St. Mary")]
    )
    assert cli(*words, "--out", kept, "--attribute_columns", "part", "--overwrite").code == 0
    said = refused(cli, kept, "--to", tmp_path / "no", "--split_by", "part")
    assert "--split_by St. Mary: a split's name has the characters" in said


def test_a_label_that_is_given_twice_is_one(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    key, labels = (
        keys(radiographs.out)[0],
        [name for name, _ in manifest(radiographs.out)["classes"]],
    )
    cell = f"{labels[2]}|{labels[1]}|{labels[2]}"
    table = write_csv(tmp_path / "labels.csv", [("split", "key", "label"), ("train", key, cell)])
    select(cli, radiographs.out, "--to", tmp_path / "out", "--relabel", table)
    assert dataprep.open(tmp_path / "out", "train").by_key(key).labels == (1, 2)


def test_a_list_of_classes_renumbers_them(cli: Cli, folders: Made, tmp_path: Path) -> None:
    classes = [name for name, _ in manifest(folders.out)["classes"]]
    file = tmp_path / "classes.txt"
    file.write_text("\n".join(f"{name}\tthe {name}" for name in reversed(classes)))
    out = tmp_path / "out"
    select(cli, folders.out, "--to", out, "--classes", file)
    for example in dataprep.open(out, "train"):
        assert example.class_name == f"the {example.synset}"
        assert example.labels == (classes[::-1].index(example.synset),)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--where", "colour = 1"), "there is no column 'colour'; expected one of key, split"),
        (("--where", "key = "), "syntax error"),
        (("--where", "true) or (true"), "syntax error"),
        (
            ("--where", "(select count(*) from read_text('/etc/hostname')) > 0"),
            "Cannot access file",
        ),
        (("--where", "key in (select * from read_csv('/etc/passwd'))"), "Cannot access file"),
        (("--where", "key = 'no such key'"), "no image is taken"),
        (("--split_by", "nothing"), "there is no column nothing; expected one of"),
        (("--split_by", "reason"), "an empty cell"),
        (("--num_shards", "test=1"), "the splits are"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_one_line(
    cli: Cli, tiny: Made, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    found = refused(cli, tiny.out, "--to", tmp_path / "out", *words)
    assert said in found
    assert "\n" not in found.strip()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([("key", "label"), ("no such key", "n01440764")], "1 line not about one image"),
        ([("key", "label"), ("{key}", "no such class")], "line 2: no class no such class"),
        ([("name", "label"), ("{key}", "n01440764")], "expected columns key, label"),
        ([("key", "label", "label"), ("{key}", "n01440764", "")], "each once"),
        ([("key", "label"), ("{key}",)], "cannot be used"),
        ([("key", "label"), ("{key}", "n01440764"), ("{key}", "n01443537")], "two different label"),
    ],
)
def test_a_list_of_labels_that_is_wrong_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path, lines: list[tuple[str, ...]], said: str
) -> None:
    key = keys(tiny.out)[0]
    file = write_csv(
        tmp_path / "labels.csv", [[cell.format(key=key) for cell in line] for line in lines]
    )
    assert said in refused(cli, tiny.out, "--to", tmp_path / "out", "--relabel", file)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_it_is_resumed_and_another_selection_is_refused(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (tiny.out, "--to", out, "--num_shards", "train=3,validation=1")
    select(cli, *words, "--where", "position > 0")
    before = hashes(out)
    shutil.rmtree(out / "train")
    (out / "manifest.json").unlink()
    assert "3 to make" in select(cli, *words, "--where", "position > 0")
    assert hashes(out) == before
    assert "--overwrite" in refused(cli, *words, "--where", "position > 1")


def test_the_same_from_python(tiny: Made, tmp_path: Path) -> None:
    made = dataprep.select(tiny.out, to=tmp_path / "out", sample=0.5, num_shards={"train": 2})
    assert made.records == 15
    named = dataprep.select({"a": tiny.out, "b": made.out}, to=tmp_path / "both", sink="recordio")
    assert named.records == 45
    assert named.manifest.sink.name == "recordio"


def test_an_image_may_be_left_out_and_relabelled_in_one_call(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    first, second, third, *_ = keys(tiny.out)
    classes = [row["classes"][0] for row in rows_of(tiny.out) if row["split"] == "train"]
    other = next(name for name in classes if not first.startswith(name))
    out, names = tmp_path / "out", tmp_path / "names.txt"
    names.write_text(f"{first}\n{third}\n")
    lines = [(key, other) for key in (first, second)]
    labels = write_csv(tmp_path / "labels.csv", [("key", "label"), *lines])
    words = (tiny.out, "--to", out, "--exclude", names, "--relabel")
    said = select(cli, *words, labels)
    assert "2 images left out (--exclude)" in said
    assert "with other labels (--relabel); 1 image there left out (--exclude)" in said
    assert not {first, third} & {*keys(out)}
    (row,) = (row for row in rows_of(out) if row["key"] == second)
    assert row["classes"] == [other]
    wrong = write_csv(tmp_path / "wrong.csv", [("key", "label"), *lines, ("none.JPEG", other)])
    done = refused(cli, *words, wrong, "--overwrite")
    assert "1 line not about one image that is taken: none.JPEG (0 images)" in done


def test_images_that_were_rejected_are_counted_among_those_there(cli: Cli, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    write_tree(raw, {f"{name}/{n}.jpg": picture(n) for name in "ab" for n in range(4)})
    (raw / "a/0.jpg").write_bytes(b"no image")
    assert cli("folder", "--raw", raw, "--out", out, "--workers", 1, "--max_bad", 1).code == 0
    said = select(cli, out, "--to", tmp_path / "all", "--where", "true")
    assert "8 images of 8 taken" in said
    said = select(cli, out, "--to", tmp_path / "good", "--where", "status <> 'rejected'")
    assert "7 images of 8 taken" in said
