"""Workers outlive runs: they serve several, one after another and at the same time."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Cli, Made, hashes
from tests.dask.conftest import Cluster

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
