"""On a Dask cluster the same command makes the same bytes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import FORMATS, Cli, Made, Shelf, hashes
from tests.dask.conftest import Cluster
from tests.steering import check_same, remains


def test_the_bytes_are_those_of_one_machine(
    cli: Cli, photos: Made, cluster: Cluster, tmp_path: Path
) -> None:
    result = cli(*photos.command(tmp_path, *cluster.options()))
    assert result.code == 0, result
    assert hashes(tmp_path) == photos.files
    check_same(photos, tmp_path)
    assert f"Dask: 2 workers, 2 threads, at {cluster.address}" in result.out
    for worker in cluster.workers:
        assert "apitools" not in cluster.log(worker).read_text()


@pytest.mark.parametrize("name", ["recordio", "hdf5", "lmdb", "webdataset"])
def test_every_kind_of_format_is_the_same(
    cli: Cli, shelf: Shelf, cluster: Cluster, tmp_path: Path, name: str
) -> None:
    made = shelf(name)
    result = cli(*made.command(tmp_path, *cluster.options()))
    assert result.code == 0, result
    assert hashes(tmp_path) == made.files
    assert remains(tmp_path) == []


def test_a_scheduler_file_says_where_the_cluster_is(
    cli: Cli, tiny: Made, cluster: Cluster, tmp_path: Path
) -> None:
    result = cli(*tiny.command(tmp_path, "--runner", "dask", "--dask_scheduler_file", cluster.file))
    assert result.code == 0, result
    check_same(tiny, tmp_path)


def test_converting_is_the_same(cli: Cli, tiny: Made, cluster: Cluster, tmp_path: Path) -> None:
    words = ("convert", tiny.out, *FORMATS["webdataset"], "--to")
    assert cli(*words, tmp_path / "here").code == 0
    result = cli(*words, tmp_path / "there", *cluster.options())
    assert result.code == 0, result
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")
    assert remains(tmp_path / "there") == []


def test_adding_images_is_the_same(
    cli: Cli, folders: Made, cluster: Cluster, tmp_path: Path
) -> None:
    cut = ("--fractions", "train=0.7,test=0.3", "--workers", "1")
    raw = replace(folders.raw.copy(tmp_path / "raw"), options=cut)
    for number in range(4):
        shutil.copy(raw.path / "bar" / f"{number}.jpg", raw.path / "bar" / f"new{number}.jpg")
    for place, options in (("here", ()), ("there", cluster.options())):
        folders.copy(tmp_path / place)
        result = cli(*raw.command(tmp_path / place, "--append", *options))
        assert result.code == 0, result
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here") != folders.files
    assert remains(tmp_path / "there") == []
