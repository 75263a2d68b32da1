"""Every format has the same bytes from any number of workers, threads or processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from dataprep_pipelines.runners.local import processes_for
from tests.conftest import BEAM, FORMATS, UNSIZED, Cli, Made, Shelf, hashes, leftovers


@pytest.fixture
def _single_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two workers are two processes: the ways of six and more, at a third of the price."""
    monkeypatch.setattr("dataprep_pipelines.runners.local.THREADS_PER_PROCESS", 1)
    yield
    helpers = [
        each
        for each in psutil.Process().children()
        if "dataprep_pipelines.worker" in each.cmdline()
    ]
    assert helpers == []


def check(cli: Cli, made: Made, out: Path, *words: object) -> None:
    result = cli(*words)
    assert result.code == 0, result
    assert hashes(out) == made.files
    assert leftovers(out) == []


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("shards", "workers"), [((), 4), (("--num_shards", 2), 2)], ids=["default", "2"]
)
def test_threads_do_not_show(
    cli: Cli,
    shelf: Shelf,
    tmp_path: Path,
    name: str,
    shards: tuple[object, ...],
    workers: int,
) -> None:
    made = shelf(name, *shards)
    check(cli, made, tmp_path, *made.command(tmp_path, "--workers", workers))


@pytest.mark.usefixtures("_single_threads")
@pytest.mark.parametrize("name", ["tfrecord", "lmdb", "hdf5-arrays", "recordio"])
def test_processes_that_help_with_images_do_not_show(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    """One split in one shard: one process writes, the others only convert images."""
    made = shelf(name, "--splits", "train", "--num_shards", 1)
    check(cli, made, tmp_path, *made.command(tmp_path, "--workers", 2, *BEAM))


@pytest.mark.parametrize("name", ["hdf5-caffe", "lmdb-raw"])
def test_processes_that_write_shards_do_not_show(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    """Files made once a split, such as a mean image, come from shards of several processes."""
    assert processes_for(6) == 2
    made = shelf(name, "--num_shards", 2)
    check(cli, made, tmp_path, *made.command(tmp_path, "--workers", 6, *BEAM))


@pytest.mark.parametrize("name", FORMATS)
def test_threads_do_not_show_in_a_conversion(
    cli: Cli, shelf: Shelf, tmp_path: Path, name: str
) -> None:
    source = shelf("tfrecord", "--resize", "16x16", "--num_shards", 3).out
    split_files = name in ("hdf5", "hdf5-caffe")
    for shards in ((), ("--num_shards", 2)) if split_files else ((),):
        found = []
        for workers in (1, 4):
            out = tmp_path / f"{len(shards)}-{workers}"
            result = cli(
                "convert", source, "--to", out, *UNSIZED[name], *shards, "--workers", workers
            )
            assert result.code == 0, result
            assert leftovers(out) == []
            found.append(hashes(out))
        assert found[0] == found[1]
