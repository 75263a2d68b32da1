"""Shards that fail by themselves on a Dask cluster; who makes a shard, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Cli, Made
from tests.dask.conftest import Cluster
from tests.faults.conftest import commits, eventually
from tests.steering import Steer, check_same, remains

pytestmark = pytest.mark.usefixtures("_hasty")

SHARD = "train-00003-of-00006"
SHARDS = 8  # of the tiny set
SINK = ("--sink", "steered")


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    dask = pytest.importorskip("dataprep_pipelines.runners.dask")
    monkeypatch.setattr(dask, "_PAUSE_SECONDS", 0.0)


def test_a_shard_that_fails_is_tried_three_times_and_others_are_finished_first(
    cli: Cli, tiny: Made, cluster: Cluster, steered: None, tmp_path: Path
) -> None:
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
    out = tmp_path / "out"
    steer = Steer.of(out)
    steer.order(SHARD, "wait")
    process = cli.start(*tiny.command(out, *SINK, *cluster.options()))
    eventually(lambda: len(commits(out)) == SHARDS - 1 and steer.obeyed(SHARD))
    (busy,) = steer.obeyed(SHARD)
    status = cli("status", out)
    steer.go()
    result = cli.done(process)
    assert result.code == 0, result
    assert steer.made()[SHARD] == {busy}
    check_same(tiny, out)
    # From the commit records, as on one machine.
    assert "train: 5 of 6 shards, 20 of 24 images" in status.out, status
