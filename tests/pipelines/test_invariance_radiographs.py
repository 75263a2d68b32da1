"""Radiographs: the same bytes from any number of workers, any raw layout, any place, any stop."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dataprep.api.progress import Reporter
from dataprep_pipelines.runners.local import processes_for
from tests.conftest import Cli, Made, Raw, hashes, leftovers, write_radiographs


def test_threads_do_not_show(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    result = cli(*radiographs.command(tmp_path, "--workers", 4))
    assert result.code == 0, result
    assert hashes(tmp_path) == radiographs.files
    assert leftovers(tmp_path) == []


def test_worker_processes_do_not_show(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    assert processes_for(5) == 2
    result = cli(*radiographs.command(tmp_path, "--workers", 5))
    assert result.code == 0, result
    assert hashes(tmp_path) == radiographs.files
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("layout", ["tar", "zip", "folders", "flat"])
def test_the_raw_layout_does_not_show(
    cli: Cli, radiographs: Made, tmp_path: Path, layout: str
) -> None:
    write_radiographs(tmp_path / "raw", layout=layout)
    raw = replace(radiographs.raw, path=tmp_path / "raw")
    result = cli(*raw.command(tmp_path / "out", "--workers", 2))
    assert result.code == 0, result
    assert hashes(tmp_path / "out") == radiographs.files


def test_a_run_begun_on_archives_is_finished_on_the_unpacked_images_or_refused(
    cli: Cli, radiographs: Made, tmp_path: Path
) -> None:
    write_radiographs(tmp_path / "raw", layout="folders")
    out = radiographs.copy(tmp_path / "out")
    (out / "train" / "train-00001-of-00004").unlink()
    result = cli(*replace(radiographs.raw, path=tmp_path / "raw").command(out))
    if result.code == 0:
        assert hashes(out) == radiographs.files
    else:
        assert re.search("the raw data of .* changed", result.error)


def test_lists_elsewhere_and_relative_paths_do_not_show(
    cli: Cli, radiographs: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = radiographs.raw.copy(tmp_path / "raw")
    (tmp_path / "lists").mkdir()
    names = {
        "labels": "Data_Entry_2017_v2020.csv",
        "train_val_list": "train_val_list.txt",
        "test_list": "test_list.txt",
        "bbox_csv": "BBox_List_2017.csv",
    }
    for name in names.values():
        (raw.path / name).rename(tmp_path / "lists" / name)
    monkeypatch.chdir(tmp_path / "lists")
    options = [word for option, name in names.items() for word in (f"--{option}", name)]
    relative = Raw(Path(os.path.relpath(raw.path)), raw.options, raw.dataset)
    assert cli(*relative.command(Path("../out"), *options)).code == 0
    assert hashes(tmp_path / "out") == radiographs.files


def test_two_outputs_share_an_index(cli: Cli, radiographs: Made, tmp_path: Path) -> None:
    index = ("--index_dir", tmp_path / "index")
    # An index for other options of the data set is not taken for this one's.
    assert cli(*radiographs.command(tmp_path / "a", "--validation_fraction", 0.5, *index)).code == 0
    # Fewer splits and another order of the images: nothing of either is in the index.
    other = ("--splits", "test", "--num_shards", "1", "--seed", "5")
    assert "reused" not in cli(*radiographs.command(tmp_path / "b", *other, *index)).out
    result = cli(*radiographs.command(tmp_path / "c", *index))
    assert result.code == 0
    assert "index: 4 parts reused" in result.out  # three archives, and the lists
    assert hashes(tmp_path / "c") == radiographs.files


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_cleanly_and_the_same_command_ends_with_the_same_bytes(
    cli: Cli,
    radiographs: Made,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    told: list[object] = []

    def progress(self: Reporter, new: Sequence[object], under_way: int) -> None:
        told.extend(new)
        if new:
            signal.raise_signal(number)

    with monkeypatch.context() as patched:
        patched.setattr(Reporter, "progress", progress)
        patched.setattr("dataprep_pipelines.runners.engine._WATCH_SECONDS", 0.001)
        result = cli(*radiographs.command(tmp_path))
    assert told
    assert result.code == 128 + number, result
    assert f"stopped by {number.name}" in result.error
    assert "run the same command again" in result.error
    assert not (tmp_path / "manifest.json").exists()
    assert [name for name in leftovers(tmp_path) if not name.endswith("failure.json")] == []
    assert cli(*radiographs.command(tmp_path)).code == 0
    assert hashes(tmp_path) == radiographs.files
    assert leftovers(tmp_path) == []
