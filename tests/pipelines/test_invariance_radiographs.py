"""Radiographs: the same bytes from any raw layout, any place, any index."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Cli, Made, Raw, hashes, write_radiographs


@pytest.mark.parametrize("layout", ["tar", "zip", "folders", "flat"])
def test_the_raw_layout_does_not_show(
    cli: Cli, radiographs: Made, tmp_path: Path, layout: str
) -> None:
    write_radiographs(tmp_path / "raw", layout=layout)
    raw = replace(radiographs.raw, path=tmp_path / "raw")
    result = cli(*raw.command(tmp_path / "out", "--workers", 2))
    assert result.code == 0, result
    assert hashes(tmp_path / "out") == radiographs.files


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
