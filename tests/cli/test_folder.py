"""``dataprep folder`` from any form of an image set to the sealed set."""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

import dataprep
from tests.conftest import Cli, Made, everyday, hashes, leftovers
from tests.datasets.test_folder import write_archive
from tests.datasets.test_folder_listing import write_listing
from tests.finished_sets import examples_of, keys_of, manifest_of, splits_of
from tests.steering import shards

CLASSES = ["airfield", "bar", "cañon"]
Form = Callable[[Path, Path], None]


def files_of(raw: Path) -> dict[str, bytes]:
    """The images of class folders, by path."""
    return {
        path.relative_to(raw).as_posix(): path.read_bytes()
        for path in sorted(raw.rglob("*"))
        if path.is_file()
    }


# --- what comes out ---


def test_every_image_is_there_as_it_was_with_its_folder_as_class(folders: Made) -> None:
    files = files_of(folders.raw.path)
    examples = [*examples_of(folders.out)]
    assert {example.key: example.encoded for example in examples} == files
    assert {example.format for example in examples} == {"JPEG", "PNG"}
    assert [list(entry) for entry in dataprep.open(folders.out, "train").classes] == [
        [name, name] for name in CLASSES
    ]
    for example in examples:
        assert CLASSES[example.class_index] == example.key.partition("/")[0] == example.class_name
    found = Counter(splits_of(folders.out).values())
    assert found.keys() == {"train", "test"}
    assert min(found.values()) > 2
    assert manifest_of(folders.out)["dataset_config"]["fractions"]


# --- the same images in other forms ---


def as_tar_gz(raw: Path, form: Path) -> None:
    write_archive(form / "all.tar.gz", files_of(raw))


def as_a_mixture(raw: Path, form: Path) -> None:
    write_archive(form / "airfield.tar", files_of(raw / "airfield"))
    (form / "bar").symlink_to(raw / "bar")
    write_archive(form / "cañon.zip", dict(reversed(files_of(raw / "cañon").items())))


@pytest.mark.parametrize("form", [as_tar_gz, as_a_mixture])
def test_the_raw_form_does_not_show(cli: Cli, folders: Made, tmp_path: Path, form: Form) -> None:
    (tmp_path / "raw").mkdir()
    form(folders.raw.path, tmp_path / "raw")
    result = cli(*replace(folders.raw, path=tmp_path / "raw").command(tmp_path / "out"))
    assert result.code == 0, result
    assert hashes(tmp_path / "out") == folders.files
    assert leftovers(tmp_path / "out") == []


# --- listings ---

LISTED = [
    (f"{name}/{number}.{'png' if number == 5 else 'jpg'}", name)
    for number in range(8)
    for name in CLASSES
]


def rows(*, patients: int = 0) -> list[dict[str, str]]:
    """What a listing says of the images in class folders; perhaps a patient for each, in turn."""
    found = [{"path": path, "label": label} for path, label in LISTED]
    for number, row in enumerate(found if patients else ()):
        row["patient"] = f"p{number * 5 % patients}"
    return found


@pytest.fixture(scope="session")
def listed(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What a CSV makes of the class folders' images."""
    path = tmp_path_factory.mktemp("listed")
    listing = write_listing(path / "list.csv", rows())
    result = Cli()(*folders.command(path / "out", "--listing", listing))
    assert result.code == 0, result
    return replace(folders, out=path / "out", files=hashes(path / "out"))


def test_a_listing_makes_the_very_shards_that_the_folders_make(folders: Made, listed: Made) -> None:
    assert shards(listed.files) == shards(folders.files)


@pytest.mark.parametrize("more", [(), ("--splits", "train")], ids=["whole", "one-split"])
def test_a_listing_whose_splits_share_a_group_is_refused(
    cli: Cli, folders: Made, tmp_path: Path, more: tuple[str, ...]
) -> None:
    table = rows(patients=12)
    for number, row in enumerate(table):
        row["split"] = "test" if int(row["patient"][1:]) > 8 or number == 23 else "train"
    listing = write_listing(tmp_path / "list.csv", table)
    options = ("--num_shards", "1", "--workers", "1", "--listing", str(listing))
    raw = replace(folders.raw, options=options)
    shared = table[23]["patient"]
    result = cli(*raw.command(tmp_path / "out", "--group_by", "patient", *more))
    assert result.code == 1
    assert f" {shared} is in train (" in result.error
    assert table[23]["path"].rpartition("/")[2] in result.error
    assert not list((tmp_path / "out").rglob("*-of-*"))


# --- refused ---


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--listing", "nowhere.csv"), "nowhere.csv"),
        (("--fractions", "train=0.5,test=0.6"), "add up to 1.1"),
        (("--group_by", "patient", "--fractions", "train=0.5,test=0.5"), "listing"),
        (("--splits", "holdout"), "holdout"),
        (("--sink", "hdf5-arrays"), "one size"),
    ],
    ids=lambda value: None if isinstance(value, str) else "=".join(value[:2]),
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(
    cli: Cli, folders: Made, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    raw = replace(folders.raw, options=("--num_shards", "1"))
    result = cli(*raw.command(tmp_path / "out", *words))
    assert result.code == 2
    assert said in result.error
    assert not list(tmp_path.rglob("*-of-*"))


def test_shares_that_leave_a_class_without_an_image_say_so(cli: Cli, tmp_path: Path) -> None:
    for number in range(100):
        path = tmp_path / f"raw/c{number // 4:02d}/{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(path)
    cut = ("--fractions", "train=0.9,validation=0.1", "--workers", 1)
    result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "out", *cut)
    assert result.code == 0, result
    there = {key.partition("/")[0] for key in keys_of(tmp_path / "out", "validation")}
    lacking = sorted({f"c{number:02d}" for number in range(25)} - there)
    said = f"{', '.join(lacking[:5])} and {len(lacking) - 5} more; if shares cut"
    assert f"\nvalidation has no image of {len(lacking)} of 25 classes: {said}" in result.out
    assert "train has no image of" not in result.out
    result = cli("folder", "--raw", tmp_path / "raw", "--out", tmp_path / "tenth", "--limit", "10%")
    assert result.code == 0, result
    assert manifest_of(tmp_path / "tenth")["totals"]["records"] == 10


def test_what_is_assigned_stays_even_where_out_is_made_anew(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    raw = folders.raw.copy(tmp_path / "raw")
    out, before = tmp_path / "out", splits_of(folders.out)
    folders.copy(out)
    for number in range(30):
        Image.new("L", (8, 8), number).save(raw.path / "bar" / f"a{number}.png")
    again = replace(raw, options=(*raw.options, "--splits_from", str(out)))
    assert "with --splits_from none" in cli(*again.command(out)).error
    (raw.path / "bar" / "torn.jpg").write_bytes(b"no JPEG")
    assert cli(*again.command(out, "--overwrite")).code == 3
    assert not (out / "records.parquet").exists()  # and yet what it said is not forgotten
    (raw.path / "bar" / "torn.jpg").unlink()
    result = cli(*again.command(out, "--overwrite"))
    assert result.code == 0, result
    after = splits_of(out)
    assert before.items() < after.items()
    assert Counter(after.values()) == {"train": 38, "test": 16}
    assert "--splits_from: 24 of its 24 images are here, and stay in their splits" in result.out
    made = hashes(out)
    assert cli(*again.command(out)).code == 0  # OUT is another by now, and what it keeps is not
    assert hashes(out) == made
    (tmp_path / "old.csv").write_text(
        "key,split\n" + "".join(f"{k},{s}\n" for k, s in before.items())
    )
    table = replace(raw, options=(*raw.options, "--splits_from", str(tmp_path / "old.csv")))
    assert cli(*table.command(tmp_path / "of_a_table")).code == 0
    assert splits_of(tmp_path / "of_a_table") == after


@pytest.mark.parametrize("group_by", everyday(["patient"], ["path"]))
def test_folds_are_attributes_and_stay_when_a_data_set_grows(
    cli: Cli, tmp_path: Path, group_by: str
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    raw.mkdir()
    rows = [
        {"path": f"{at}.png", "label": "ab"[at % 2], "patient": f"p{at // 3}"} for at in range(60)
    ]
    for at in range(60):
        Image.new("L", (8, 8), at).save(raw / f"{at}.png")
    write_listing(raw / "list.csv", rows[:42])
    command = (
        *("folder", "--raw", raw, "--out", out, "--listing", "list.csv", "--workers", 1),
        *("--group_by", group_by, "--folds", 3, "--fractions", "train=0.5,test=0.5"),
    )
    result = cli(*command)
    assert result.code == 0, result
    found = folds_in(out)
    write_listing(raw / "list.csv", rows)
    assert "--folds 3, now 4" in cli(*command[:-3], 4, *command[-2:], "--append").error
    result = cli(*command, "--append")
    assert result.code == 0, result
    grown = folds_in(out)
    assert found.items() < grown.items()
    for split in ("train", "test"):
        sizes = Counter(fold for where, fold in grown.values() if where == split)
        assert sizes.keys() == {0, 1, 2}
        assert max(sizes.values()) - min(sizes.values()) <= 3
    if group_by == "patient":
        groups = {(f"p{int(key[:-4]) // 3}", place) for key, place in grown.items()}
        assert len(groups) == 20


def folds_in(out: Path) -> dict[str, tuple[str, int | str]]:
    splits = splits_of(out)
    return {it.key: (splits[it.key], it.fields["fold"]) for it in examples_of(out)}


def test_nothing_moves_without_a_word(cli: Cli, folders: Made, tmp_path: Path) -> None:
    raw, out = folders.raw.copy(tmp_path / "raw"), tmp_path / "out"
    folders.copy(out)
    (raw.path / "airfield").rename(raw.path / "zone")  # so bar and cañon are 0 and 1 now
    result = cli(*raw.command(out))
    assert result.code == 1
    said = "16 images another class number (bar/"
    assert said in result.out
    assert "--classes FILE with the classes in their old order, --splits_from" in result.out
    assert hashes(out) == folders.files
    other = replace(raw, options=(*raw.options, "--split_seed", "5"))
    result = cli(*other.command(out, "--overwrite"))
    assert result.code == 0
    assert said not in result.out  # less, as some moved
    assert "images another split (" in result.out
    assert "another class number" not in cli(*other.command(out, "--overwrite")).out


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("key,split\nbar/1.jpg,dev\n", "--fractions has no such split"),
        ("key,split\nbar/1.jpg,test\nbar/1.jpg,train\n", "bar/1.jpg is in test and train of what"),
        ("name,split\nbar/1.jpg,test\n", "its columns are name, split"),
        ("key,split,group\nx/1.jpg,test,0\n", "its first is x/1.jpg, here airfield/"),
    ],
)
def test_assignments_that_cannot_be_kept_are_refused(
    cli: Cli, folders: Made, tmp_path: Path, table: str, said: str
) -> None:
    (tmp_path / "old.csv").write_text(table)
    result = cli(*folders.raw.command(tmp_path / "out", "--splits_from", str(tmp_path / "old.csv")))
    assert result.code == 2
    assert said in result.error


def test_links_that_lead_nowhere_and_images_without_a_class_count_for_max_bad(
    cli: Cli, tmp_path: Path
) -> None:
    raw, out = tmp_path / "raw", tmp_path / "out"
    for path in ("train/a/1.png", "train/a/2.png", "val/a/3.png", "stray.png", "test/4.png"):
        (raw / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8)).save(raw / path)
    (raw / "train/a/gone.png").symlink_to("nowhere")
    command = ("folder", "--raw", raw, "--out", out, "--workers", 1)
    result = cli(*command)
    assert result.code == 3
    assert "images outside a class folder: test/4.png; expected" in result.out
    assert "1 image listed but not there: train/a/gone.png\n" in result.out
    assert "2 images there but not listed: test/4.png, stray.png\n" in result.out
    assert result.error.endswith("run the same command with --max_bad 3, without --overwrite")
    assert cli(*command, "--max_bad", 2, "--splits", "train,validation").code == 0
    assert cli(*command, "--max_bad", 3, "--overwrite").code == 0
    totals = manifest_of(out)["totals"]
    assert (totals["records"], totals["missing"], totals["unlisted"]) == (3, 1, 2)
    assert manifest_of(out)["splits"].keys() == {"train", "validation"}
    Image.new("L", (8, 8)).save(raw / "train/a/nowhere", "PNG")  # where the link leads
    assert "with --max_bad 2, without" in cli(*command, "--overwrite").error


def test_texts_of_any_length_are_attributes(cli: Cli, folders: Made, tmp_path: Path) -> None:
    letters = random.Random(0)
    with (tmp_path / "list.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "report"])
        for path in sorted(folders.raw.path.rglob("*.jpg"))[:6]:
            report = "".join(letters.choices("aeinorst ", k=120_000))
            rows.writerow([path.relative_to(folders.raw.path), path.parent.name, report])
    out = tmp_path / "out"
    words = ("--listing", tmp_path / "list.csv", "--attribute_columns", "report", "--max_bad", 99)
    made = ("folder", "--raw", folders.raw.path, "--out", out, "--num_shards", 1, *words)
    assert cli(*made).code == 0
    assert cli("verify", out, "--level", "records").code == 0
    assert cli("lint", out).code == 0
