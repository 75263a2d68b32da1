"""``--dry_run`` and ``inspect RAW``: they tell what a run then makes, and write nothing."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

import dataprep
from dataprep.errors import DatasetError, SourceError, UsageError
from dataprep.jobs.preparing.dry_run import Plan
from dataprep.sealed.set import SealedSet
from tests.conftest import Cli, Made, Raw, everyday, hashes, rows_of
from tests.jobs.markers import claim_of

Seen = dict[Path, tuple[int, int]]


def everything(*places: Path) -> Seen:
    return {
        path: (path.lstat().st_mtime_ns, path.lstat().st_size)
        for place in places
        for path in (place, *place.rglob("*"))
    }


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    place = tmp_path / "scratch"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.mark.parametrize("name", ["tiny", "radiographs", "folders", "photos"])
def test_a_run_makes_what_the_dry_run_told(
    cli: Cli, name: str, scratch: Path, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(name)
    before = everything(made.out, made.raw.path)
    result = cli(*made.command(made.out, "--dry_run", "--json"))
    assert result.code == 0, result
    plan = json.loads(result.out)
    manifest = SealedSet.read(made.out).manifest
    assert plan["splits"].keys() == manifest.splits.keys()
    assert plan["classes"] == [[*names] for names in manifest.classes]
    for split, there in manifest.splits.items():
        told = plan["splits"][split]
        assert told["images"] == manifest.input[split].images
        assert told["bytes"] == manifest.input[split].bytes
        assert told["shards"] == len(there.shards)
        assert told["images_per_shard"] == [*there.records_per_shard]
        numbers = {str(number): key for number, (key, _) in enumerate(manifest.classes)}
        counts = {numbers[number]: count for number, count in there.class_records.items()}
        assert told["class_images"] == counts
    statuses = plan["sample"]["statuses"]
    images = sum(it.images for it in manifest.input.values())
    assert sum(statuses.values()) == plan["sample"]["images"] == images
    assert statuses["repaired"] == manifest.totals.repaired
    assert plan["refused"] == ""
    assert plan["needed"] == pytest.approx(sum(it.bytes for it in manifest.files()), rel=0.3)
    assert plan["free"] > plan["needed"]
    assert everything(made.out, made.raw.path) == before
    assert [*scratch.iterdir()] == []


def test_the_room_for_what_is_converted_is_told_by_the_sample(photos: Made, tmp_path: Path) -> None:
    options: dict[str, Any] = {"raw": photos.raw.path, "out": tmp_path / "out", "resize": 64}
    plan = dataprep.plan("imagenet", **options)
    assert not (tmp_path / "out").exists()
    made = dataprep.prepare("imagenet", **options)
    assert plan.needed == pytest.approx(sum(it.bytes for it in made.manifest.files()), rel=0.1)


def test_out_may_be_held_by_a_run_be_another_set_or_not_be_there(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / ".dataprep" / "lock").write_text(claim_of("node-0815", process=4711))
    before = everything(out)
    words = ("--dry_run", "--overwrite", "--seed", 7, "--index_dir", tmp_path / "index")
    result = cli(*tiny.command(out, *words))
    assert result.code == 0, result
    assert everything(out) == before
    assert not (tmp_path / "index").exists()
    assert cli(*tiny.command(Path("/proc/nothing/can/be/here"), "--dry_run")).code == 0
    inside = cli(*tiny.command(tiny.raw.path / "train" / "out", "--dry_run"))
    assert "is in the raw data" in inside.error


def test_damaged_images_of_the_sample_are_named(cli: Cli, spoilt: Raw, tmp_path: Path) -> None:
    result = cli(*spoilt.command(tmp_path / "out", "--dry_run"))
    assert result.code == 0, result
    assert cli(*spoilt.command(tmp_path / "out", "--max_bad", 9)).code == 0
    rejected = rows_of(tmp_path / "out", "rejected")
    assert len(rejected) == 4
    assert f" {len(rejected)} rejected\n" in result.out
    for row in rejected:
        assert f"  rejected: {row['key']}: {row['reason']}\n" in result.out


def test_what_is_listed_and_not_there_would_end_a_run(
    cli: Cli, tmp_path: Path, folders: Made
) -> None:
    raw = folders.raw.copy(tmp_path / "raw").path
    (raw / "list.csv").write_text("path,label\nbar/0.jpg,1\nbar/1.jpg,2\nbar/gone.jpg,2\n")
    words = ("folder", "--raw", raw, "--out", tmp_path / "out", "--listing", raw / "list.csv")
    told = cli(*words, "--dry_run")
    assert told.code == 0, told
    assert "1 image listed but not there: bar/gone.jpg" in told.out
    assert "a run would end without writing: 1 image missing" in told.out
    assert cli(*words).code == 3
    assert "would end" not in cli(*words, "--dry_run", "--max_bad", 1).out


@pytest.mark.parametrize(
    ("name", "taken"),
    everyday([("folders", "folder")], [("photos", "imagenet"), ("radiographs", "chestxray14")]),
)
def test_inspect_tells_what_raw_data_is(
    cli: Cli, name: str, taken: str, scratch: Path, request: pytest.FixtureRequest
) -> None:
    made: Made = request.getfixturevalue(name)
    before = everything(made.raw.path)
    result = cli("inspect", made.raw.path)
    assert result.out.startswith(f"{made.raw.path}: {taken}, since "), result
    assert result.out.endswith("\nnothing was written\n")
    told = json.loads(cli("inspect", made.raw.path, "--json").out)
    assert told["dataset"] == taken
    assert told["splits"].keys() >= {"train"}
    assert everything(made.raw.path) == before
    assert [*scratch.iterdir()] == []


def test_a_call_gives_the_same_plan(folders: Made) -> None:
    plan = dataprep.inspect(folders.raw.path)
    assert isinstance(plan, Plan)
    assert (plan.dataset, plan.free, [*plan.splits]) == ("folder", None, ["train"])


def test_inspect_takes_nothing_that_dataprep_began_for_raw_data(tiny: Made, tmp_path: Path) -> None:
    out = tiny.copy(tmp_path / "out")
    (out / "manifest.json").unlink()
    with pytest.raises(DatasetError, match="manifest"):
        dataprep.inspect(out)
    assert (hashes(out).keys() | {"manifest.json"}) == tiny.files.keys()
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        SourceError, match=r"has no manifest\.json, and is no raw data either: no images"
    ):
        dataprep.inspect(tmp_path / "empty")


def test_a_damaged_archive_of_imagenet_is_no_folder(photos: Made, tmp_path: Path) -> None:
    raw = photos.raw.copy(tmp_path / "raw").path
    archive = raw / "ILSVRC2012_img_val.tar"
    archive.write_bytes(archive.read_bytes()[:3000])
    with pytest.raises(SourceError, match=r"ILSVRC2012_img_val\.tar"):
        dataprep.inspect(raw)
    with pytest.raises(SourceError, match=r"ILSVRC2012_img_val\.tar"):
        dataprep.plan("imagenet", raw, tmp_path / "out")


def test_what_makes_no_sense_is_refused(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    assert "--json prints what --dry_run" in cli(*tiny.command(tmp_path / "o", "--json")).error
    assert not (tmp_path / "o").exists()
    with pytest.raises(UsageError, match="leave out --append"):
        dataprep.plan("imagenet", tiny.raw.path, tiny.out, append=True)
