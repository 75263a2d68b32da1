"""Workers outlive runs: they serve several, one after another and at the same time."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Cli, Made, hashes
from tests.dask.conftest import Cluster
from tests.faults.conftest import eventually
from tests.steering import Steer, check_same

SINK = ("--sink", "steered")


def test_raw_data_that_changed_between_two_runs_are_read_anew(
    cli: Cli, photos: Made, cluster: Cluster, tmp_path: Path
) -> None:
    raw = photos.raw.copy(tmp_path / "raw")
    assert cli(*raw.command(tmp_path / "before", *cluster.options())).code == 0
    assert hashes(tmp_path / "before") == photos.files
    # Another file of the same name and size, in which every image is another one.
    archive = raw.path / "ILSVRC2012_img_val.tar"
    data = archive.read_bytes()
    assert len(data) > 100_000
    changed = bytearray(data)
    position = -1
    while (position := data.find(b"JFIF", position + 1)) >= 0:
        changed[position + 7] ^= 1  # the density's unit: nobody looks at it
    archive.unlink()
    archive.write_bytes(changed)
    assert cli(*raw.command(tmp_path / "here", "--workers", 1)).code == 0
    assert hashes(tmp_path / "here") != photos.files
    result = cli(*raw.command(tmp_path / "there", *cluster.options()))
    assert result.code == 0, result
    assert hashes(tmp_path / "there") == hashes(tmp_path / "here")


def test_two_runs_share_a_cluster(
    cli: Cli, tiny: Made, photos: Made, cluster: Cluster, steered: None, tmp_path: Path
) -> None:
    """The first one begins first and ends last."""
    out = tmp_path / "first"
    steer = Steer.of(out)
    shard = "train-00001-of-00006"
    steer.order(shard, "wait")
    process = cli.start(*tiny.command(out, *SINK, *cluster.options()))
    eventually(lambda: steer.obeyed(shard))
    result = cli(*photos.command(tmp_path / "second", *cluster.options()))
    assert result.code == 0, result
    assert process.poll() is None
    steer.go()
    result = cli.done(process)
    assert result.code == 0, result
    check_same(tiny, out)
    check_same(photos, tmp_path / "second")
