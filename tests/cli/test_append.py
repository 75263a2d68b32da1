"""``--append``: what is new gets shards of its own, and the rest stays as it was."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from dataprep.sealed.verify import verify
from dataprep.synthesize.imagenet import synthesize_imagenet
from tests.conftest import (
    Cli,
    Made,
    Raw,
    everyday,
    hashes,
    leftovers,
    make,
    rows_of,
    write_radiographs,
)
from tests.finished_sets import labels_of, manifest_of, shards_of

CUT = ("--fractions", "train=0.7,test=0.3", "--workers", "1")


def picture(path: Path, shade: int, size: int = 16) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)  # what is rewritten in place does not change its folder's time
    Image.new("RGB", (size, size), (shade, 99, 40)).save(path, "JPEG")


def written_to(out: Path) -> dict[str, int]:
    """The inode of every shard."""
    return {digest: (out / name).stat().st_ino for name, digest in shards_of(out).items()}


def _grown(folders: Made, place: Path) -> Made:
    raw = replace(folders.raw.copy(place / "raw"), options=CUT)
    for number in range(12):
        picture(raw.path / "bar" / f"new{number}.jpg", number)
    return Made(raw, folders.copy(place / "out"), folders.files)


@pytest.fixture
def grown(folders: Made, tmp_path: Path) -> Made:
    """The class folders and their data set, to which 12 images were added; not yet appended."""
    return _grown(folders, tmp_path)


@pytest.fixture(scope="module")
def unwilling(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The same, once, for what is refused: it stays as it is."""
    return _grown(folders, tmp_path_factory.mktemp("unwilling"))


# --- what comes out ---


def test_new_images_get_shards_of_their_own_and_the_old_ones_new_names(
    cli: Cli, folders: Made, grown: Made, tmp_path: Path
) -> None:
    """And the set holds what one that is made at once holds."""
    out, before = grown.out, manifest_of(grown.out)
    inodes = written_to(out)
    rows = {(row["split"], row["key"]): row for row in rows_of(out)}
    result = cli(*grown.command(out, "--append"))
    assert result.code == 0, result
    after = manifest_of(out)
    assert inodes.items() <= written_to(out).items()  # the same files, not copies
    for split, was in before["splits"].items():
        now = after["splits"][split]
        old = len(was["shards"])
        count = len(now["shards"])
        assert count > old
        kept = [[file["sha256"] for file in shard["files"]] for shard in was["shards"]]
        found = [[file["sha256"] for file in shard["files"]] for shard in now["shards"]]
        assert found[:old] == kept
        assert max(now["records_per_shard"]) <= max(was["records_per_shard"])
        for number, shard in enumerate(now["shards"]):
            assert shard["files"][0]["path"] == f"{split}/{split}-{number:05d}-of-{count:05d}"
    assert {(row["split"], row["key"]): row for row in rows_of(out)}.items() >= rows.items()
    assert after["totals"]["records"] == 36
    assert [
        sum(split["records"] for split in each["splits"].values()) for each in after["generations"]
    ] == [24, 12]
    assert after["generations"][0]["input"] == before["input"]
    assert leftovers(out) == []
    assert verify(out, "decode", threads=1).problems == ()
    assert cli(*grown.command(tmp_path / "once", "--splits_from", folders.out)).code == 0
    result = cli("diff", out, tmp_path / "once")
    assert result.code == 0, result
    once = manifest_of(tmp_path / "once")
    assert (after["input"], after["totals"]) == (once["input"], once["totals"])


@pytest.mark.thorough  # every day tests/golden and test_compact see the bytes of what grew
def test_the_bytes_depend_on_nothing_but_what_was_added_when(
    cli: Cli, grown: Made, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(grown.out, other)
    shutil.rmtree(other / ".dataprep")  # which may be deleted once a data set is sealed
    workers = ("--append", "--workers", "3")
    for first in (True, False):
        assert cli(*grown.command(grown.out, "--append")).code == 0
        assert cli(*grown.command(other, *workers)).code == 0
        assert hashes(other) == hashes(grown.out), first
        for number in range(5):
            picture(grown.raw.path / "airfield" / f"later{number}.jpg", 100 + number)
    assert len(manifest_of(other)["generations"]) == 3


@pytest.mark.thorough  # inodes above tell that old shards stay
def test_one_percent_more_images_write_little_more_than_one_percent(
    cli: Cli, tmp_path: Path
) -> None:
    """Of files that photographs have; what is written and renamed away again does not count."""
    raw, out = Raw(tmp_path / "raw", ("--workers", "1"), "folder"), tmp_path / "out"
    photo = tmp_path / "photo.jpg"
    Image.effect_noise((400, 300), 60).convert("RGB").save(photo, quality=92)
    for number in range(200):
        folder = raw.path / f"class{number % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, folder / f"{number}.jpg")
    made = make(replace(raw, options=("--num_shards", "8", *raw.options)), out)
    size = sum((out / name).stat().st_size for name in made.files)
    before = {path.stat().st_ino for path in out.rglob("*")}
    for number in range(2):
        shutil.copy(photo, raw.path / f"class{number}" / f"new{number}.jpg")
    assert cli(*raw.command(out, "--append")).code == 0
    files = [path.stat() for path in out.rglob("*") if path.is_file()]
    written = sum(found.st_size for found in files if found.st_ino not in before)
    assert 0.01 <= written / size <= 0.02


def test_with_nothing_new_nothing_is_written(cli: Cli, folders: Made, tmp_path: Path) -> None:
    out = folders.copy(tmp_path / "out")
    raw = replace(folders.raw, options=CUT)
    times = {path: path.stat().st_mtime_ns for path in out.rglob("*-of-*")}
    result = cli(*raw.command(out, "--append"))
    assert result.code == 0
    assert "has all images already, nothing to add" in result.out
    assert hashes(out) == folders.files
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*-of-*")} == times


def test_new_classes_come_behind_those_that_there_are(cli: Cli, grown: Made) -> None:
    labels = labels_of(grown.out)
    for number in range(6):
        picture(grown.raw.path / "aaa" / f"{number}.jpg", number)
        picture(grown.raw.path / "zoo" / f"{number}.jpg", number)
    result = cli(*grown.command(grown.out, "--append"))
    assert result.code == 0, result
    assert "2 new classes, numbered from 3 on so that no label moves: aaa, zoo" in result.out
    names = [name for name, _ in manifest_of(grown.out)["classes"]]
    assert names == ["airfield", "bar", "cañon", "aaa", "zoo"]
    after = labels_of(grown.out)
    assert labels.items() <= after.items()
    assert {names[label] for key, (label,) in after.items() if key.startswith("aaa")} == {"aaa"}
    assert all(row["classes"] == [names[row["labels"][0]]] for row in rows_of(grown.out))


@pytest.mark.thorough
def test_archives_grow_too(cli: Cli, photos: Made, tmp_path: Path) -> None:
    """ImageNet as it is published: a class archive has more in it than before."""
    raw = tmp_path / "raw"
    synthesize_imagenet(raw, classes=4, images_per_class=8, validation_images=8)
    made = make(Raw(raw, ("--num_shards", "train=5,validation=2")), tmp_path / "out")
    assert made.files == photos.files
    shutil.rmtree(raw)
    synthesize_imagenet(raw, classes=4, images_per_class=11, validation_images=8)
    grown = replace(made.raw, options=())
    result = cli(*grown.command(made.out, "--append"))
    assert result.code == 0, result
    splits = manifest_of(made.out)["splits"].items()
    assert {name: len(split["shards"]) for name, split in splits} == {"train": 7, "validation": 2}
    assert verify(made.out, "decode", threads=1).problems == ()


@pytest.mark.thorough  # as folders do below, and --exclude
def test_radiographs_that_were_missing_are_added_with_all_that_is_known_of_them(
    cli: Cli, tmp_path: Path
) -> None:
    raw = Raw(tmp_path / "raw", ("--validation_fraction", "0.3", "--workers", "1"), "chestxray14")
    write_radiographs(raw.path, layout="folders")
    away = sorted(raw.path.rglob("*.png"))[5:60:11]
    places = {path: shutil.move(path, tmp_path / path.name) for path in away}
    made = make(raw, tmp_path / "out", "--max_bad", len(away))
    for path, place in places.items():
        shutil.move(place, path)
    assert cli(*raw.command(made.out, "--append")).code == 0
    assert cli(*raw.command(tmp_path / "once")).code == 0
    assert cli("diff", made.out, tmp_path / "once").code == 0
    grown, once = manifest_of(made.out), manifest_of(tmp_path / "once")
    for name in ("input", "totals", "unmatched"):
        assert grown[name] == once[name]


def test_rejected_images_are_counted_with_those_of_before(cli: Cli, grown: Made) -> None:
    """And asked about once: the second time they are known."""
    (grown.raw.path / "bar" / "torn.jpg").write_bytes(b"\xff\xd8 no JPEG")
    result = cli(*grown.command(grown.out, "--append"))
    assert result.code == 3, result
    assert "1 of 37 images rejected, --max_bad allows 0" in result.error
    assert hashes(grown.out) == grown.files
    assert "what --append or `dataprep compact` was making" in cli("status", grown.out).out
    assert cli(*grown.command(grown.out, "--append", "--max_bad", 1)).code == 0
    assert [row["key"] for row in rows_of(grown.out, "rejected")] == ["bar/torn.jpg"]
    files = hashes(grown.out)
    again = cli(*grown.command(grown.out, "--append", "--max_bad", 1))
    assert "nothing to add" in again.out
    assert hashes(grown.out) == files
    picture(grown.raw.path / "bar" / "last.jpg", 77)
    error = refused(cli, grown)
    assert "error: 1 image rejected before, --max_bad allows 0; no shard was written; to" in error
    assert cli(*grown.command(grown.out, "--append", "--max_bad", 1)).code == 0
    totals = manifest_of(grown.out)["totals"]
    assert (totals["records"], totals["rejected"]) == (37, 1)
    assert verify(grown.out, "records", threads=1).problems == ()


def test_what_was_begun_is_begun_anew_when_still_more_has_come(cli: Cli, grown: Made) -> None:
    (grown.raw.path / "bar" / "torn.jpg").write_bytes(b"\xff\xd8 no JPEG")
    assert cli(*grown.command(grown.out, "--append")).code == 3
    (grown.raw.path / "bar" / "torn.jpg").unlink()
    picture(grown.raw.path / "bar" / "last.jpg", 77)
    assert cli(*grown.command(grown.out, "--append")).code == 0
    assert manifest_of(grown.out)["totals"]["records"] == 37


# --- what is refused ---


def refused(cli: Cli, made: Made, *options: object) -> str:
    """The error; the data set must be as it was."""
    files = hashes(made.out)
    result = cli(*made.command(made.out, "--append", *options))
    assert result.code != 0, result
    assert hashes(made.out) == files
    return result.error


def test_vanished_and_changed_images_are_named(cli: Cli, grown: Made) -> None:
    (grown.raw.path / "bar" / "1.jpg").rename(grown.raw.path.parent / "kept.jpg")
    (grown.raw.path / "cañon" / "2.jpg").rename(grown.raw.path.parent / "also.jpg")
    error = refused(cli, grown)
    assert ".jpg is not in that split of the raw data any more" in error
    assert ", and 1 other image; --append only adds" in error
    assert "--overwrite" in error
    (grown.raw.path.parent / "also.jpg").rename(grown.raw.path / "cañon" / "2.jpg")
    picture(grown.raw.path / "bar" / "1.jpg", 7, size=400)
    assert "bar/1.jpg has another size or other labels" in refused(cli, grown)


def test_changed_images_are_noticed_where_none_can_be_named(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=(*CUT, "--resize", "8"))
    made = make(raw, tmp_path / "out")
    picture(raw.path / "bar" / "1.jpg", 7, size=400)
    assert f"images of {made.out} have another size" in refused(cli, made)


def test_a_rejected_image_stays_as_it_is_and_a_repaired_one_comes_beside_it(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=(*CUT, "--max_bad", "1"))
    torn = raw.path / "bar" / "torn.jpg"
    torn.write_bytes(b"\xff\xd8 no JPEG")
    made = make(raw, tmp_path / "out")
    torn.rename(tmp_path / "kept.jpg")
    error = refused(cli, made)
    assert "bar/torn.jpg was rejected, and is not in that split of the raw data any more" in error
    assert "only adds: bring back what was there, or use --overwrite" in error
    picture(torn, 7)
    assert "made, perhaps of what was rejected (bar/torn.jpg); --append" in refused(cli, made)
    torn.rename(raw.path / "bar" / "repaired.jpg")
    (tmp_path / "kept.jpg").rename(torn)
    assert cli(*raw.command(made.out, "--append")).code == 0
    assert manifest_of(made.out)["totals"]["records"] == 25


def test_images_that_were_left_out_are_not_let_in_by_accident(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    path = tmp_path / "exclude.csv"
    path.write_text("bar/1.jpg\n")
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=CUT)
    made = make(raw, tmp_path / "out", "--exclude", path)
    picture(raw.path / "bar" / "new.jpg", 3)
    assert "bar/1.jpg was left out by --exclude before" in refused(cli, made)
    path.write_text("bar/1.jpg\nbar/2.jpg\n")
    error = refused(cli, made, "--exclude", path)
    assert "bar/2.jpg is not in that split of the raw data any more, or is left out now;" in error
    path.write_text("bar/1.jpg\nbar/new.jpg\n")
    picture(raw.path / "bar" / "newer.jpg", 4)
    assert cli(*raw.command(made.out, "--append", "--exclude", path)).code == 0
    assert {row["key"] for row in rows_of(made.out, "excluded")} == {"bar/1.jpg", "bar/new.jpg"}
    assert manifest_of(made.out)["totals"]["records"] == 24
    assert "bar/1.jpg was left out by --exclude before and is not now, and 1 other image" in (
        refused(cli, made)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--quality", "80"), "--quality 95, now 80"),
        (("--seed", "3"), "--seed 0, now 3"),
        (("--fractions", "train=0.5,test=0.5"), "--fractions train=70%,test=30%, now"),
        (("--sink", "webdataset"), "--sink tfrecord, now webdataset"),
        (("--layout", "flat"), "--layout split, now flat"),
        (("--limit", "3"), "--limit cannot be used with --append"),
        (("--num_shards", "3"), "--num_shards cannot be used with --append"),
        (("--overwrite",), "--overwrite cannot be used with --append"),
        (("--splits", "train"), "has the splits test, train, now there are train"),
    ],
)
def test_other_options_are_refused(
    cli: Cli, unwilling: Made, options: tuple[str, ...], said: str
) -> None:
    assert said in refused(cli, unwilling, *options)


def test_there_must_be_something_to_add_to(cli: Cli, folders: Made, tmp_path: Path) -> None:
    raw = replace(folders.raw, options=CUT)
    result = cli(*raw.command(tmp_path / "out", "--append"))
    assert "no finished data set to add to; leave out --append" in result.error


def test_where_there_is_no_room_only_more_room_helps(
    cli: Cli, unwilling: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = "dataprep.jobs.running.build_directory.shutil.disk_usage"
    monkeypatch.setattr(usage, lambda path: SimpleNamespace(free=0))
    error = refused(cli, unwilling).rstrip()
    assert error.endswith(" free; free some space: new shards are put beside the old ones")


def test_only_a_whole_data_set_grows(cli: Cli, grown: Made) -> None:
    shard = next((grown.out / "train").iterdir())
    shard.unlink()
    assert f"{shard} is missing or damaged" in refused(cli, grown)


@pytest.mark.parametrize(
    ("options", "said"),
    everyday(
        [(("--sink", "recordio"), "recordio has one file of all of"), (("--stats",), "it has sta")],
        [
            (("--sink", "hdf5-caffe", "--resize", "16x16"), "hdf5-caffe has files of all of"),
            (("--limit", "4"), "it was made with --limit"),
        ],
    ),
)
def test_what_cannot_grow_says_so(
    cli: Cli, folders: Made, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=CUT)
    made = make(raw, tmp_path / "out", *options)
    picture(raw.path / "bar" / "new.jpg", 3)
    ours = () if options[0] in ("--stats", "--limit") else options
    assert said in refused(cli, made, *ours)


def test_attributes_stay_what_they_are(cli: Cli, tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / "raw" / f"{number}.jpg", number)
    listing = tmp_path / "list.csv"
    before = "path,a,age\n" + "".join(f"{at}.jpg,{at % 2},7\n" for at in range(5))
    listing.write_text(before)
    options = ("--listing", str(listing), "--label_columns", "a", "--attribute_columns", "age")
    raw = Raw(tmp_path / "raw", (*options, "--folds", "2", "--workers", "1"), "folder")
    made = make(raw, tmp_path / "out", "--max_bad", "1")
    for cells, said in (
        ("1,unk", "the attribute age (int), now there is age (text); --append"),
        ("-1,9", "the attribute none, now there is uncertain_labels (uncertain); --append"),
    ):
        listing.write_text(f"{before}5.jpg,{cells}\n")
        assert said in refused(cli, made)
    listing.write_text(f"{before}5.jpg,1,8\n")
    assert cli(*raw.command(made.out, "--append")).code == 0


def test_groups_stay_what_they_are(cli: Cli, tmp_path: Path) -> None:
    listing = tmp_path / "list.csv"
    for number in range(4):
        picture(tmp_path / "raw" / f"{number}.jpg", number)
    listing.write_text("path,label,patient\n" + "".join(f"{at}.jpg,a,p{at}\n" for at in range(4)))
    options = ("--listing", str(listing), "--group_by", "patient")
    raw = Raw(tmp_path / "raw", (*CUT[:1], "train=0.5,test=0.5", *options), "folder")
    made = make(raw, tmp_path / "out")
    splits = {row["split"]: row["key"] for row in rows_of(made.out)}
    one, other = splits["train"], splits["test"]
    listing.write_text(listing.read_text().replace(f"p{other[0]}", f"p{one[0]}"))
    error = refused(cli, made)
    assert f"p{one[0]} is in test and train of what is assigned already" in error
    assert "bring them back, or use --overwrite" in error
    assert "--splits_from" not in error


@pytest.mark.parametrize("sink", everyday(["tfrecord"], ["webdataset"]))
def test_several_labels_of_which_some_are_new(cli: Cli, tmp_path: Path, sink: str) -> None:
    """A number for each class is one more then, so that only a format without these grows."""
    rows = [f"{number}.jpg,{label}" for number, label in enumerate(["a|b", "b", "none", "c|a"] * 4)]
    for number in range(20):
        picture(tmp_path / "raw" / f"{number}.jpg", number)
    listing = tmp_path / "list.csv"
    listing.write_text("\n".join(["path,label", *rows]))
    options = ("--listing", str(listing), "--label_separator", "|", "--no_label", "none")
    raw = Raw(tmp_path / "raw", (*options, "--workers", "1", "--sink", sink), "folder")
    made = make(raw, tmp_path / "out", "--num_shards", "2", "--max_bad", "4")
    rows += [f"{number}.jpg,a|new" for number in range(16, 20)]
    listing.write_text("\n".join(["path,label", *rows]))
    if sink == "tfrecord":
        assert "new would be new" in refused(cli, made)
        return
    for command in (raw.command(made.out, "--append"), ["compact", made.out]):
        assert cli(*command).code == 0
        assert verify(made.out, "records", threads=1).problems == ()


def test_a_conversion_does_not_grow(cli: Cli, grown: Made, tmp_path: Path) -> None:
    out = tmp_path / "converted"
    assert cli("convert", grown.out, "--to", out, "--sink", "webdataset").code == 0
    made = replace(grown, out=out)
    assert "it was converted" in refused(cli, made, "--sink", "webdataset")


# The other two are as recordio and hdf5: with sidecars, and with classes in each shard.
@pytest.mark.parametrize("sink", everyday(["recordio", "hdf5"], ["lmdb", "webdataset", "parquet"]))
def test_formats_of_several_files_grow(cli: Cli, folders: Made, tmp_path: Path, sink: str) -> None:
    """Also those whose shards have sidecars, or are directories; not by classes that all have."""
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=(*CUT, "--sink", sink))
    made = make(raw, tmp_path / "out", "--num_shards", "2")
    if sink in ("hdf5", "parquet"):
        for number in range(6):
            picture(raw.path / "zoo" / f"{number}.jpg", number)
        assert f"zoo would be new, and each shard of {sink} has all classes" in refused(cli, made)
        shutil.rmtree(raw.path / "zoo")
    for number in range(8):
        picture(raw.path / "bar" / f"new{number}.jpg", number)
    result = cli(*raw.command(made.out, "--append"))
    assert result.code == 0, result
    assert verify(made.out, "decode", threads=1).problems == ()
    assert len(labels_of(made.out)) == 32
    named = {
        file["path"]
        for split in manifest_of(made.out)["splits"].values()
        for shard in split["shards"]
        for file in shard["files"]
    }
    assert named | {"manifest.json", "records.parquet"} == {*hashes(made.out)}
    assert list(made.out.rglob("*-of-00002*")) == []


# --- afterwards ---


def test_the_command_without_append_leaves_a_grown_set_alone(cli: Cli, grown: Made) -> None:
    assert cli(*grown.command(grown.out, "--append")).code == 0
    files = hashes(grown.out)
    result = cli(*grown.command(grown.out))
    assert "grew by --append" in result.error
    assert hashes(grown.out) == files
    assert cli("status", grown.out).out.startswith(f"{grown.out}: sealed\n")
    next((grown.out / "train").iterdir()).unlink()
    assert "1 shard missing; it grew by --append" in cli("status", grown.out).out
    assert cli(*grown.command(grown.out, "--overwrite")).code == 0
    assert "generations" not in manifest_of(grown.out)
    assert len([*grown.out.glob("train/*")]) == len(
        manifest_of(grown.out)["splits"]["train"]["shards"]
    )
