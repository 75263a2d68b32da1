"""``dataprep compact``: a data set that grew becomes the one that is made at once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import dataprep
from dataprep.errors import SinkError
from tests.cli.test_append import CUT as CUT_OF_EACH
from tests.cli.test_append import picture
from tests.conftest import (
    FORMATS,
    Cli,
    Made,
    Raw,
    hashes,
    leftovers,
    make,
    nightly,
    rows_of,
    write_radiographs,
)
from tests.finished_sets import flip, labels_of, manifest_of

# What grows is cut as what is made at once only where every image is cut by itself.
CUT = (*CUT_OF_EACH, "--no_stratify")
WHOLE = ("hdf5-caffe",)  # has files of a whole split
GROWING = [name for name in FORMATS if name not in WHOLE]
OFTEN = ("tfrecord", "hdf5", "webdataset")


def grow(cli: Cli, made: Made, *more: object, times: int = 2) -> None:
    """Three images of every class and a PNG, and then again."""
    for time in range(times):
        for number in range(3):
            for name in ("airfield", "bar", "cañon"):
                picture(made.raw.path / name / f"n{time}-{number}.jpg", 40 * time + 7 * number)
        shutil.copy(made.raw.path / "bar" / "5.png", made.raw.path / "bar" / f"n{time}.png")
        result = cli(*made.command(made.out, "--append", *more))
        assert result.code == 0, result


def at_once(cli: Cli, made: Made, out: Path, *more: object) -> dict[str, str]:
    """The bytes of the same images, prepared into as many shards as a compacted set has."""
    splits = manifest_of(made.out)["splits"]
    counts = ",".join(f"{name}={len(split['shards'])}" for name, split in splits.items())
    result = cli(*made.command(out, "--num_shards", counts, *more))
    assert result.code == 0, result
    return hashes(out)


@pytest.fixture(scope="module")
def grown_once(folders: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The class folders in 3 shards of a split, to which was added twice."""
    path = tmp_path_factory.mktemp("grown")
    raw = replace(folders.raw.copy(path / "raw"), options=CUT)
    made = make(raw, path / "out", "--num_shards", "3")
    grow(Cli(), made)
    return made


@pytest.fixture
def grown(grown_once: Made, tmp_path: Path) -> Made:
    """The same for a test that changes it."""
    raw, out = grown_once.raw.copy(tmp_path / "raw"), grown_once.copy(tmp_path / "out")
    return replace(grown_once, raw=raw, out=out)


# --- what comes out ---


@pytest.mark.thorough
@pytest.mark.parametrize("sink", [*OFTEN, *nightly(*(it for it in GROWING if it not in OFTEN))])
def test_a_compacted_set_is_the_one_made_at_once(
    cli: Cli, folders: Made, tmp_path: Path, sink: str
) -> None:
    """To the last byte, manifest and table of records included; below it is tried every day."""
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=(*CUT, *FORMATS[sink]))
    made = make(raw, tmp_path / "out", "--num_shards", "3")
    before = manifest_of(made.out)["splits"]
    grow(cli, made)
    images = {
        name: split["images_found"] for name, split in manifest_of(made.out)["splits"].items()
    }
    result = cli("compact", made.out, "--workers", "1")
    assert result.code == 0, result
    assert hashes(made.out) == at_once(cli, made, tmp_path / "once")
    for name, split in manifest_of(made.out)["splits"].items():
        most = before[name]["records_per_shard"][1]
        assert len(split["shards"]) == -(-images[name] // most)
        assert split["records_per_shard"][1] <= most
        assert split["records_per_shard"][1] - split["records_per_shard"][0] <= 1
    assert leftovers(made.out) == []
    assert not (made.out / ".dataprep" / "append").exists()


@pytest.mark.thorough
def test_so_is_one_of_radiographs_of_which_some_are_rejected(cli: Cli, tmp_path: Path) -> None:
    """Several labels each, boxes, columns of their own; some missing, not listed, or left out."""
    raw = Raw(tmp_path / "raw", (), "chestxray14")
    write_radiographs(raw.path, defects=True, layout="folders")
    images = sorted(raw.path.rglob("*.png"))
    excluded = tmp_path / "exclude.csv"
    excluded.write_text(f"split,key\ntrain,{images[0].name}\ntest,{images[-1].name}\n")
    options = ("--validation_fraction", "0.3", "--max_bad", "90%", "--exclude", str(excluded))
    raw = replace(raw, options=(*options, "--workers", "1"))
    places = {path: shutil.move(path, tmp_path / path.name) for path in images[5:80:4]}
    made = make(raw, tmp_path / "out", "--num_shards", "train=3,validation=2,test=1")
    for path, place in places.items():
        shutil.move(place, path)
    assert cli(*raw.command(made.out, "--append")).code == 0
    result = cli("compact", made.out)
    assert result.code == 0, result
    assert {row["status"] for row in rows_of(made.out)} > {"excluded", "missing", "rejected"}
    assert hashes(made.out) == at_once(cli, made, tmp_path / "once")


def test_the_bytes_are_those_of_a_set_made_at_once_for_any_number_of_workers(
    cli: Cli, grown: Made, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(grown.out, other)
    shutil.rmtree(other / ".dataprep")  # which may be deleted once a data set is sealed
    assert cli("compact", grown.out, "--workers", "1").code == 0
    assert dataprep.compact(other, workers=3).records == manifest_of(other)["totals"]["records"]
    assert hashes(other) == hashes(grown.out) == at_once(cli, grown, tmp_path / "once")
    assert leftovers(grown.out) == []
    assert not (grown.out / ".dataprep" / "append").exists()


def test_classes_that_came_later_stay_behind_the_others(cli: Cli, grown: Made) -> None:
    for number in range(5):
        picture(grown.raw.path / "aaa" / f"{number}.jpg", number)
    assert cli(*grown.command(grown.out, "--append")).code == 0
    labels, rows = labels_of(grown.out), rows_of(grown.out)
    assert cli("compact", grown.out).code == 0
    assert labels_of(grown.out) == labels
    assert len(rows_of(grown.out)) == len(rows)
    assert cli("verify", grown.out, "--level", "decode").code == 0
    for split in manifest_of(grown.out)["splits"].values():
        low, high = split["records_per_shard"]
        assert high - low <= 1
    assert manifest_of(grown.out)["splits"]["train"]["class_spread"] == 1


@pytest.mark.thorough  # each alone is tried every day
def test_a_compacted_set_grows_and_is_compacted_again(
    cli: Cli, grown: Made, tmp_path: Path
) -> None:
    assert cli("compact", grown.out).code == 0
    sizes = {name: len(split["shards"]) for name, split in manifest_of(grown.out)["splits"].items()}
    assert "nothing to add" in cli(*grown.command(grown.out, "--append")).out
    for number in range(9):
        picture(grown.raw.path / "bar" / f"later{number}.jpg", 100 + number)
    assert cli(*grown.command(grown.out, "--append")).code == 0
    first, second = manifest_of(grown.out)["generations"]
    assert {name: split["shards"] for name, split in first["splits"].items()} == sizes
    assert sum(split["records"] for split in second["splits"].values()) == 9
    assert cli("compact", grown.out).code == 0
    assert hashes(grown.out) == at_once(cli, grown, tmp_path / "once")


# --- what is left alone, and what is refused ---


def test_what_is_one_generation_is_left_alone(cli: Cli, grown: Made) -> None:
    assert cli("compact", grown.out).code == 0
    files = hashes(grown.out)
    assert "grew by --append" in cli(*grown.command(grown.out)).error
    assert cli("status", grown.out).out.startswith(f"{grown.out}: sealed\n")
    nothing = f"{grown.out}: nothing to compact, since nothing was added with --append\n"
    shutil.rmtree(grown.out / ".dataprep")
    result = cli("compact", grown.out)
    assert (result.code, result.out) == (0, nothing)
    assert hashes(grown.out) == files
    assert not (grown.out / ".dataprep").exists()


def test_where_there_is_no_data_set_nothing_is_made(cli: Cli, tmp_path: Path) -> None:
    assert (
        "does not exist; name the directory of a data set"
        in cli("compact", tmp_path / "nothing").error
    )
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_set_is_not_compacted(cli: Cli, grown: Made) -> None:
    shard = sorted((grown.out / "train").iterdir())[1]
    flip(shard, 100)
    files = hashes(grown.out)
    error = cli("compact", grown.out).error
    assert f"train/{shard.name}: its SHA-256 is not the manifest's" in error
    assert "nothing was compacted" in error
    assert hashes(grown.out) == files


@pytest.mark.thorough
def test_what_is_copied_is_what_the_table_says(cli: Cli, folders: Made, tmp_path: Path) -> None:
    """Where the shards are taken for whole, and their format has no checksums."""
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=(*CUT, "--sink", "webdataset"))
    made = make(raw, tmp_path / "out", "--num_shards", "3")
    grow(cli, made, times=1)
    shard = sorted((made.out / "train").iterdir())[1]
    flip(shard, shard.read_bytes().index(b"\xff\xd8") + 99)
    files = hashes(made.out)
    with pytest.raises(SinkError, match=r"is not what records.parquet has there"):
        dataprep.compact(made.out, verify="size", workers=1)
    assert hashes(made.out) == files


def test_a_staged_copy_is_replaced(cli: Cli, grown: Made, tmp_path: Path) -> None:
    """Whose shards have the names of others, too."""
    stage = ("stage", grown.out, "--to", tmp_path / "copy")
    assert cli(*stage).code == 0
    assert cli("compact", grown.out).code == 0
    assert cli(*stage).code == 0
    assert hashes(tmp_path / "copy").items() >= hashes(grown.out).items()
    assert cli("verify", tmp_path / "copy").code == 0


def test_parts_and_conversions_are_refused(cli: Cli, grown: Made, tmp_path: Path) -> None:
    part, converted = tmp_path / "part", tmp_path / "converted"
    assert cli("stage", grown.out, "--to", part, "--split", "train").code == 0
    assert "only a whole one can be compacted" in cli("compact", part).error
    assert cli("convert", grown.out, "--to", converted, "--sink", "webdataset").code == 0
    assert "compact what it was made from" in cli("compact", converted).error
