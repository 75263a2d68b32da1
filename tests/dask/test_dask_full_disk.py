"""A file system that fills up under Dask's workers: they cannot write down what happened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import Cli, Made
from tests.dask.conftest import Cluster
from tests.faults.conftest import commits, eventually, small_disk
from tests.steering import Steer, check_same

__all__ = ["small_disk"]

SHARDS = 8  # of the tiny set
SINK = ("--sink", "steered")


def fill(disk: Path) -> Path:
    """Take all that is left, to the last byte."""
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


@pytest.mark.parametrize("shard", ["train-00003-of-00006"])
def test_a_disk_that_is_full_to_the_last_byte_is_told_at_once_and_heals(
    cli: Cli,
    tiny: Made,
    cluster: Cluster,
    steered: None,
    small_disk: Callable[[str], Path],
    shard: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = small_disk("8m")
    monkeypatch.setattr(
        "dataprep.build.build_directory.shutil.disk_usage",
        lambda path: SimpleNamespace(free=1 << 40),
    )
    out = disk / "out"
    steer = Steer(tmp_path / "steer")
    steer.path.mkdir()
    (disk / "out.steer").symlink_to(steer.path)
    steer.order(shard, "wait")
    command = tiny.command(out, *SINK, *cluster.options())
    process = cli.start(*command)
    eventually(lambda: len(commits(out)) == SHARDS - 1 and steer.obeyed(shard))
    filler = fill(disk)
    steer.go()
    result = cli.done(process)
    filler.unlink()
    assert result.code == 1
    assert f"{out}: no space left while writing {shard}" in result.error
    assert "free some and run the same command again: finished shards are kept" in result.error
    assert "trying" not in result.out
    result = cli(*command)
    assert result.code == 0, result
    check_same(tiny, out)
