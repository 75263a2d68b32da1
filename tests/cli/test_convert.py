"""``dataprep convert``: nothing is lost on the way, everything is said, and wrong usage refused."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dataprep
from tests.conftest import (
    ENCODED,
    FORMATS,
    PIXELS,
    UNSIZED,
    Cli,
    Made,
    Raw,
    Shelf,
    everyday,
    hashes,
    leftovers,
    rows_of,
)
from tests.finished_sets import flip
from tests.finished_sets import manifest_of as manifest
from tests.steering import shards

COUNTS = ("--num_shards", "train=6,validation=2")


def contents(out: Path, split: str) -> list[tuple[object, ...]]:
    return [
        (it.key, it.labels, it.format, it.height, it.width, it.encoded)
        for it in dataprep.open(out, split)
    ]


def convert(cli: Cli, source: Path, out: Path, *words: object) -> None:
    result = cli("convert", source, "--to", out, "--workers", 1, *words)
    assert result.code == 0, result
    assert leftovers(out) == []


# Writers and readers are tried by tests/formats/test_testing.py, of every format.
@pytest.mark.parametrize("name", everyday(["webdataset"], ENCODED[1:]))
def test_there_and_back_again_is_the_same_file(
    cli: Cli, tiny: Made, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    convert(cli, tiny.out, there, *FORMATS[name], *COUNTS)
    assert shards(hashes(there)) == shards(shelf(name, *COUNTS).files)
    convert(cli, there, back, "--sink", "tfrecord", "--overwrite")
    assert shards(hashes(back)) == shards(tiny.files)
    first, second, third = map(manifest, (tiny.out, there, back))
    assert "lineage" not in first
    assert [it["manifest_sha256"] for it in second["lineage"]] == [first["sha256"]]
    assert [it["manifest_sha256"] for it in third["lineage"]] == [
        second["sha256"],
        first["sha256"],
    ]
    assert [it["sink"]["name"] for it in third["lineage"]] == [FORMATS[name][1], "tfrecord"]
    for key in ("seed", "shuffle", "image", "input", "classes", "dataset"):
        assert first[key] == second[key] == third[key]


@pytest.mark.parametrize("name", everyday(["hdf5-arrays"], PIXELS))
def test_pixels_come_back_as_png_and_as_the_same_pixels(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    pixels = shelf(name).out
    convert(cli, pixels, tmp_path / "images", "--sink", "webdataset")
    assert {it.format for it in dataprep.open(tmp_path / "images", "train")} == {"PNG"}
    convert(cli, tmp_path / "images", tmp_path / "again", *UNSIZED[name])
    assert contents(tmp_path / "again", "train") == contents(pixels, "train")
    for a, b in (("images", "again"), (pixels, "images")):
        result = cli("diff", tmp_path / a, tmp_path / b, "--workers", 1)
        assert result.code == 0, result
        assert "fields and pixels" in result.out


def test_other_shard_counts_keep_the_order(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    convert(cli, tiny.out, tmp_path, "--sink", "recordio", "--num_shards", "train=5,validation=6")
    for split in ("train", "validation"):
        assert contents(tmp_path, split) == contents(tiny.out, split)
        sizes = manifest(tmp_path)["splits"][split]["records_per_shard"]
        assert max(sizes) - min(sizes) <= 1
    result = cli("verify", tmp_path, "--level", "decode")
    assert result.code == 0, result


def test_what_is_known_of_bad_images_is_carried_over(cli: Cli, spoilt: Raw, tmp_path: Path) -> None:
    out = tmp_path / "out"
    stats = ("--stats", "on")
    assert cli(*spoilt.command(out, "--max_bad", 4, *stats)).code == 0
    convert(cli, out, tmp_path / "new", "--sink", "lmdb")
    before, after = manifest(out)["splits"], manifest(tmp_path / "new")["splits"]
    for split in before:
        for what in ("rejected", "repaired", "statistics", "images_found", "records"):
            assert after[split][what] == before[split][what], what
        assert after[split]["statistics"]["images"] == after[split]["records"]
    assert manifest(tmp_path / "new")["totals"] == manifest(out)["totals"]
    assert [row["shard"] for row in rows_of(tmp_path / "new", "rejected")] == [None] * 4
    anywhere = {"shard": None, "position": None}  # which are others now
    known = [{**row, **anywhere} for row in rows_of(out)]
    assert [{**row, **anywhere} for row in rows_of(tmp_path / "new")] == known
    assert len(rows_of(out, "repaired")) > 0
    assert cli("verify", tmp_path / "new", "--level", "records").code == 0


def test_boxes_survive_are_cut_with_their_images_or_their_loss_is_said(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    csv, out = tmp_path / "boxes.csv", tmp_path / "out"
    names = sorted(path.name for path in (tiny.raw.path / "train").glob("*/*.JPEG"))
    csv.write_text("".join(f"{name},0.0,0.25,0.5,0.75\n" for name in names[::2]))
    assert cli(*tiny.command(out, "--bbox_csv", csv)).code == 0
    boxes = [it.fields.get("boxes") for it in dataprep.open(out, "train")]
    assert sum(map(bool, boxes)) == len(names[::2])
    convert(cli, out, tmp_path / "same", "--sink", "webdataset")
    assert [it.fields.get("boxes") for it in dataprep.open(tmp_path / "same", "train")] == boxes
    convert(cli, out, tmp_path / "cut", "--sink", "parquet", "--center_crop", 8)
    cut = [it.fields.get("boxes") for it in dataprep.open(tmp_path / "cut", "train")]
    assert [*map(bool, cut)] == [*map(bool, boxes)]
    assert {*filter(None, cut)} == {((0.0, 0.0, 0.5, 1.0),)}
    result = cli("convert", out, "--to", tmp_path / "rec", "--sink", "recordio")
    assert result.code == 0
    assert "sink recordio has no place for boxes: left out" in result.out


# --- resuming, and whose directory it is ---


def test_only_missing_shards_are_made_anew_and_no_others_without_overwrite(
    cli: Cli, tiny: Made, shelf: Shelf, tmp_path: Path
) -> None:
    words = ("convert", tiny.out, "--to", tmp_path, "--sink")
    convert(cli, tiny.out, tmp_path, "--sink", "webdataset")
    whole = hashes(tmp_path)
    kept = tmp_path / "train" / "train-00003-of-00006.tar"
    before = kept.stat().st_mtime_ns
    (tmp_path / "train" / "train-00002-of-00006.tar").unlink()
    assert "resuming: 7 shards already there, 1 to make" in cli(*words, "webdataset").out
    assert hashes(tmp_path) == whole
    assert kept.stat().st_mtime_ns == before
    result = cli(*words, "recordio")
    assert result.code == 1
    assert "was made with --sink webdataset, now recordio" in result.error
    assert hashes(tmp_path) == whole
    assert cli(*words, "recordio", "--overwrite", *COUNTS).code == 0
    assert shards(hashes(tmp_path)) == shards(shelf("recordio", *COUNTS).files)


# --- images made anew ---


def test_images_are_resized_as_from_the_raw_data_of_which_they_are_copies(
    cli: Cli, photos: Made, tmp_path: Path
) -> None:
    """The photographs pass byte for byte into the source, so both ways decode the same files."""
    recipe = ("--resize", 64, "--center_crop", 48, "--quality", 80)
    words = ("convert", photos.out, "--to", tmp_path / "new", "--sink", "webdataset", *recipe)
    result = cli(*words, "--workers", 1)
    assert result.code == 0, result
    assert result.out.count("decoded and encoded again, which loses a little") == 1
    raw = cli(*photos.command(tmp_path / "raw", *recipe, "--sink", "webdataset"))
    assert raw.code == 0, raw
    repaired = {row["key"] for row in rows_of(tmp_path / "raw", "repaired")}
    expected = {it.key: it.encoded for it in dataprep.open(tmp_path / "raw", "train")}
    found = {it.key: it.encoded for it in dataprep.open(tmp_path / "new", "train")}
    same = {key for key in expected if expected[key] == found[key]}
    assert found.keys() == expected.keys()
    assert expected.keys() - same <= repaired
    made = manifest(tmp_path / "new")
    assert (made["image"]["options"]["resize"], made["image"]["options"]["quality"]) == ("64", "80")
    assert made["lineage"][0]["image"] == manifest(photos.out)["image"]
    assert made["examples"]["size"] == [48, 48]
    rows = rows_of(tmp_path / "new", "stored", "repaired", "warned")
    assert {(row["height"], row["width"], row["format"]) for row in rows} == {(48, 48, "JPEG")}
    for level in ("records", "decode"):
        assert cli("verify", tmp_path / "new", "--level", level).code == 0, level
    assert "another image" in cli("diff", photos.out, tmp_path / "new").out
    assert cli("diff", tmp_path / "new", tmp_path / "new").code == 0
    before = hashes(tmp_path / "new")
    assert "nothing to write" in cli(*words).out
    assert hashes(tmp_path / "new") == before
    other = cli(*words[:-1], 70)
    assert other.code == 1
    assert "was made with --quality 80, now 70;" in other.error
    plain = cli(*words[:6])
    assert plain.code == 1
    assert "--resize 64, now none" in plain.error


@pytest.mark.parametrize(
    ("source", "sink", "recipe", "form", "channels"),
    [
        ("tfrecord", "recordio", ("--quality", 60, "--color", "gray"), "JPEG", 1),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)  # as pixels come back from PNG above
            for case in (
                ("hdf5-arrays", "hdf5-arrays", ("--resize", "12x10", "--color", "gray"), "RAW", 1),
                ("tfrecord", "webdataset", ("--encoding", "png"), "PNG", 3),
                ("tfrecord", "hdf5-arrays", ("--resize", "12x10"), "RAW", 3),
                ("hdf5-arrays", "webdataset", ("--center_crop", 10), "PNG", 3),
            )
        ),
    ],
)
def test_a_recipe_fits_every_form(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    source: str,
    sink: str,
    recipe: Any,
    form: str,
    channels: int,
) -> None:
    made = shelf(source)
    convert(cli, made.out, tmp_path, "--sink", sink, *recipe)
    rows = rows_of(tmp_path)
    assert {(row["format"], row["channels"]) for row in rows} == {(form, channels)}
    assert [row["key"] for row in rows] == [row["key"] for row in rows_of(made.out)]
    assert cli("verify", tmp_path, "--level", "decode").code == 0


def test_16_bits_stay_and_statistics_are_taken_anew(
    cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    words = radiographs.command(tmp_path / "deep", "--depth", "keep", "--stats", "on")
    assert cli(*words).code == 0
    made = ("--to", tmp_path / "new", "--sink", "webdataset", "--resize", "20x16")
    result = cli("convert", tmp_path / "deep", *made)
    assert result.code == 0, result
    assert "JPEG" not in result.out  # there are none to lose anything
    splits = ("train", "validation", "test")
    pictures = [it.image() for split in splits for it in dataprep.open(tmp_path / "new", split)]
    assert {picture.size for picture in pictures} == {(20, 16)}
    assert any(picture.mode.startswith("I") for picture in pictures)
    statistics = manifest(tmp_path / "new")["splits"]["train"]["statistics"]
    assert (statistics["width"]["mean"], statistics["height"]["mean"]) == (20, 16)


@pytest.mark.thorough
def test_16_bits_stay_beside_8_whichever_come_first(
    cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    deep, flat = tmp_path / "deep", radiographs.out
    assert cli(*radiographs.command(deep, "--depth", "keep")).code == 0
    for number, named in enumerate(([f"a={deep}", f"b={flat}"], [f"b={flat}", f"a={deep}"])):
        joined = tmp_path / f"joined-{number}"
        chosen = ("select", *named, "--splits", "test", "--sample", "80%")
        assert cli(*chosen, "--to", joined, "--resize", "16").code == 0
        assert manifest(joined)["image"]["options"]["depth"] == "keep"
        modes = {it.image().mode for it in dataprep.open(joined, "test")}
        assert modes == {"I;16", "L"}
        assert cli(*chosen, "--to", tmp_path / f"kept-{number}").code == 0
        assert manifest(tmp_path / f"kept-{number}")["image"]["options"]["depth"] == "keep"


def test_an_image_too_small_for_the_crop_stops_the_conversion(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    words = ("--sink", "webdataset", "--center_crop", 17)
    result = cli("convert", tiny.out, "--to", tmp_path / "out", *words)
    assert result.code == 1
    assert ".JPEG cannot be converted: " in result.error
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.thorough
def test_a_resize_that_is_killed_is_resumed_to_the_same_bytes(
    cli: Cli, photos: Made, tmp_path: Path
) -> None:
    words = ("--sink", "webdataset", "--resize", 200, "--workers", 1)
    convert(cli, photos.out, tmp_path / "whole", *words)
    for finished in range(3):
        process = cli.start("convert", photos.out, "--to", tmp_path / "out", *words)
        commits = tmp_path / "out" / ".dataprep" / "commits"
        while process.poll() is None and len([*commits.glob("[!.]*.json")]) <= finished:
            time.sleep(0.002)
        process.kill()
        cli.done(process)
        assert process.returncode == -signal.SIGKILL
    convert(cli, photos.out, tmp_path / "out", *words)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "whole")


# --- what is refused ---


@pytest.mark.parametrize("name", ["tfrecord", "lmdb"])
def test_a_damaged_set_is_refused_naming_the_file(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    source = shelf(name).copy(tmp_path / "source")
    victim = next(path for path in sorted(shelf(name).files) if "train" in path)
    flip(source / victim)
    to = "tfrecord" if name != "tfrecord" else "lmdb"
    result = cli("convert", source, "--to", tmp_path / "out", "--sink", to)
    assert result.code == 1
    assert f"{source} is damaged: {victim}: " in result.error
    assert "nothing was converted" in result.error
    assert not (tmp_path / "out").exists()


def refusals(tiny: Made, tmp_path: Path) -> Iterator[tuple[tuple[object, ...], int, str]]:
    new = tmp_path / "new"
    (tmp_path / "file").write_text("mine")
    to = ("--to", new)
    yield (tiny.out, *to), 2, "Missing option '--sink'"
    yield (tmp_path, *to, "--sink", "lmdb"), 1, "no manifest.json here, so not a finished data set"
    yield (tiny.out, "--to", tiny.out, "--sink", "lmdb"), 2, "what is to be converted"
    link = tmp_path / "link"
    link.symlink_to(tiny.out)
    yield (tiny.out, "--to", link, "--sink", "lmdb"), 2, "what is to be converted"
    yield (tiny.out, "--to", tmp_path / "file", "--sink", "lmdb"), 2, "is a file"
    pixels = ("--sink_option", "datum=raw")
    yield (tiny.out, *to, "--sink", "lmdb", *pixels), 2, "--resize WIDTHxHEIGHT"
    counts = ("--num_shards", "test=3")
    yield (tiny.out, *to, "--sink", "lmdb", *counts), 2, "the splits are train, validation"
    counts = ("--num_shards", "train=25")
    yield (tiny.out, *to, "--sink", "lmdb", *counts), 2, "train has 24 images; expected 1 to 24"


def test_what_cannot_be_is_refused_in_one_line(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    for words, code, message in refusals(tiny, tmp_path):
        result = cli("convert", *words)
        assert message in result.error, (words, result.error)
        assert result.code == code, (words, result.error)
        assert hashes(tmp_path / "new") == {}, words
    assert hashes(tiny.out) == tiny.files
    assert (tmp_path / "file").read_text() == "mine"
