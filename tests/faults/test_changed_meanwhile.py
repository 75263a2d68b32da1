"""Input that is exchanged while it is being worked on: refused, never sealed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dataprep.jobs.preparing import raw_images
from dataprep.sealed import verify
from tests.conftest import BEAM, Cli, Made, Shelf, hashes, leftovers


def after(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[], object]
) -> None:
    """Change something as soon as a function of a module has returned."""
    original = getattr(module, name)

    def changed(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        change()
        return result

    monkeypatch.setattr(module, name, changed)


SHARD, OTHER = "train/train-00002-of-00006", "train/train-00003-of-00006"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({SHARD: OTHER, f"index/{SHARD}": f"index/{OTHER}"}, "is not what records.parquet has"),
        ({"records.parquet": "manifest.json"}, "is not the table that was sealed"),
        ({"": ""}, "records.parquet is not the table that was sealed"),
    ],
    ids=["shard", "table", "whole"],
)
@pytest.mark.parametrize("shards", [1, 6])
def test_what_is_written_between_verifying_and_converting_is_noticed(
    cli: Cli,
    tiny: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: dict[str, str],
    said: str,
    shards: int,
) -> None:
    """What it holds, here what another file or data set holds, would be sealed under a new hash."""
    source, other = tiny.copy(tmp_path / "source"), tmp_path / "other"
    assert cli(*tiny.command(other, "--seed", 9)).code == 0

    def write() -> None:
        for name, content in written.items():
            if name:
                shutil.copy(source / content, source / name)
            else:
                shutil.copytree(other, source, dirs_exist_ok=True)

    after(monkeypatch, verify, "verify", write)
    words = ("--sink", "recordio", "--num_shards", f"train={shards}", "--to", tmp_path / "new")
    assert said in cli("convert", source, *words).error
    assert not (tmp_path / "new" / "manifest.json").exists()
    assert leftovers(tmp_path / "new") == []


def test_workers_in_another_directory_find_what_was_named_relative_to_this_one(
    cli: Cli, tiny: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(subprocess.Popen[bytes]):
        def __init__(self, words: Any, **options: Any) -> None:
            super().__init__(words, cwd="/", **options)

    monkeypatch.setattr(subprocess, "Popen", Elsewhere)
    tiny.raw.copy(tmp_path / "raw")
    monkeypatch.chdir(tmp_path)
    words = ["--raw_data_dir", "raw", "--local_scratch_dir", "out", "--index_dir", "index"]
    result = cli("imagenet", *words, *tiny.raw.options, "--workers", 5, *BEAM)
    assert result.code == 0, result
    assert hashes(tmp_path / "out") == tiny.files


def test_what_a_killed_job_published_without_a_record_goes_with_it(
    cli: Cli, shelf: Shelf, tiny: Made, tmp_path: Path
) -> None:
    out = shelf("recordio").copy(tmp_path / "out")
    (out / "manifest.json").unlink()
    for record in (out / ".dataprep" / "commits").iterdir():
        record.unlink()
    assert (out / "train.rec").exists()
    assert cli(*tiny.command(out)).code == 0
    assert hashes(out) == tiny.files


@pytest.mark.parametrize("back", [False, True], ids=["stays", "comes back"])
def test_an_archive_that_changed_between_two_runs_is_never_mixed(
    cli: Cli, photos: Made, tmp_path: Path, back: bool
) -> None:
    raw, out = photos.raw.copy(tmp_path / "raw"), tmp_path / "out"
    assert cli(*raw.command(out)).code == 0
    made = hashes(out)
    # As a run leaves it that was killed.
    (out / "manifest.json").unlink()
    (out / ".dataprep" / "commits" / "train-00000-of-00005.json").unlink()
    archive = raw.path / "ILSVRC2012_img_train.tar"
    content, status = archive.read_bytes(), archive.stat()
    middle = len(content) // 2  # the same members of the same sizes
    archive.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    if back:
        archive.write_bytes(content)
        os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert cli(*raw.command(out)).code == 0
        assert hashes(out) == made
        return
    result = cli(*raw.command(out))
    assert result.code == 1
    assert "the raw data of train-" in result.error
    assert result.error.endswith("or --overwrite to start it anew")
    assert not (out / "manifest.json").exists()


def test_an_archive_that_is_written_while_a_shard_is_made_is_noticed_before_the_commit(
    cli: Cli, photos: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, out = photos.raw.copy(tmp_path / "raw"), tmp_path / "out"
    archive = raw.path / "ILSVRC2012_img_train.tar"
    status = archive.stat()

    def rewrite() -> None:
        os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns + 1))

    after(monkeypatch, raw_images.RawImages, "convert", rewrite)
    result = cli(*raw.command(out, "--workers", 1))
    assert result.code == 1
    assert "ILSVRC2012_img_train.tar changed since it was indexed: it was modified" in result.error
    assert not [*(out / ".dataprep" / "commits").glob("train-*.json")]
    assert leftovers(out) == []


def test_rejections_do_not_outlive_a_repaired_source(cli: Cli, tiny: Made, tmp_path: Path) -> None:
    raw, out = tiny.raw.copy(tmp_path / "raw"), tmp_path / "out"
    (image, *_) = sorted(raw.path.glob("train/*/*.JPEG"))
    content = image.read_bytes()
    image.write_bytes(content[:-9])
    assert cli(*raw.command(out)).code == 3
    assert cli(*raw.command(out)).code == 3
    image.write_bytes(content)
    result = cli(*raw.command(out, "--max_bad", 1))
    assert result.code == 1
    assert f"{image.name} changed since it was indexed: it was modified" in result.error
    assert not (out / "manifest.json").exists()
    assert cli(*raw.command(out, "--overwrite")).code == 0
    assert hashes(out) == tiny.files
