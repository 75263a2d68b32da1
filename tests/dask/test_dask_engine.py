"""On a Dask cluster the same command makes the same bytes, however long its workers have lived."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataprep.tables import order_parts
from tests.conftest import FORMATS, Cli, Made, Shelf, hashes
from tests.dask.conftest import SHARD, SHARDS, SINK, Cluster, Held
from tests.faults.conftest import commits
from tests.steering import Steer, check_same, remains


def test_the_bytes_are_those_of_one_machine(
    cli: Cli, photos: Made, cluster: Cluster, tmp_path: Path
) -> None:
    words = ("--runner", "dask", "--dask_scheduler_file", cluster.file)
    result = cli(*photos.command(tmp_path, *words))
    assert result.code == 0, result
    check_same(photos, tmp_path)
    assert f"Dask: 2 workers, 2 threads, at {cluster.address}" in result.out
    for worker in cluster.workers:
        assert "apitools" not in cluster.log(worker).read_text()


def test_many_images_are_put_in_order_by_workers(
    cli: Cli, photos: Made, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order_parts, "LARGE", 2)
    monkeypatch.setattr(order_parts, "_PART", 4)
    result = cli(*photos.command(tmp_path, *cluster.options()))
    assert result.code == 0, result
    assert "order: train: in " in result.out
    check_same(photos, tmp_path)
    assert remains(tmp_path) == []


@pytest.mark.parametrize("name", ["recordio", "hdf5", "lmdb", "webdataset"])
def test_every_kind_of_format_is_the_same(
    cli: Cli, shelf: Shelf, cluster: Cluster, tmp_path: Path, name: str
) -> None:
    made = shelf(name)
    result = cli(*made.command(tmp_path, *cluster.options()))
    assert result.code == 0, result
    assert hashes(tmp_path) == made.files
    assert remains(tmp_path) == []


def test_converting_is_the_same(cli: Cli, tiny: Made, cluster: Cluster, tmp_path: Path) -> None:
    words = ("convert", tiny.out, *FORMATS["webdataset"], "--to")
    assert cli(*words, tmp_path / "here").code == 0
    result = cli(*words, tmp_path / "there", *cluster.options())
    assert result.code == 0, result
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")
    assert remains(tmp_path / "there") == []


def test_raw_data_that_changed_between_two_runs_are_read_anew(
    cli: Cli, photos: Made, cluster: Cluster, tmp_path: Path
) -> None:
    raw = photos.raw.copy(tmp_path / "raw")
    assert cli(*raw.command(tmp_path / "before", *cluster.options())).code == 0
    # Another file of the same name and size, in which every image has another density's unit.
    archive = raw.path / "ILSVRC2012_img_val.tar"
    data = archive.read_bytes()
    archive.unlink()
    archive.write_bytes(data.replace(b"JFIF\0\1\1\0", b"JFIF\0\1\1\1"))
    assert archive.read_bytes() != data
    assert cli(*raw.command(tmp_path / "here", "--workers", 1)).code == 0
    assert hashes(tmp_path / "here") != photos.files
    result = cli(*raw.command(tmp_path / "there", *cluster.options()))
    assert result.code == 0, result
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")


# --- who makes a shard, and when ---


def test_a_shard_that_fails_is_tried_three_times_and_others_are_finished_first(
    cli: Cli,
    tiny: Made,
    cluster: Cluster,
    steered: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dataprep_pipelines.runners.dask._PAUSE_SECONDS", 0.0)
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, "SinkError", times=9)
    command = tiny.command(out, *SINK, *cluster.options())
    result = cli(*command)
    assert result.code == 1
    assert f"{SHARD} failed 3 times: the sink's own words; finished shards" in result.error
    assert len(steer.obeyed(SHARD)) == 3
    assert len(commits(out)) == SHARDS - 1
    assert remains(out) == []
    steer.order(SHARD, "SinkError", times=0)
    assert cli(*command).code == 0
    check_same(tiny, out)


def test_a_worker_that_is_busy_is_given_nothing_more(
    cli: Cli, tiny: Made, cluster: Cluster, steered: None, tmp_path: Path
) -> None:
    held = Held.on(cluster, cli, tiny, tmp_path / "out")
    (busy,) = held.steer.obeyed(SHARD)
    status = cli("status", held.out)
    held.steer.go()
    result = held.ended()
    assert result.code == 0, result
    assert held.steer.made()[SHARD] == {busy}
    check_same(tiny, held.out)
    # From the commit records, as on one machine.
    assert "train: 5 of 6 shards, 20 of 24 images" in status.out, status
