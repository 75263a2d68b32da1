"""Images that cannot be used: counted, named, accepted only on request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from PIL import Image

from tests.conftest import Cli, Made, Raw, everyday, hashes, leftovers, make, rows_of
from tests.finished_sets import manifest_of


@pytest.fixture(scope="module")
def accepted(spoilt: Raw, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What the spoilt set becomes where its bad images are accepted."""
    return make(spoilt, tmp_path_factory.mktemp("accepted") / "out", "--max_bad", 4)


def test_rejected_images_exit_with_3_and_the_way_to_accept_them_seals(
    cli: Cli, spoilt: Raw, tmp_path: Path
) -> None:
    out = tmp_path / "a directory with spaces"
    result = cli(*spoilt.command(out))
    assert result.code == 3
    assert "4 of 20 images rejected, --max_bad allows 0" in result.error
    assert sum(line.startswith("rejected: train: ") for line in result.out.splitlines()) == 4
    assert not (out / "manifest.json").exists()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*-of-*")}
    assert len(before) == 4 * 4
    assert "run the same command with --max_bad 4, without --overwrite" in result.error
    result = cli(*spoilt.command(out, "--max_bad", 4))
    assert result.code == 0
    assert "4 rejected" in result.out.splitlines()[-1]
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*-of-*")} == before
    assert (out / "manifest.json").exists()
    assert leftovers(out) == []


@pytest.mark.parametrize(("max_bad", "code"), [("3", 3), ("4", 0), ("19.9%", 3), ("20.0%", 0)])
def test_max_bad_is_a_number_or_a_share_of_all_images(
    cli: Cli, spoilt: Raw, tmp_path_factory: pytest.TempPathFactory, max_bad: str, code: int
) -> None:
    out = tmp_path_factory.getbasetemp() / "max_bad"  # made once: deciding costs no second pass
    result = cli(*spoilt.command(out, "--max_bad", max_bad))
    assert result.code == code
    assert (out / "manifest.json").exists() is (code == 0)
    (out / "manifest.json").unlink(missing_ok=True)


def test_a_lower_max_bad_leaves_an_earlier_seal(cli: Cli, accepted: Made, tmp_path: Path) -> None:
    out = accepted.copy(tmp_path / "out")
    result = cli(*accepted.command(out))
    assert result.code == 3
    assert "an earlier seal" in result.error
    assert hashes(out) == accepted.files


def test_the_manifest_accounts_for_every_image(accepted: Made) -> None:
    out, raw = accepted.out, accepted.raw.path
    manifest = manifest_of(out)
    on_disk = {
        "train": {f"{path.parent.name}/{path.name}" for path in (raw / "train").rglob("*.JPEG")},
        "validation": {path.name for path in (raw / "validation").iterdir()},
    }
    for name, split in manifest["splits"].items():
        rows = [row for row in rows_of(out) if row["split"] == name]
        assert {row["key"] for row in rows} == on_disk[name]
        assert split["images_found"] == len(on_disk[name]) == len(rows)
        assert split["records"] + split["rejected"] == split["images_found"]
        assert sum(split["class_records"].values()) == split["records"]
        assert sum(shard["records"] for shard in split["shards"]) == split["records"]
    rejected = rows_of(out, "rejected")
    assert len(rejected) == manifest["splits"]["train"]["rejected"] == 4
    assert len({row["reason"] for row in rejected}) == 4
    assert manifest["totals"]["rejected"] == 4
    assert manifest["records_table"]["rows"] == len(rows_of(out))


def test_a_cmyk_jpeg_and_a_png_are_repaired_and_noted(cli: Cli, accepted: Made) -> None:
    noted = rows_of(accepted.out, "repaired", "warned")
    assert len(noted) == 2
    assert sorted("PNG" in image["reason"] for image in noted) == [False, True]
    assert sorted("CMYK" in image["reason"] for image in noted) == [False, True]
    status = cli("status", accepted.out)
    for image in noted:
        assert image["key"] in status.out
    assert status.out.count("rejected: train: ") == 4
    inspected = cli("inspect", accepted.out).out
    assert "4 rejected, 2 repaired, 0 warned" in inspected
    assert inspected.count("repaired: train: ") == 2
    assert inspected.count("rejected: train: ") == 3
    assert inspected.endswith("and 1 more; records.parquet names all of them\n")


def test_an_empty_shard_is_never_sealed(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "raw" / "train" / "n01440764"
    folder.mkdir(parents=True)
    (folder / "n01440764_1.JPEG").write_bytes(b"not an image")
    places = ("--raw_data_dir", tmp_path / "raw", "--local_scratch_dir", tmp_path / "out")
    result = cli("imagenet", *places, "--splits", "train", "--max_bad", "100%")
    assert result.code == 1
    assert "train-00000-of-00001 is empty" in result.error
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_large_files_are_rejected_and_the_limit_is_part_of_the_recipe(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    raw, out = folders.raw.copy(tmp_path / "raw"), tmp_path / "out"
    os.truncate(raw.path / "bar/0.jpg", 5 << 30)  # a hole
    os.truncate(raw.path / "bar/1.jpg", 200_001)
    result = cli(*raw.command(out, "--max_image_bytes", 200_000, "--max_bad", 2))
    assert result.code == 0, result
    assert sorted(row["reason"] for row in rows_of(out, "rejected")) == [
        "200,001 bytes, at most 200,000 allowed (--max_image_bytes)",
        "5,368,709,120 bytes, at most 200,000 allowed (--max_image_bytes)",
    ]
    assert manifest_of(out)["image"]["options"]["max_image_bytes"] == "200000"
    error = cli(*raw.command(out, "--max_bad", 2)).error
    assert "--max_image_bytes 200000, now none" in error


@pytest.mark.parametrize("header", everyday(["key, split ,more"], ['"split","key"']))
def test_names_to_exclude_are_csv_as_programs_write_it(
    cli: Cli, tiny: Made, tmp_path: Path, header: str
) -> None:
    key = "n01491361/n01491361_7.JPEG"
    row = f"train,{key}" if header[0] == '"' else f"{key},train,"
    (tmp_path / "names").write_text(f"{header}\r\n{row}\r\n")
    words = tiny.command(tmp_path / "out", "--exclude", tmp_path / "names", "--num_shards", 1)
    assert cli(*words).code == 0
    assert [row["key"] for row in rows_of(tmp_path / "out", "excluded")] == [key]


def test_names_to_exclude_with_tabs_are_no_plain_list(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("split\tkey\ntrain\ta\n")
    error = cli(*tiny.command(tmp_path / "out", "--exclude", tmp_path / "names")).error
    assert "expected a CSV with the columns split and key" in error


def test_names_to_exclude_may_be_bare_where_they_are_unique(
    cli: Cli, folders: Made, tmp_path: Path
) -> None:
    raw, names = folders.raw.copy(tmp_path / "raw"), tmp_path / "names.txt"
    (raw.path / "bar" / "0.jpg").rename(raw.path / "bar" / "only.jpg")
    names.write_text("only.jpg\n\nbar/1.jpg\n2.jpg\n")  # 2.jpg is in three folders
    words = raw.command(tmp_path / "out", "--exclude", names)
    refused = cli(*words)
    assert refused.code == 3
    assert "1 name in --exclude that no image has, or several have, --max_bad" in refused.error
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert cli(*words, "--max_bad", 1).code == 0
    left = {row["key"] for row in rows_of(tmp_path / "out", "excluded")}
    assert left == {"bar/only.jpg", "bar/1.jpg"}


def test_names_of_splits_that_were_not_asked_for_count_only_if_they_may_be_there(
    cli: Cli, tiny: Made, tmp_path: Path
) -> None:
    names = tmp_path / "names.csv"
    names.write_text("split,key\nvalidation,ILSVRC2012_val_00000001.JPEG\n")
    train = ("--splits", "train", "--num_shards", "train=2")
    words = tiny.command(tmp_path / "out", "--exclude", names, *train)
    assert cli(*words).code == 0
    names.write_text("split,key\ntrain,ILSVRC2012_val_00000001.JPEG\n")
    assert cli(*tiny.command(tmp_path / "out2", "--exclude", names, *train)).code == 3


def test_no_byte_is_shown_of_what_a_link_out_of_raw_leads_to(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "raw" / "a"
    folder.mkdir(parents=True)
    Image.new("L", (8, 8)).save(tmp_path / "elsewhere.png")
    (tmp_path / "secret").write_bytes(b"password")
    (tmp_path / "raw" / "notes").write_bytes(b"no image")
    for name, target in (("good.png", "elsewhere.png"), ("out.jpg", "secret")):
        (folder / name).symlink_to(tmp_path / target)
    (folder / "in.jpg").symlink_to("../notes")
    (tmp_path / "link").symlink_to("raw")
    words = ("--raw", tmp_path / "link", "--out", tmp_path / "out", "--max_bad", 2)
    result = cli("folder", *words, "--splits", "train")
    assert result.code == 0, result
    assert "2 rejected" in result.out
    out_of_raw = "8 bytes, in a link that leads out of the raw directory"
    assert (
        f"out.jpg: not a JPEG, PNG, GIF, BMP, TIFF, WebP, AVIF, HEIC, JPEG 2000, JPEG XL or "
        f"DICOM image: {out_of_raw}" in result.out
    )
    assert "starting with b'no image'" in result.out
    assert "pass" not in f"{result.out}{rows_of(tmp_path / 'out')}"
